//! PREPARE TRANSACTION: a prepared transaction keeps its locks until somebody ends it, and cannot
//! give way to a block. So it holds none that a block needs.
use crate::ledger::tables;
use crate::pg::base::error::PgError;
use crate::pg::base::{held_locks, settings};

/// The transaction is about to be prepared: gives up its locks of reading, which a block that
/// changes definitions would wait for. Raises 0A000 when it holds others on ledger tables.
pub fn before_prepare() {
    if !settings::guard() || !tables::is_own() {
        return;
    }
    let held = held_locks::held();
    let mut owners = held.relations.into_iter().filter_map(tables::owner);
    let held = match owners.next() {
        Some(table) => format!("locks on ledger table \"{}\"", table.name),
        None if held.own => "a lock of the ledger".to_owned(),
        None => return held_locks::release_reads(),
    };
    PgError::new(
        b"0A000",
        format!("a transaction that holds {held} cannot be prepared"),
    )
    .detail("Blocks would wait for it until somebody ends it. Foreign keys that refer to ledger tables take such locks, as do FOR UPDATE and LOCK TABLE.")
    .hint("COMMIT it, with chainify.local_writes = 'commit'.")
    .raise();
}
