//! Which rows a query or a scan sees.
use pgrx::pg_sys;

/// Which snapshot a query sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The snapshot of the calling statement: several queries of one call then see the same
    /// database.
    Statement,
    /// Also what this transaction has written since.
    Latest,
}

/// Runs `f` under a snapshot as a new statement would see it: with all that this transaction has
/// done so far.
pub fn as_next_statement<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: a transaction is in progress.
    unsafe { pg_sys::CommandCounterIncrement() };
    under_snapshot(f)
}

/// Runs `f` under a snapshot of now, where no statement runs that has one. An ERROR ends the
/// transaction, and the snapshot with it.
pub fn under_snapshot<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: a transaction is in progress; the snapshot is popped in the same frame.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}
