//! A function that runs for a limited time.
use std::ffi::c_int;
use std::time::Duration;

use crate::base::error::{attempt, PgError};

/// timeout.h: the timeout of statements, which PostgreSQL enables for what a client sends and not
/// for what a function runs.
const STATEMENT_TIMEOUT: c_int = 3;

extern "C-unwind" {
    fn enable_timeout_after(id: c_int, delay_ms: c_int);
    fn disable_timeout(id: c_int, keep_indicator: bool);
    fn get_timeout_active(id: c_int) -> bool;
}

/// Takes the timeout away, also while unwinding.
struct Limited;

impl Drop for Limited {
    fn drop(&mut self) {
        // SAFETY: sets variables of the process; raises nothing for a timeout that is registered,
        // as this one is in every session.
        unsafe { disable_timeout(STATEMENT_TIMEOUT, false) }
    }
}

/// Runs `f`, and fails with 54000 when it takes longer than `limit`, which is at least a
/// millisecond. Where the session's own statement timeout counts already, that alone is the limit.
/// For use inside a subtransaction, as [`attempt`].
pub fn at_most<T>(limit: Duration, f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    let delay_ms = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: as above.
    unsafe {
        if get_timeout_active(STATEMENT_TIMEOUT) {
            return f();
        }
        enable_timeout_after(STATEMENT_TIMEOUT, delay_ms.max(1));
    }
    let _limited = Limited;
    let result = attempt(|| {
        let result = f();
        // SAFETY: as above. What was cancelled a moment too late is cancelled here, and nothing
        // behind it.
        unsafe { disable_timeout(STATEMENT_TIMEOUT, true) };
        pgrx::check_for_interrupts!();
        result
    });
    result
        .and_then(|result| result)
        .map_err(|error| match is_over(&error) {
            true => PgError::new(b"54000", format!("it takes longer than {delay_ms} ms")),
            false => error,
        })
}

/// Whether it is the timeout that cancelled, and no user.
fn is_over(error: &PgError) -> bool {
    error.sqlstate.as_str() == "57014" && error.message.ends_with("due to statement timeout")
}
