//! Cancelling a session's statement, or ending the session, as pg_cancel_backend and
//! pg_terminate_backend do.
use std::ffi::c_int;

use crate::pg::shared::lock_waits::Session;

const SIGINT: c_int = 2;
const SIGTERM: c_int = 15;

extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

/// Cancels the statement the session runs; one that waits for a command takes no notice.
pub fn cancel_statement(session: &Session) {
    signal(session, SIGINT);
}

/// Ends the session.
pub fn terminate(session: &Session) {
    signal(session, SIGTERM);
}

fn signal(session: &Session, signal: c_int) {
    // SAFETY: the pid was in the process array a moment ago, so it is above 1; a backend leads its
    // process group, which holds what it started. That the pid is another's by now cannot be
    // excluded, as for the functions named above.
    unsafe {
        kill(-session.pid, signal);
    }
}
