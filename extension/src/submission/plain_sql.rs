//! Plain SQL through the ledger: the changes of a session's transaction are undone when it commits,
//! submitted as one EFFECTS transaction, and the session waits for its outcome.
//!
//! Source: simulate, order, validate, as in Hyperledger Fabric and Fabric++ (Sharma, Schuhknecht,
//! Agrawal, Dittrich, SIGMOD 2019).
use chainify_ledger::captured::Reads;
use chainify_ledger::messages::{Client, Kind, Proposal};
use chainify_ledger::node_messages::Statement as Submitted;
use chainify_ledger::proposal_id;
use chainify_ledger::write_set::{Isolation, WRITE_SET_BYTES_MAX};
use chainify_worker::prepared::Name;
use pgrx::pg_sys::Oid;

use crate::block::lock_conflicts;
use crate::guard::prepared;
use crate::ledger::tables;
use crate::pg::base::backend::{phase, unrecorded, Phase};
use crate::pg::base::catalog::{self, greatest};
use crate::pg::base::crash;
use crate::pg::base::error::{attempt, OrRaise, PgError};
use crate::pg::base::interrupts::drop_cancel;
use crate::pg::base::random;
use crate::pg::base::role::Role;
use crate::pg::base::settings::{self, LocalWrites, Writes};
use crate::pg::base::snapshot::under_snapshot;
use crate::pg::session_transaction::{self, Failed, PlainSql, Remaining, Statement};
use crate::rules::relations;
use crate::session::plain_sql;
use crate::submission::as_sql;
use crate::submission::reads;
use crate::submission::submit::{
    ask_status, bytea, deadline, failure, how_to_wait, outcome, submit_and_wait, submitting_role,
    Need, ANSWER_GRACE,
};

/// For how many heights a transaction is valid whose session has prepared local changes. After a
/// crash they keep their locks until these have passed, if the transaction was never ordered.
const PREPARED_VALID_HEIGHTS: u64 = 200;

/// The answers for the hooks.
pub const PLAIN_SQL: PlainSql = PlainSql {
    wanted,
    needs_part,
    begun: plain_sql::begin,
    locked: plain_sql::locked,
    execute: as_sql::execute,
    has_changes: plain_sql::has_changes,
    early_triggers: plain_sql::early_triggers,
    take,
    keeps_lock,
    prepares: prepared::before_prepare,
    gives_up: || lock_conflicts::gives_up(plain_sql::only_row),
    over: plain_sql::end,
};

/// The error to report instead of a cancel or, when it is `fatal`, a termination.
pub fn explain(fatal: bool) -> Option<PgError> {
    lock_conflicts::explain(fatal, plain_sql::only_row)
}

/// Whether changes of ledger tables by this session go through the ledger.
///
/// Asked for every statement of a block too, so that the mode decides first.
fn wanted() -> bool {
    matches!(phase(), Phase::Outside | Phase::Plain)
        && settings::writes() != Writes::Refuse
        && settings::guard()
}

/// A statement that may change ledger tables or lock rows of them, of a role that may submit.
fn needs_part(statement: &Statement) -> bool {
    let is_of_ledger =
        |table: &Oid| tables::owner(*table).is_some() || relations::is_opened(*table);
    let on_ledger = |tables: &[Oid]| tables.iter().any(is_of_ledger);
    let may = statement.may_run_others
        || on_ledger(&statement.writes)
        || on_ledger(&statement.locks_rows);
    if let Some(role) = plain_sql::role() {
        if may && !plain_sql::has_changes() {
            follow(role);
        } else {
            check_role(role);
        }
        return false;
    }
    may && tables::is_own() && submitting_role(Need::Client).is_ok()
}

/// Blocks lock tables on the ledger, with their views and sequences, and the ledger's own.
fn keeps_lock(table: Oid) -> bool {
    let own = catalog::schema_name(catalog::schema_of(table))
        .is_some_and(|schema| schema.starts_with("chainify"));
    let other =
        catalog::is_catalog(table) || catalog::is_view(table) || catalog::is_sequence(table);
    !own && !other && tables::owner(table).is_none()
}

/// The changes to come are of the role that the session has now. A SECURITY DEFINER function, which
/// runs as another, does not make them its own.
fn follow(role: Role) {
    let now = Role::chosen();
    if now == role {
        return;
    }
    if Role::current() == now {
        submitting_role(Need::Client).or_raise();
    }
    plain_sql::follow(now);
}

/// All changes of a transaction are applied as one role.
fn check_role(role: Role) {
    let now = Role::current();
    if now != role && plain_sql::has_changes() {
        PgError::new(
            b"0A000",
            format!(
                "role \"{}\" cannot go on with a transaction in which \"{}\" changed ledger tables",
                now.name(),
                role.name()
            ),
        )
        .detail("Every organisation applies the changes of a transaction as one role.")
        .hint("COMMIT before SET ROLE.")
        .raise();
    }
}

fn take() -> Option<Box<dyn Remaining>> {
    if !plain_sql::has_changes() {
        return None;
    }
    let role = plain_sql::role().unwrap_or_else(Role::current);
    let last = under_snapshot(|| greatest("chainify_ledger", "block", "block_pkey"));
    let snapshot = last.unwrap_or_default().unsigned_abs();
    let found = || under_snapshot(|| reads::with_rows(role, &plain_sql::reads()));
    let (reads, found) = match isolation() {
        Isolation::Serializable => unrecorded(found).or_raise(),
        _ => (Reads::default(), Vec::new()),
    };
    let set = plain_sql::write_set(snapshot, isolation(), &reads, &found)?;
    let effects = set.encode();
    if effects.len() > WRITE_SET_BYTES_MAX {
        PgError::new(
            b"54000",
            format!(
                "the transaction's changes take {} bytes, at most {WRITE_SET_BYTES_MAX} are allowed",
                effects.len()
            ),
        )
        .hint("Commit in smaller parts.")
        .raise();
    }
    let statement = Submitted {
        kind: Kind::Effects as i32,
        sealed: plain_sql::sealed_in(&effects),
        effects,
        ..Submitted::default()
    };
    Some(Box::new(Order {
        role: role.name(),
        statement,
    }))
}

fn isolation() -> Isolation {
    match session_transaction::isolation() {
        session_transaction::Isolation::ReadCommitted => Isolation::ReadCommitted,
        session_transaction::Isolation::RepeatableRead => Isolation::RepeatableRead,
        session_transaction::Isolation::Serializable => Isolation::Serializable,
    }
}

/// Has the changes ordered.
struct Order {
    role: String,
    statement: Submitted,
}

impl Remaining for Order {
    /// Names local changes after the transaction, whose id needs what the node tells.
    fn name(&mut self) -> Result<Option<String>, PgError> {
        if settings::local_writes() != LocalWrites::Prepare {
            return Ok(None);
        }
        let node = ask_status(ANSWER_GRACE)?;
        let key = random::key();
        let nonce = key.iter().take(8);
        let nonce = nonce.fold(0, |nonce, byte| nonce << 8 | u64::from(*byte));
        let valid_until = node.height.unsigned_abs() + PREPARED_VALID_HEIGHTS;
        (self.statement.nonce, self.statement.valid_until_height) = (nonce, valid_until);
        let id = proposal_id(&Proposal {
            chain_id: node.chain_id,
            client: Some(Client {
                organisation: node.organisation,
                role: self.role.clone(),
                key: Vec::new(),
            }),
            nonce,
            valid_until_height: valid_until,
            kind: self.statement.kind,
            effects: self.statement.effects.clone(),
            ..Proposal::default()
        });
        Ok(Some(Name { id, valid_until }.to_string()))
    }

    /// Waits until this database has applied or refused them.
    fn run(self: Box<Self>) -> Result<(), Failed> {
        let until = deadline();
        let (id, early) =
            submit_and_wait(self.role, self.statement, until).map_err(not_submitted)?;
        if early.is_some() {
            // The transaction has ended: a cancel that came meanwhile must not reach what is left.
            drop_cancel();
            lock_conflicts::take_cancel();
        }
        crash::point("local_submitted");
        let outcome = loop {
            if let Some(outcome) = early {
                break outcome;
            }
            match attempt(|| outcome(&id, until)).and_then(|outcome| outcome) {
                // For the sake of a block, which has had its way since: the changes are undone.
                Err(error) if is_cancel(&error) && lock_conflicts::take_cancel() => {}
                Err(error) => return Err(unknown(error, &id)),
                Ok(outcome) => break outcome,
            }
        };
        match outcome.succeeded {
            true => Ok(()),
            false => Err(Failed {
                error: failure(outcome),
                known: true,
            }),
        }
    }
}

/// Whether the node has the transaction is unknown when its answer is lost, or cannot be read.
fn not_submitted(error: PgError) -> Failed {
    let known = !matches!(error.sqlstate.as_str(), "08006" | "08P01" | "57014");
    Failed { error, known }
}

fn is_cancel(error: &PgError) -> bool {
    error.sqlstate.as_str() == "57014"
}

/// The user cancelled the wait, and the transaction goes its way.
fn unknown(error: PgError, id: &[u8]) -> Failed {
    let error = match is_cancel(&error) {
        true => error
            .detail(format!(
                "Transaction {} was submitted and may still be applied.",
                bytea(id)
            ))
            .hint(how_to_wait(id)),
        false => error,
    };
    let known = false;
    Failed { error, known }
}
