//! Restricts PREPARE TRANSACTION. A prepared transaction keeps its locks until somebody ends it,
//! and cannot give way to a block. So one with locks that a block needs is refused.
use crate::ledger::tables;
use crate::pg::base::error::PgError;
use crate::pg::base::{held_locks, settings};

/// The transaction, which has changed and locked no row of a ledger table, is about to be prepared.
/// It gives up the locks on such tables that its statements and LOCK TABLE took: a block that
/// changes definitions would wait for them. Raises 0A000 when it holds others.
pub fn before_prepare() {
    if !settings::guard() || !tables::is_own() {
        return;
    }
    held_locks::release_weak(|relation| tables::owner(relation).is_some());
    let owner = held_locks::strong().into_iter().find_map(tables::owner);
    let held = match owner {
        Some(table) => format!("a lock on ledger table \"{}\"", table.name),
        None if held_locks::has_own() => "a lock of the ledger".to_owned(),
        None => return,
    };
    PgError::new(
        b"0A000",
        format!("a transaction that holds {held} cannot be prepared"),
    )
    .detail("Blocks would wait for it until somebody ends it.")
    .hint("COMMIT it instead; plain SQL needs chainify.local_writes = 'commit' for that.")
    .raise();
}
