//! The changes that an ordinary session makes to ledger tables by plain SQL. They are recorded,
//! undone at COMMIT, and submitted to the order (docs/consistency.md).
//!
//! The changes are made in the ledger part of the transaction, a subtransaction whose end undoes
//! them (invariant W1). Changes of other objects would be undone with it, so a ledger part has
//! changes of ledger tables alone, or of other objects alone.
use std::cell::RefCell;

use chainify_codec::decode_row;
use chainify_ledger::captured::{Found, Reads};
use chainify_ledger::node_messages::SealedValue;
use chainify_ledger::write_set::{Bound, Isolation, WriteSet};
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::PgError;
use crate::pg::base::relation::Tuple;
use crate::pg::base::role::{checks_foreign_keys, Role};
use crate::pg::base::subtransaction::Hooks;
use crate::pg::session_transaction;
use crate::pg::shared::conflict_memory;
use crate::session::changed_rows::Changes;

/// The work of the session's transaction. A rollback to a savepoint takes back the work since.
#[derive(Default)]
struct Work {
    changes: Changes,
    /// The rows of ledger tables that a SERIALIZABLE transaction has read, from its first statement
    /// on. A rollback to a savepoint leaves them: the client has seen them.
    reads: Reads,
    /// The role of the changes; None: no part is open.
    role: Option<Role>,
    /// The first change of something else that the part made.
    local: Option<String>,
    /// Triggers run now, and run again when the rest of the transaction is committed.
    early_triggers: bool,
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// At the ends of transactions.
pub const ENDS: Hooks = Hooks {
    begin: || WORK.with_borrow_mut(|work| work.changes.mark()),
    release: || WORK.with_borrow_mut(|work| work.changes.keep()),
    undo: || WORK.with_borrow_mut(|work| work.changes.undo()),
    end: || {
        if phase() == Phase::Plain {
            conflict_memory::gives_up(false);
        }
        WORK.with_borrow_mut(|work| *work = Work::default());
    },
};

/// The part has begun: the session records changes of ledger tables, for this role.
pub fn begin() {
    conflict_memory::gives_up(true);
    WORK.with_borrow_mut(|work| work.role = Some(Role::current()));
}

/// The part is over, and its changes have left the session. Must not raise.
pub fn end() {
    conflict_memory::gives_up(false);
    WORK.with_borrow_mut(|work| {
        work.changes.start();
        (work.role, work.local) = (None, None);
        work.early_triggers = false;
    });
}

/// Records a change of a ledger table.
pub fn record(change: &mut dyn FnMut(&mut Changes)) {
    WORK.with_borrow_mut(|work| {
        if let Some(local) = &work.local {
            PgError::new(
                b"0A000",
                format!("this transaction has changed {local} and cannot change ledger tables now"),
            )
            .detail("Changes of ledger tables are undone here and applied when they were ordered.")
            .hint("Change ledger tables in a transaction of their own, or before the part of the transaction that calls functions.")
            .raise();
        }
        if work.early_triggers {
            early_trigger("change ledger tables").raise();
        }
        change(&mut work.changes);
    });
}

/// Deferred triggers of changes from before the part begin, or have ended.
pub fn early_triggers(begin: bool) {
    WORK.with_borrow_mut(|work| work.early_triggers = begin);
}

fn early_trigger(what: &str) -> PgError {
    PgError::new(
        b"0A000",
        format!("a deferred trigger of an earlier change cannot {what}"),
    )
    .detail("It would run again when the earlier change is committed, after the ledger tables.")
    .hint("Fire it before the first change of a ledger table with SET CONSTRAINTS ALL IMMEDIATE, or make the earlier change in a transaction of its own.")
}

/// Raises when a trigger that runs again reads what it will not find then: its snapshot is older
/// than the block of the transaction. Checks of foreign keys use a newer one.
pub fn reads_early(relation: Oid) {
    let old_snapshot =
        session_transaction::isolation() != session_transaction::Isolation::ReadCommitted;
    let early = WORK.with_borrow(|work| work.early_triggers);
    if !early || !old_snapshot || checks_foreign_keys() {
        return;
    }
    let Some(table) = tables::owner(relation) else {
        return;
    };
    if WORK.with_borrow(|work| work.changes.are_of(&table.name)) {
        early_trigger(&format!("read table \"{}\"", table.name)).raise();
    }
}

/// Notes that the session has locked a row; one of a table beside the ledger is left out.
pub fn locked(relation: Oid, row: &Tuple) {
    let Some(leaf) = tables::leaf(relation).filter(|_| phase() == Phase::Plain) else {
        return;
    };
    let (mut key, mut bytes) = (Vec::new(), Vec::new());
    leaf.encoder.key(row, &mut key);
    leaf.encoder.row(row, &mut bytes);
    let hash = leaf.table.rows.hash(&bytes);
    WORK.with_borrow_mut(|work| work.changes.see(&leaf, key, hash));
}

/// Notes what the transaction, which is SERIALIZABLE, reads of a ledger table.
pub fn read(table: &str, bounds: Vec<Bound>) {
    WORK.with_borrow_mut(|work| work.reads.add(table, bounds));
}

/// The reads noted so far.
pub fn reads() -> Reads {
    WORK.with_borrow(|work| work.reads.clone())
}

/// Notes a change of something that is not on the ledger; raises when ledger tables were changed.
pub fn changes_locally(object: impl FnOnce() -> String) {
    WORK.with_borrow_mut(|work| {
        if work.local.is_some() {
            return;
        }
        let object = object();
        if work.changes.has_written() {
            PgError::new(
                b"0A000",
                format!("this transaction has changed ledger tables and cannot change {object} now"),
            )
            .detail("Changes of ledger tables are undone here and applied when they were ordered. Later changes of other objects would be lost.")
            .hint("Change it before the ledger tables, or in a transaction of its own.")
            .raise();
        }
        work.local = Some(object);
    });
}

/// Whether the session's transaction has changed ledger tables.
pub fn has_changes() -> bool {
    WORK.with_borrow(|work| work.changes.has_written())
}

/// The key of the only row of a ledger table that the transaction has changed or locked. None:
/// there is none, or there are several. Must not raise.
pub fn only_row(table: &str) -> Option<String> {
    WORK.with(|work| {
        let work = work.try_borrow().ok()?;
        let mut keys = work.changes.keys(table);
        let first = keys.next()?;
        let values = decode_row(first)
            .ok()
            .filter(|_| keys.all(|key| key == first))?;
        let values: Vec<String> = values.iter().map(|(_, value)| value.to_text()).collect();
        Some(values.join(", "))
    })
}

/// Gives the open part, which has no changes, to another role.
pub fn follow(role: Role) {
    WORK.with_borrow_mut(|work| work.role = Some(role));
}

/// The role of the part's changes; None: no part is open.
pub fn role() -> Option<Role> {
    WORK.with_borrow(|work| work.role)
}

/// Keeps a private value that the session has sealed. Raises 54000 for too many.
pub fn seal(value: SealedValue) {
    WORK.with_borrow_mut(|work| work.changes.seal(value));
}

/// The private values whose commitments a write set has. Cost: linear in its bytes.
pub fn sealed_in(write_set: &[u8]) -> Vec<SealedValue> {
    WORK.with_borrow(|work| work.changes.sealed_in(write_set))
}

/// The write set of the transaction with these reads and the rows that they found; None when it
/// changed no ledger table.
pub fn write_set(
    snapshot: u64,
    isolation: Isolation,
    reads: &Reads,
    found: &[Found],
) -> Option<WriteSet> {
    WORK.with_borrow(|work| work.changes.write_set(snapshot, isolation, reads, found))
}
