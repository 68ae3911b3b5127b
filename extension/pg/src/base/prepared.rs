//! Prepared transactions: PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
use std::ffi::{c_char, c_int};

use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::error::{attempt, attempt_undone, catch_c, OrRaise, PgError};
use crate::base::role::Role;

extern "C" {
    // The same header.
    static max_prepared_xacts: c_int;
}

extern "C-unwind" {
    // twophase.h, which pgrx does not read; the same in PostgreSQL 15 to 17.
    fn FinishPreparedTransaction(name: *const c_char, commits: bool);
}

/// Prepares the transaction block in progress, which has no subtransaction. None is in progress
/// afterwards, unless it fails: then it has to be aborted. Raises 55000 when the server keeps no
/// prepared transactions.
pub fn prepare(name: &str) -> Result<(), PgError> {
    let name = c_string(name)?;
    // SAFETY: a variable set when the server started.
    if unsafe { max_prepared_xacts } == 0 {
        return Err(PgError::new(
            b"55000",
            "local changes cannot be prepared: max_prepared_transactions is 0",
        )
        .hint("Set max_prepared_transactions to the number of sessions that commit at the same time and restart the server, or SET chainify.local_writes = 'commit'."));
    }
    // SAFETY: by the caller's promise; the name is copied.
    attempt(|| unsafe {
        if !pg_sys::PrepareTransactionBlock(name.as_ptr()) {
            PgError::new(b"25P01", "there is no transaction to be prepared").raise();
        }
        pg_sys::CommitTransactionCommand();
    })
}

/// Commits a prepared transaction of this database, or rolls it back, in a transaction of its own:
/// none may be in progress. 42704: there is none of this name; 55000: another session ends it.
pub fn finish(name: &str, commits: bool) -> Result<(), PgError> {
    let name = c_string(name)?;
    // SAFETY: no transaction is in progress, and none is afterwards. The name is copied.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        let ended = attempt_undone(|| {
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
