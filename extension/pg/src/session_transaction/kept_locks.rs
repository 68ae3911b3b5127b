//! Locks of the session's transaction that no block needs: advisory locks, and locks of tables
//! beside the ledger. They are held until the transaction's changes are applied here or refused.
//!
//! Invariant W5: no other session gets such a lock between the undo of the part and that moment.
//! The lock is made one of the session, so that it outlives the transaction.
use std::cell::{Cell, RefCell};

use crate::base::held_locks::{self, Held};
use crate::session_transaction::state::ABOVE;

thread_local! {
    /// The transaction may hold some: only then it is worth a look at the locks of the server.
    static SOME: Cell<bool> = const { Cell::new(false) };
    /// Those that the session holds in its transaction's place.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// The transaction takes a lock by LOCK or by a function.
pub fn note() {
    SOME.set(true);
}

/// The transaction has ended.
pub(super) fn end() {
    SOME.set(false);
}

/// Has the session hold the locks of its transaction. To be called in the part, before its undo.
pub(super) fn hold() {
    if SOME.get() {
        let held = held_locks::beside(ABOVE.get().keeps_lock);
        held_locks::hold(&held);
        HELD.set(held);
    }
}

/// Gives them back to the transaction, which goes on after the undo.
pub(super) fn hand_back() {
    held_locks::hand_back(&HELD.take());
}

/// Lets them go. Must not raise.
pub(super) fn let_go() {
    held_locks::let_go(&HELD.take());
}
