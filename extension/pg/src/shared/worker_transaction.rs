//! The transaction that an executor worker holds open between two messages of its leader.
use pgrx::pg_sys;

use crate::base::error::{attempt_undone, PgError};

/// Starts a transaction and runs `f` in it. It stays open after Ok; after Err nothing is open.
pub fn begin<T>(f: impl FnOnce() -> T) -> Result<T, PgError> {
    let work = || {
        // SAFETY: called with no transaction open; the snapshot lives until the transaction ends.
        unsafe {
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
            pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
            pg_sys::XactReadOnly = false;
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let result = f();
        // SAFETY: pushed above; `f` left the stack as it found it.
        unsafe { pg_sys::PopActiveSnapshot() }
        result
    };
    // SAFETY: rolled back after an Err.
    unsafe { attempt_undone(work) }.inspect_err(|_| roll_back())
}

/// Commits what [`begin`] left open; after Err nothing is open.
pub fn commit() -> Result<(), PgError> {
    // SAFETY: a transaction is open, and rolled back after an Err.
    let done = unsafe {
        attempt_undone(|| {
            pg_sys::CommitTransactionCommand();
            pg_sys::pgstat_report_stat(false);
        })
    };
    done.inspect_err(|_| roll_back())
}

/// Rolls back what is open, if anything, as the server does when a statement has failed.
pub fn roll_back() {
    // SAFETY: what the server's own loop does between two commands.
    unsafe {
        pg_sys::error_context_stack = std::ptr::null_mut();
        pg_sys::QueryCancelPending = 0;
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        pg_sys::pgstat_report_stat(false);
    }
}
