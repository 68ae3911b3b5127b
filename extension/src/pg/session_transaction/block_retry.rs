//! A transaction block that fails with 40001 runs again where `chainify.retry` allows it, and its
//! client does not learn of it. Each statement has to answer as it did before.
//!
//! The ERROR's message is held back until PostgreSQL has cleaned up and says ReadyForQuery. Then
//! the block begins anew. The statement that failed sends its rows; COMMIT is tried once more.
//!
//! Source: the retries of Cloud Spanner's drivers, which compare checksums of the rows.
use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use pgrx::pg_sys;

use crate::pg::base::error::{attempt_undone, PgError};
use crate::pg::base::latch::pause;
use crate::pg::base::{major, settings};
use crate::pg::session_transaction::ending;
use crate::pg::session_transaction::retry::{length_of_pause, sqlstate, Send};
use crate::pg::session_transaction::run_again::{self, Request, Rows};
use crate::pg::session_transaction::state::{open_part, End, BLOCK, WATCH};

/// Statements of a block that are kept, and bytes of their texts and values.
const STATEMENTS_MAX: usize = 1_000;
const BYTES_MAX: usize = 1 << 20;

type Hash = <RandomState as BuildHasher>::Hasher;

/// The answer of the statement that runs, so far.
struct Running {
    hash: Hash,
    /// Rows of it have left.
    rows: bool,
}

/// A block of the session.
struct Record {
    /// All that the block has done so far can be done again.
    whole: bool,
    requests: Vec<Request>,
    /// A hash of the rows and the tag of each that has answered.
    answers: Vec<u64>,
    running: Option<Running>,
    /// The client has the description of the last one's rows.
    described: bool,
    /// The answer of the one that was compared last.
    compared: Option<u64>,
    bytes: usize,
    level: i32,
    read_only: bool,
    deferrable: bool,
    /// COMMIT has begun.
    commits: bool,
    extended: bool,
    runs: u32,
    until: Option<Instant>,
    /// The error that its client does not know yet.
    held: Option<Vec<u8>>,
    /// Keyed for the session, so that nobody can choose rows of the same hash.
    key: RandomState,
}

/// The way of messages while a block runs again.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Off,
    /// They are compared, and do not leave.
    Compare,
    /// They leave.
    Send,
}

/// The end of a run that raised nothing.
enum Ran {
    AsBefore,
    Otherwise,
}

thread_local! {
    static RECORD: RefCell<Option<Record>> = const { RefCell::new(None) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Off) };
}

fn with(f: impl FnOnce(&mut Record)) {
    RECORD.with_borrow_mut(|record| record.as_mut().map(f));
}

/// BEGIN of the session.
pub(super) fn begin() {
    let wanted = settings::retries() > 0;
    RECORD.set(wanted.then(|| Record {
        whole: true,
        requests: Vec::new(),
        answers: Vec::new(),
        running: None,
        described: false,
        compared: None,
        bytes: 0,
        level: 0,
        read_only: false,
        deferrable: false,
        commits: false,
        extended: false,
        runs: 0,
        until: None,
        held: None,
        key: RandomState::new(),
    }));
}

/// Whether a block is kept.
pub(super) fn keeps() -> bool {
    RECORD.with_borrow(|record| record.as_ref().is_some_and(|record| record.whole))
}

/// The block has done something that is not done again.
pub(super) fn cannot() {
    if MODE.get() == Mode::Off {
        with(|record| record.whole = false);
    }
}

/// The same; a run other than the first may be the one that did it.
pub(super) fn cannot_any_more() {
    with(|record| record.whole = false);
}

/// A statement of the session is about to run. `limited`: the client asked for its first rows.
///
/// # Safety
/// The query must have started.
pub(super) unsafe fn note(query: &pg_sys::QueryDesc, limited: bool) {
    if MODE.get() != Mode::Off {
        return;
    }
    with(|record| {
        // SAFETY: the portal that runs the query is the active one; variables of this process.
        unsafe {
            let Some(portal) = pg_sys::ActivePortal.as_ref() else {
                return;
            };
            if record.commits || !record.whole {
                return;
            }
            let room = BYTES_MAX - record.bytes;
            let full = record.requests.len() >= STATEMENTS_MAX || record.running.is_some();
            let request = match limited || full {
                true => None,
                false => Request::of(query, portal, room),
            };
            let Some(request) = request else {
                record.whole = false;
                return;
            };
            if record.until.is_none() {
                record.level = pg_sys::XactIsoLevel;
                record.read_only = pg_sys::XactReadOnly;
                record.deferrable = pg_sys::XactDeferrable;
                let wait = settings::wait_timeout_ms().unsigned_abs();
                record.until = Some(Instant::now() + Duration::from_millis(wait.into()));
            }
            record.bytes += request.bytes();
            record.extended = portal.visible;
            record.requests.push(request);
            record.described = false;
            runs(record);
        }
    });
}

fn runs(record: &mut Record) {
    let hash = record.key.build_hasher();
    record.running = Some(Running { hash, rows: false });
}

/// COMMIT of the session begins.
pub(super) fn commits(chain: bool) {
    with(|record| {
        record.commits = true;
        record.whole &= !chain && run_again::is_one_statement();
        // SAFETY: a variable of this process; the portal that runs COMMIT is the active one.
        record.extended = unsafe { pg_sys::ActivePortal.as_ref() }.is_some_and(|p| p.visible);
    });
}

/// Looks at a message that is no ReadyForQuery. True: it does not leave. Must not raise.
pub(super) fn holds(kind: u8, message: &[u8]) -> bool {
    let mode = MODE.get();
    let mut held = false;
    with(|record| {
        let retried = settings::retries();
        match kind {
            b'E' if mode == Mode::Off => {
                held = record.whole && may_run_again(record, message, retried);
                match held {
                    true => record.held = Some(message.to_vec()),
                    false => record.whole = false,
                }
            }
            b'T' | b'D' | b'C' | b'I' => answers(record, kind, message),
            b's' => record.whole = false,
            _ => (),
        }
    });
    held || mode == Mode::Compare && kind != b'E'
}

/// A part of the answer of the statement that runs.
fn answers(record: &mut Record, kind: u8, message: &[u8]) {
    let Some(running) = record.running.as_mut() else {
        return;
    };
    let compares = MODE.get() == Mode::Compare;
    record.described |= !compares;
    if kind == b'T' {
        return;
    }
    running.rows |= kind == b'D';
    running.hash.write_u8(kind);
    running.hash.write_usize(message.len());
    running.hash.write(message);
    if kind != b'D' {
        let answer = running.hash.finish();
        record.running = None;
        match compares {
            true => record.compared = Some(answer),
            false => record.answers.push(answer),
        }
    }
}

fn may_run_again(record: &Record, error: &[u8], retries: u32) -> bool {
    let of_statement = record.running.as_ref().is_some_and(|r| !r.rows);
    (record.commits || of_statement)
        && sqlstate(error) == Some(b"40001")
        && record.runs < retries
        && record.until.is_some_and(|until| Instant::now() < until)
        && (!record.extended || major::next_message_is_sync())
}

/// ReadyForQuery is about to leave. Runs the block again where its error was held back. Returns the
/// status of the transaction then. Raises when it is cancelled.
pub(super) fn ready(send: Send) -> Option<&'static CStr> {
    let held = RECORD.with_borrow_mut(|record| {
        let record = record.as_mut()?;
        Some((record.held.take()?, record.commits))
    });
    let Some((error, commits)) = held else {
        // SAFETY: reads a variable of this process.
        if !unsafe { pg_sys::IsTransactionBlock() } {
            RECORD.set(None);
        }
        return None;
    };
    run_again::show_busy();
    match try_again() {
        Ok(Ran::AsBefore) if commits => {
            RECORD.set(None);
            send(b'C', b"COMMIT\0");
            run_again::show_idle();
            return Some(c"I");
        }
        Ok(Ran::AsBefore) => {
            run_again::show_idle_in_block();
            return Some(c"T");
        }
        Ok(Ran::Otherwise) => {
            give_up(commits);
            send(b'E', &error);
        }
        Err(error) => {
            give_up(commits);
            error.raise();
        }
    }
    if commits {
        run_again::show_idle();
        return Some(c"I");
    }
    // SAFETY: in a block that has just begun; no portal runs.
    unsafe { pg_sys::AbortCurrentTransaction() };
    run_again::show_idle_in_block();
    Some(c"E")
}

/// No run comes any more. A client that did not say COMMIT has a block that an error ends.
fn give_up(commits: bool) {
    RECORD.set(None);
    ending::abort();
    if !commits {
        begin_block();
    }
}

/// Runs the block again until it ends well, in another way, or too late. Err: it is cancelled.
fn try_again() -> Result<Ran, PgError> {
    loop {
        let mut left = None;
        with(|record| {
            record.runs += 1;
            let more = record.whole && record.runs <= settings::retries();
            let until = record.until.filter(|_| more);
            left =
                until.map(|until| (record.runs, until.saturating_duration_since(Instant::now())));
        });
        let Some((runs, time)) = left.filter(|(_, time)| !time.is_zero()) else {
            return Ok(Ran::Otherwise);
        };
        ending::abort();
        let run = || {
            pause(length_of_pause(runs).min(time));
            run_block()
        };
        // SAFETY: aborted after an Err.
        let ran = unsafe { attempt_undone(run) };
        let sends = MODE.replace(Mode::Off) == Mode::Send;
        let Err(error) = ran else {
            return ran;
        };
        run_again::failed();
        ending::abort();
        let rows = |record: &Record| record.running.as_ref().is_some_and(|running| running.rows);
        let sent = sends && RECORD.with_borrow(|record| record.as_ref().is_some_and(rows));
        match error.sqlstate.as_str() {
            "57014" if !cancelled_for_block() => return Err(error),
            "40001" | "57014" if !sent => {}
            _ => return Ok(Ran::Otherwise),
        }
    }
}

fn cancelled_for_block() -> bool {
    WATCH.get().is_some_and(|watch| (watch.cancelled)())
}

/// Runs the block once. Raises its error.
fn run_block() -> Ran {
    begin_block();
    for at in 0.. {
        let next = RECORD.with_borrow_mut(|record| {
            let record = record.as_mut()?;
            let request = record.requests.get(at)?.clone();
            let answer = record.answers.get(at).copied();
            let describes = !record.extended && !record.described;
            record.compared = None;
            runs(record);
            Some((request, answer, describes))
        });
        let Some((request, answer, describes)) = next else {
            break;
        };
        let rows = match answer {
            None if describes => Rows::Described,
            _ => Rows::Bare,
        };
        MODE.set(if answer.is_some() {
            Mode::Compare
        } else {
            Mode::Send
        });
        let ran = run_again::run_in_block(&request, rows);
        MODE.set(Mode::Off);
        let same = |record: &Record| answer.is_none() || record.compared == answer;
        if !ran || !RECORD.with_borrow(|record| record.as_ref().is_some_and(same)) {
            return Ran::Otherwise;
        }
    }
    if RECORD.with_borrow(|record| record.as_ref().is_some_and(|record| record.commits)) {
        commit();
    }
    Ran::AsBefore
}

/// A block with the characteristics of the one that failed.
fn begin_block() {
    // SAFETY: no transaction is in progress and no portal runs.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::BeginTransactionBlock();
        pg_sys::CommitTransactionCommand();
        with(|record| {
            pg_sys::XactIsoLevel = record.level;
            pg_sys::XactReadOnly = record.read_only;
            pg_sys::XactDeferrable = record.deferrable;
        });
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
    BLOCK.set(true);
}

fn commit() {
    // SAFETY: a block is in progress and no portal runs.
    unsafe {
        pg_sys::StartTransactionCommand();
        match open_part() {
            Some(part) => ending::finish(part, End::Commit { chain: false }),
            None => {
                pg_sys::EndTransactionBlock(false);
                pg_sys::CommitTransactionCommand();
            }
        }
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}
