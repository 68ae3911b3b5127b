//! Prepared transactions: PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
use std::ffi::c_char;

use pgrx::pg_sys;

use crate::pg::base::c_string::c_string;
use crate::pg::base::error::{attempt, catch_c, OrRaise, PgError};
use crate::pg::base::role::Role;

extern "C-unwind" {
    // twophase.h, which pgrx does not read; the same in PostgreSQL 15 to 17.
    fn FinishPreparedTransaction(name: *const c_char, commits: bool);
}

/// Commits a prepared transaction of this database, or rolls it back, in a transaction of its own:
/// none may be in progress. 42704: there is none of this name; 55000: another session ends it.
pub fn finish(name: &str, commits: bool) -> Result<(), PgError> {
    let name = c_string(name)?;
    // SAFETY: no transaction is in progress, and none is afterwards. The name is copied.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        let ended = attempt(|| {
            let finish = || catch_c(|| FinishPreparedTransaction(name.as_ptr(), commits));
            // PostgreSQL lets the owner end it, and superusers.
            Role::bootstrap().run(finish).or_raise();
            pg_sys::CommitTransactionCommand();
        });
        if ended.is_err() {
            pg_sys::AbortOutOfAnyTransaction();
        }
        ended
    }
}
