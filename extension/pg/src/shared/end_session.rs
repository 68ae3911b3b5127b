//! Cancelling a session's statement, or ending the session, as pg_cancel_backend and
//! pg_terminate_backend do; or making it check whether it has to give up its transaction.
use std::ffi::c_int;

use pgrx::pg_sys;

use crate::base::catalog::NO_RELATION;
use crate::shared::lock_waits::Session;

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

/// `SHAREDINVALRELCACHE_ID` of sinval.h.
const RELATION_CHANGED: i8 = -2;

/// Makes a session look at messages of changed relations, also while it waits for its client, and
/// gives it one of a relation that does not exist.
pub fn wake(session: &Session) {
    let message = pg_sys::SharedInvalidationMessage {
        rc: pg_sys::SharedInvalRelcacheMsg {
            id: RELATION_CHANGED,
            dbId: session.database,
            relId: pg_sys::Oid::from(NO_RELATION),
        },
    };
    // SAFETY: one message, which is copied. A signal to a process that is gone is not sent.
    unsafe {
        pg_sys::SendSharedInvalidMessages(&message, 1);
        let reason = pg_sys::ProcSignalReason::PROCSIG_CATCHUP_INTERRUPT;
        pg_sys::SendProcSignal(session.pid, reason, session.backend);
    }
}

fn signal(session: &Session, signal: c_int) {
    // SAFETY: the pid was in the process array a moment ago, so it is above 1; a backend leads its
    // process group, which holds what it started. That the pid is another's by now cannot be
    // excluded, as for the functions named above.
    unsafe {
        kill(-session.pid, signal);
    }
}
