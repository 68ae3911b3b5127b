//! Whether the session works for the ledger: executes a block, or repairs.
//!
//! Hooks of the executor ask for each statement, and most statements are those of blocks. So the
//! answer is in a process-wide static, since access to a thread-local variable costs a call.
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static RUNS: AtomicBool = AtomicBool::new(false);

/// Whether the statements that run now belong to the ledger's work: they are no part of a
/// transaction of the session's own, and change nothing that is kept about one.
#[inline]
pub(crate) fn runs() -> bool {
    RUNS.load(Relaxed)
}

/// From now on it does such work, or not; gives what held before.
pub fn set(runs: bool) -> bool {
    RUNS.swap(runs, Relaxed)
}
