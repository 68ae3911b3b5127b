//! A statement alone in its transaction that fails with 40001 runs again, and its client does not
//! learn of it. Nothing of its result has left the session by then.
//!
//! PostgreSQL cleans up after an ERROR and says ReadyForQuery at last. So the ERROR's message is
//! held back, and the statement runs again when ReadyForQuery is about to leave. CommandComplete
//! of the extended protocol is held back as well: it comes before the transaction ends.
use std::time::{Duration, Instant};

use pgrx::pg_sys;

use crate::base::backend::{Again, Kept, BACKEND};
use crate::base::error::PgError;
use crate::base::latch::pause;
use crate::base::{major, settings};
use crate::session_transaction::run_again::{self, Turn};

const SERIALIZATION_FAILURE: &[u8] = b"40001";
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Pauses double from one run to the next so often. Rivals of one organisation take turns, so that
/// a longer pause would only have a session lose to another organisation.
const PAUSE_DOUBLINGS_MAX: u32 = 4;

/// The statement, as far as it is kept.
fn again() -> &'static Again {
    &BACKEND.session.again
}

/// Sends a message to the client.
pub(super) type Send<'a> = &'a dyn Fn(u8, &[u8]);

/// A lone statement begins: it is kept when it may run again.
///
/// # Safety
/// The query must be about to start, as a statement of the session itself.
pub(super) unsafe fn keep(query: &pg_sys::QueryDesc) {
    if again().kept.get().is_some() || settings::statement_retries() == 0 {
        return;
    }
    // SAFETY: by the caller's promise; the portal that starts it is the active one.
    unsafe {
        let pipelined = pg_sys::MyXactFlags as u32 & pg_sys::XACT_FLAGS_PIPELINING != 0;
        let planned = &*query.plannedstmt;
        let rows = planned.commandType == pg_sys::CmdType::CMD_SELECT || planned.hasReturning;
        let (Some(portal), false, false) = (pg_sys::ActivePortal.as_ref(), pipelined, rows) else {
            return;
        };
        if run_again::keep(query) {
            let wait = settings::wait_timeout_ms().unsigned_abs();
            again().kept.set(Some(Kept {
                // The simple protocol's portal is not one that clients could name.
                extended: portal.visible,
                whole: !again().cannot.take(),
                runs: 0,
                until: Instant::now() + Duration::from_millis(wait.into()),
            }));
        }
    }
}

/// The statement does something that must not be done twice. The planner may have it done, too.
pub(super) fn cannot() {
    match again().kept.get() {
        Some(kept) => again().kept.set(Some(Kept {
            whole: false,
            ..kept
        })),
        None => again().cannot.set(true),
    }
}

/// The transaction of the session has ended.
pub(super) fn ends() {
    again().cannot.set(false);
}

/// The transaction of the session is about to end.
pub(super) fn ending() {
    again().ending.set(true);
}

/// The order refused the transaction for the sake of another.
pub(super) fn refused(error: &PgError) {
    if error.sqlstate.as_str().as_bytes() == SERIALIZATION_FAILURE {
        // The message begins with the row's key and its table in quotes.
        let row = error.message.rsplit_once('"').map_or("", |(row, _)| row);
        // FNV-1a: a collision has two rows share a queue, no more.
        let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
        again().row.set(Some(row.bytes().fold(2_166_136_261, hash)));
    }
}

/// Whether a message that is no ReadyForQuery is held back. `open`: the part is open. Must not
/// raise.
pub(super) fn holds(kind: u8, message: &[u8], open: bool, send: Send) -> bool {
    let Some(kept) = again().kept.get() else {
        return false;
    };
    let free = again().held.borrow().is_none();
    let hold = match kind {
        b'C' => open && kept.extended && kept.runs == 0 && free,
        b'E' => may_run_again(kept, message, free),
        _ => false,
    };
    if hold {
        again().held.replace(Some((kind, message.to_vec())));
        return true;
    }
    // An error of the transaction's end takes the place of its statement's result.
    if kind == b'E' && again().ending.get() {
        again().held.take();
    }
    release(send);
    false
}

/// The client wants all that there is. PostgreSQL asks for it after each error as well.
pub(super) fn flush(send: Send) {
    if matches!(*again().held.borrow(), Some((b'C', _))) {
        release(send);
    }
}

/// Something is to reach the client now, so the statement cannot run again.
fn release(send: Send) {
    again().kept.set(None);
    if let Some((kind, message)) = again().held.take() {
        send(kind, &message);
    }
}

fn may_run_again(kept: Kept, error: &[u8], nothing_held: bool) -> bool {
    let alone = match nothing_held {
        // Its own end, or its own error with no other statement behind it.
        true => {
            again().ending.get() || kept.runs > 0 || !kept.extended || major::next_message_is_sync()
        }
        false => again().ending.get(),
    };
    alone
        && kept.whole
        && sqlstate(error) == Some(SERIALIZATION_FAILURE)
        && kept.runs < settings::statement_retries()
        && Instant::now() < kept.until
}

/// The field `C` of an ErrorResponse: fields are a letter and a C string each.
fn sqlstate(error: &[u8]) -> Option<&[u8]> {
    let mut fields = error.split(|byte| *byte == 0);
    fields.find_map(|field| field.strip_prefix(b"C"))
}

/// ReadyForQuery is about to leave and no transaction is in progress, or the session is in its own.
/// Runs the statement again where it is to. Raises its error, which comes by here again.
pub(super) fn ready(send: Send) -> bool {
    again().ending.set(false);
    let row = again().row.take();
    let held = again().held.take();
    let (Some(kept), Some((b'E', error))) = (again().kept.get(), &held) else {
        run_again::end_turn();
        again().kept.set(None);
        if let Some((kind, message)) = held {
            send(kind, &message);
        }
        return false;
    };
    let runs = kept.runs + 1;
    again().kept.set(Some(Kept { runs, ..kept }));
    run_again::show_busy();
    let left = kept.until.saturating_duration_since(Instant::now());
    match row.map_or(Turn::Mine, |row| run_again::take_turn(row, left)) {
        Turn::Mine => {
            pause(length_of_pause(runs).min(left));
            run_again::run();
        }
        Turn::TooLate => send(b'E', error),
    }
    run_again::end_turn();
    run_again::show_idle();
    again().kept.set(None);
    true
}

/// Grows with each run, and is random within a half, so that rivals part.
fn length_of_pause(runs: u32) -> Duration {
    let longest = PAUSE_FIRST * (1 << runs.min(PAUSE_DOUBLINGS_MAX));
    longest / 2 + longest.mul_f64(run_again::random() / 2.0)
}
