//! Subtransactions: a failure inside one undoes it alone.
use pgrx::pg_sys;

use crate::base::error::{attempt_undone, PgError};

/// Runs `f` in a subtransaction; an error raised or returned rolls it back. A Rust panic ends the
/// whole transaction.
pub fn subtransaction<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    // SAFETY: the pattern of PL/pgSQL's EXCEPTION: memory context and resource owner are put back
    // after either end.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = attempt_undone(f).and_then(|result| result);
        match result {
            Ok(_) => pg_sys::ReleaseCurrentSubTransaction(),
            Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// Runs `f`, which may change nothing in the database.
pub fn read_only<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    subtransaction(|| {
        // SAFETY: the end of the subtransaction puts back what was before.
        unsafe { pg_sys::XactReadOnly = true };
        f()
    })
}

/// Whether the transaction may change nothing in the database.
pub fn is_read_only() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::XactReadOnly }
}

/// The effect of a transaction's end on state kept in the backend; nothing when the backend itself
/// ends (FATAL), which may happen while that state is in use. None of the functions may raise.
pub struct Hooks {
    /// A subtransaction begins.
    pub begin: fn(),
    /// The innermost subtransaction became part of its parent.
    pub release: fn(),
    /// The innermost subtransaction is undone.
    pub undo: fn(),
    /// The transaction is over, either way.
    pub end: fn(),
}
