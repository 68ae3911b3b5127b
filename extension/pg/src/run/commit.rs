//! The callbacks around the commit of this session's transaction.
use pgrx::pg_sys;

/// Called at the end of every transaction of every session, so they look first whether there is
/// anything to do.
pub struct CommitHooks {
    /// All statements are done, the transaction can still fail. May raise.
    pub before: fn(),
    /// The same, and PREPARE TRANSACTION follows.
    pub before_prepare: fn(),
    /// The transaction is committed. Must not raise.
    pub committed: fn(),
    /// It is rolled back. Must not raise.
    pub rolled_back: fn(),
}

/// Whether this session's transaction is an ordinary one at its start: nothing written, no
/// savepoint, read committed.
pub fn nothing_written() -> bool {
    // SAFETY: reads the state of the transaction in progress.
    unsafe {
        pg_sys::GetTopTransactionIdIfAny() == pg_sys::InvalidTransactionId
            && pg_sys::GetCurrentTransactionNestLevel() == 1
            && pg_sys::XactIsoLevel == pg_sys::XACT_READ_COMMITTED as i32
    }
}

/// Runs `f` with cancel requests put off; termination is not.
pub fn uncancelled<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: a variable of this process.
            unsafe { pg_sys::QueryCancelHoldoffCount = self.0 }
        }
    }
    // SAFETY: as above; an error resets the counter, and the drop then sets what it was before.
    let _restore = unsafe {
        let before = pg_sys::QueryCancelHoldoffCount;
        pg_sys::QueryCancelHoldoffCount = before + 1;
        Restore(before)
    };
    f()
}
