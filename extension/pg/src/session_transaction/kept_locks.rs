//! Locks of the session's transaction that no block needs: advisory locks, and locks of tables
//! beside the ledger. They are held until the transaction's changes are applied here or refused.
//!
//! Invariant W5: no other session gets such a lock between the undo of the part and that moment.
//! The lock is made one of the session, so that it outlives the transaction.
use crate::base::backend::BACKEND;
use crate::base::held_locks;
use crate::session_transaction::state::ABOVE;

/// The transaction takes a lock by LOCK or by a function.
pub fn note() {
    BACKEND.session.locks.some.set(true);
}

/// The transaction has ended.
pub(super) fn end() {
    BACKEND.session.locks.some.set(false);
}

/// Has the session hold the locks of its transaction. To be called in the part, before its undo.
pub(super) fn hold() {
    if BACKEND.session.locks.some.get() {
        let held = held_locks::beside(ABOVE.get().keeps_lock);
        held_locks::hold(&held);
        BACKEND.session.locks.held.replace(held);
    }
}

/// Gives them back to the transaction, which goes on after the undo.
pub(super) fn hand_back() {
    held_locks::hand_back(&BACKEND.session.locks.held.take());
}

/// Lets them go. Must not raise.
pub(super) fn let_go() {
    held_locks::let_go(&BACKEND.session.locks.held.take());
}
