//! The transaction of an ordinary session, with the *ledger part*: the part that is undone before
//! the transaction ends.
//!
//! The part is an internal subtransaction at nest level 2. It begins before the first statement
//! that needs the ledger, and has all statements after it. When the session commits, the callbacks
//! take the changes of the part, the part is undone, and the changes come back by a block. Where a
//! procedure may COMMIT, the part is the whole transaction (`procedures.rs`).
//!
//! Invariant W1: a ledger part is committed only when the callbacks allow it.
//!
//! An undo while a portal runs would fail COMMIT's own portal. No portal runs when PostgreSQL sends
//! CommandComplete of a statement, or ReadyForQuery. So this file watches both messages, and works
//! before they leave.
mod elsewhere;
mod ending;
pub mod kept_locks;
mod kept_settings;
mod prepared;
mod procedures;
mod retry;
mod run_again;
mod state;
pub mod statement;

use std::ffi::{c_char, c_int, CStr};

use pgrx::pg_sys;

use crate::base::backend::{is_own_work, End, Part, Session, State, Within, BACKEND};
use crate::base::catalog::NO_RELATION;
use crate::base::error::{enter, without_raising, PgError};
use crate::base::major::Run;
use crate::base::subtransaction::Hooks;
use crate::run::locked_rows;
use crate::session_transaction::state::over;
pub use crate::session_transaction::state::{Failed, PlainSql, Remaining};
pub(crate) use crate::session_transaction::state::{Messages, ABOVE, MESSAGES};
use crate::session_transaction::statement::statement_of;
pub use crate::session_transaction::statement::Statement;

fn session() -> &'static Session {
    &BACKEND.session
}

mod raw {
    use super::c_int;
    extern "C-unwind" {
        /// timeout.h; the identifier of the timeout is the same in PostgreSQL 15 to 18.
        pub(crate) fn disable_timeout(timeout: c_int, keep_indicator: bool);
    }
    pub(crate) const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: c_int = 7;
}

/// At the ends of transactions.
pub(crate) const ENDS: Hooks = Hooks {
    begin: || {
        let depth = session().depth.get();
        session().depths.borrow_mut().push(depth);
    },
    release: || {
        session().depths.borrow_mut().pop();
    },
    undo: || {
        let depth = session().depths.borrow_mut().pop();
        session().depth.set(depth.unwrap_or_default());
        if session().depths.borrow().is_empty() {
            let undone = |part: &Part| part.within != Within::Procedure;
            if let Some(part) = session().part().filter(undone) {
                session().enter(State::Failed(part));
                over();
            }
        }
    },
    end: || {
        if !matches!(session().enter(State::Outside), State::Outside) {
            over();
        }
        session().depths.borrow_mut().clear();
        session().depth.set(0);
        session().changed.set(false);
        kept_locks::end();
        retry::ends();
        session().block.set(session().chain.take());
    },
};

/// The isolation level of the session's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// READ COMMITTED, which READ UNCOMMITTED is too.
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

/// The level of the transaction in progress.
pub fn isolation() -> Isolation {
    // SAFETY: a variable of this process.
    match unsafe { pg_sys::XactIsoLevel } as u32 {
        pg_sys::XACT_SERIALIZABLE => Isolation::Serializable,
        pg_sys::XACT_REPEATABLE_READ => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    }
}

/// A message that a relation changed. A session that waits for its client in a transaction reads
/// them as well, and runs nothing then.
pub(crate) fn relation_changed(relation: pg_sys::Oid) {
    let may_give_up = |state: &State| matches!(state, State::Open { .. } | State::Failed(_));
    if relation.to_u32() == NO_RELATION && session().with(may_give_up) {
        without_raising("giving way to a block", || {
            if waits_for_client() {
                if let Some(error) = (ABOVE.get().gives_up)() {
                    give_up(error);
                }
            }
        });
    }
}

/// Whether the session is in a transaction and waits for the next message of its client.
fn waits_for_client() -> bool {
    use pg_sys::BackendState::{STATE_IDLEINTRANSACTION, STATE_IDLEINTRANSACTION_ABORTED};
    // SAFETY: variables of this process; its own entry is written by nobody else.
    unsafe {
        pg_sys::ActivePortal.is_null()
            && pg_sys::MyBEEntry.as_ref().is_some_and(|entry| {
                [STATE_IDLEINTRANSACTION, STATE_IDLEINTRANSACTION_ABORTED].contains(&entry.st_state)
            })
    }
}

/// Undoes the transaction, with all its locks, and begins an empty one in its place: the client
/// believes to be in one. Its next statement fails.
fn give_up(error: PgError) {
    // SAFETY: no portal runs and no message is being handled. The message that is being read lies
    // in the context that was current, which outlives transactions.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::StartTransactionCommand();
        pg_sys::BeginTransactionBlock();
        pg_sys::CommitTransactionCommand();
        pg_sys::MemoryContextSwitchTo(context);
    }
    session().block.set(true);
    session().enter(State::GivenUp {
        reason: Some(error),
        commits: false,
    });
}

/// Raises when the transaction was given up.
fn fail_if_given_up() {
    if let Some(error) = reason() {
        error.raise();
    }
}

/// Why the transaction was given up, if it was. It is told once; later statements get less.
fn reason() -> Option<PgError> {
    session().change(|state| match state {
        State::GivenUp { reason, .. } => {
            let less = || PgError::new(b"40001", "the transaction was given up");
            Some(reason.take().unwrap_or_else(less))
        }
        _ => None,
    })
}

/// Starts a query by `next`.
///
/// # Safety
/// The arguments must be those of the hook; `next` must own nothing that needs dropping.
#[inline]
pub(crate) unsafe fn start(query: *mut pg_sys::QueryDesc, flags: c_int, next: impl FnOnce()) {
    // SAFETY: the executor's caller passes a query that has not started.
    unsafe {
        if is_own_work() {
            return next();
        }
        elsewhere::forget();
        enter(|| {
            fail_if_given_up();
            // The checks of foreign keys, which may wait for COMMIT, run as the table's owner.
            let of_session = session().depth.get() == 0 && !pg_sys::InLocalUserIdChange();
            if of_session && flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as c_int == 0 {
                if let Some(above) = wanted() {
                    let statement = statement_of(&*(*query).plannedstmt);
                    begin_if((above.needs_part)(&statement));
                    if session().part().is_some_and(|part| part.lone) {
                        retry::keep(&*query);
                        elsewhere::note(query);
                    }
                }
            }
        });
        next();
        if session().is_open() {
            enter(|| {
                if let Some(above) = wanted() {
                    locked_rows::watch(query, above.locked);
                }
            });
        }
    }
}

/// Runs a query by `next`, or elsewhere.
///
/// # Safety
/// As for [`start`].
#[inline]
pub(crate) unsafe fn run(run: Run, next: impl FnOnce(Run)) {
    if is_own_work() {
        return next(run);
    }
    // SAFETY: the executor's caller passes a query that has started.
    let done = unsafe {
        enter(|| {
            if session().depth.get() == 0 {
                fail_if_given_up();
            }
            wanted().is_some_and(|above| elsewhere::run(run.query, above.execute))
        })
    };
    if !done {
        // An ERROR leaves the depth as it is; the end of the subtransaction puts it back.
        deeper(|| next(run));
    }
}

/// The same at its end, with the triggers of its rows.
#[inline]
pub(crate) fn finish(next: impl FnOnce()) {
    if is_own_work() {
        return next();
    }
    deeper(next);
}

/// Runs `f`, an executor inside of those that run.
#[inline]
fn deeper(f: impl FnOnce()) {
    let depth = &session().depth;
    depth.set(depth.get() + 1);
    f();
    depth.set(depth.get().saturating_sub(1));
}

/// The transaction is about to be committed or, when it `prepares`, prepared.
pub(crate) fn before_end(prepares: bool) {
    let above = ABOVE.get();
    let Some(part) = session().part() else {
        if prepares {
            (above.prepares)();
        }
        return;
    };
    match part.within {
        Within::Procedure if !(above.has_changes)() => (),
        Within::Procedure => procedures::refusal().raise(),
        _ => PgError::new(
            b"0A000",
            "changes of ledger tables cannot be committed here",
        )
        .detail("They are ordered when the session commits. A deferred trigger made them since, or something else ended the transaction.")
        .hint("Fire deferred triggers with SET CONSTRAINTS ALL IMMEDIATE before COMMIT.")
        .raise(),
    }
}

/// The rooms above, where a client waits for the messages of a session that they look at.
fn wanted() -> Option<&'static PlainSql> {
    // SAFETY: variables of this process.
    let serves = unsafe {
        pg_sys::whereToSendOutput == pg_sys::CommandDest::DestRemote
            && pg_sys::ParallelWorkerNumber < 0
    };
    let above = ABOVE.get();
    (serves && (above.wanted)()).then_some(above)
}

/// Begins the part where one is needed and none is open. A transaction of a procedure has it from
/// its first statement on: an undo of the part takes back all.
fn begin_if(needed: bool) {
    if session().is_open() {
        return;
    }
    match procedures::runs() {
        true => open(Within::Procedure),
        false if needed => open(Within::Subtransaction),
        false => return,
    }
    (MESSAGES.get().follow)();
    (ABOVE.get().begun)();
}

/// Opens the part.
fn open(within: Within) {
    // SAFETY: variables of this process, in a transaction.
    let (lone, changed_before) = unsafe {
        let id = pg_sys::GetTopTransactionIdIfAny();
        let idle = pg_sys::TransactionBlockStatusCode() as u8 == b'I';
        let changed = session().changed.get() || id != pg_sys::InvalidTransactionId;
        (idle, changed)
    };
    let mut part = Part {
        within,
        block: session().block.get() && !lone,
        lone,
        changed_before,
        settings_level: kept_settings::OF_TRANSACTION,
    };
    if within == Within::Procedure {
        // Savepoints of the procedure make it look like a block.
        (part.block, part.lone, part.changed_before) = (false, true, false);
    } else {
        // SAFETY: a transaction is in progress.
        if unsafe { pg_sys::GetCurrentTransactionNestLevel() } != 1 {
            PgError::new(
                b"25001",
                "this savepoint was made before the ledger could follow",
            )
            .hint("Set chainify.writes before the transaction begins.")
            .raise();
        }
        part.settings_level = kept_settings::level_of_next();
        begin_subtransaction();
    }
    session().enter(State::Open { part, end: None });
}

/// Memory context and resource owner are put back, so that the statement that is about to start, or
/// has just ended, keeps what it has.
fn begin_subtransaction() {
    // SAFETY: a transaction is in progress.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    }
}

/// CALL or DO, which could end the transaction, has run.
pub(crate) fn procedure_ended() {
    procedures::end();
    let within_procedure = |part: &Part| part.within == Within::Procedure;
    if session().part().filter(within_procedure).is_some() {
        begin_subtransaction();
        session().change(|state| {
            if let State::Open { part, .. } = state {
                part.within = Within::AfterProcedure;
            }
        });
    }
}

/// The transaction, which has no part, changes something beside the tables.
pub fn has_changed() {
    session().changed.set(true);
}

/// The session does something that no rollback takes back: its statement does not run again.
pub fn runs_once() {
    retry::cannot();
}

/// A utility statement of the session itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// PostgreSQL runs it.
    Run,
    /// The same, and a procedure that it runs may end the transaction.
    Procedure,
    /// It is done when CommandComplete is sent.
    Later,
}

/// Looks at a utility statement before it runs.
///
/// # Safety
/// `node` must be a utility statement.
pub(crate) unsafe fn utility(
    node: *mut pg_sys::Node,
    context: pg_sys::ProcessUtilityContext::Type,
    statement: impl FnOnce() -> Statement,
) -> Course {
    // SAFETY: the tag says which structure follows.
    unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_TransactionStmt {
            return match context == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL {
                true => transaction_statement(&*node.cast()),
                false => Course::Run,
            };
        }
    }
    fail_if_given_up();
    let Some(above) = wanted().filter(|_| session().depth.get() == 0) else {
        return Course::Run;
    };
    let needed = (above.needs_part)(&statement());
    // SAFETY: by the caller's promise.
    let runs = matches!(
        unsafe { (*node).type_ },
        pg_sys::NodeTag::T_CallStmt | pg_sys::NodeTag::T_DoStmt
    );
    let of_session = context == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL;
    let procedure =
        needed && runs && of_session && !session().is_open() && procedures::may_commit();
    if procedure {
        procedures::begin();
    }
    begin_if(needed);
    match procedure {
        true => Course::Procedure,
        false => Course::Run,
    }
}

fn transaction_statement(statement: &pg_sys::TransactionStmt) -> Course {
    use pg_sys::TransactionStmtKind::*;
    if session().with(|state| matches!(state, State::GivenUp { .. })) {
        return given_up(statement);
    }
    let open = session().part();
    match (statement.kind, open) {
        (TRANS_STMT_BEGIN | TRANS_STMT_START, Some(part)) if !part.block => PgError::new(
            b"0A000",
            "BEGIN cannot follow changes of ledger tables in one request",
        )
        .hint("Send BEGIN before the first of them.")
        .raise(),
        (TRANS_STMT_BEGIN | TRANS_STMT_START, _) => begins(),
        (TRANS_STMT_COMMIT, Some(_)) => {
            let chain = statement.chain;
            return ends_with(End::Commit { chain });
        }
        (TRANS_STMT_ROLLBACK, Some(part)) if !part.block => {
            return ends_with(End::Rollback);
        }
        (TRANS_STMT_COMMIT | TRANS_STMT_ROLLBACK, _) => {
            let chain = statement.chain && session().block.get();
            session().chain.set(chain);
        }
        (TRANS_STMT_PREPARE, Some(_)) => PgError::new(
            b"0A000",
            "a transaction that changed ledger tables cannot be prepared",
        )
        .hint("COMMIT it.")
        .raise(),
        // A savepoint must lie inside of the part: its release would keep the part otherwise.
        (TRANS_STMT_SAVEPOINT, None) if session().block.get() && wanted().is_some() => {
            begin_if(true)
        }
        _ => (),
    }
    Course::Run
}

/// The session has said how the open part ends: it does when CommandComplete is sent.
fn ends_with(said: End) -> Course {
    session().change(|state| {
        if let State::Open { end, .. } = state {
            *end = Some(said);
        }
    });
    Course::Later
}

/// BEGIN of the session; inside of a block it changes nothing.
fn begins() {
    if !session().block.replace(true) && wanted().is_some() {
        (MESSAGES.get().follow)();
    }
}

/// COMMIT fails and ends the transaction, as any COMMIT that fails does.
fn given_up(statement: &pg_sys::TransactionStmt) -> Course {
    use pg_sys::TransactionStmtKind::*;
    match statement.kind {
        TRANS_STMT_ROLLBACK => {
            session().chain.set(statement.chain);
            Course::Run
        }
        TRANS_STMT_COMMIT => {
            session().change(|state| {
                if let State::GivenUp { commits, .. } = state {
                    *commits = true;
                }
            });
            Course::Later
        }
        _ => {
            fail_if_given_up();
            Course::Run
        }
    }
}

/// A message that the session sends to its client, on its way: `send` has it leave.
///
/// # Safety
/// The text must have the length. Only where PostgreSQL sends a message.
pub(crate) unsafe fn message(
    kind: u8,
    text: *const c_char,
    length: usize,
    send: unsafe fn(u8, *const c_char, usize) -> c_int,
) -> c_int {
    // SAFETY: the arguments are passed on, or a status byte in their place.
    unsafe {
        let mut text = text;
        let message = match length {
            0 => &[],
            _ => std::slice::from_raw_parts(text.cast::<u8>(), length),
        };
        let send_held = |kind: u8, held: &[u8]| {
            // A connection that is lost shows with the next message.
            send(kind, held.as_ptr().cast(), held.len());
        };
        let ready = kind == b'Z';
        if ready {
            procedures::end();
            enter(kept_settings::put_back_now);
        }
        let mut idle = false;
        if matches!(kind, b'C' | b'Z') && !session().is_outside() {
            idle = enter(|| before_message(kind));
        }
        if ready {
            let ran = enter(|| retry::ready(&send_held));
            if ran || idle {
                text = c"I".as_ptr();
            }
        }
        if !ready && retry::holds(kind, message, session().is_open(), &send_held) {
            return 0;
        }
        send(kind, text, length)
    }
}

/// The client is to get all that was sent: also what is held back.
pub(crate) fn flush(send: &dyn Fn(u8, &[u8])) {
    retry::flush(send);
}

/// The work that is due before a message leaves.
enum Due {
    Nothing,
    End(Part, End),
    Abort,
    /// The same, with an error.
    Fail,
}

/// Ends the transaction where it is time to. True: no transaction is in progress any more.
fn before_message(kind: u8) -> bool {
    let ready = kind == b'Z';
    // SAFETY: a variable of this process.
    let pipeline = unsafe { pg_sys::MyXactFlags } as u32 & pg_sys::XACT_FLAGS_PIPELINING;
    let due = session().change(|state| match state {
        State::Open { part, end } => {
            let lone = !ready && part.lone && pipeline == 0;
            match end.take() {
                Some(end) => Due::End(*part, end),
                None if lone || ready && !part.block => {
                    Due::End(*part, End::Commit { chain: false })
                }
                None => Due::Nothing,
            }
        }
        State::Failed(part) if ready && !part.block => Due::Abort,
        State::GivenUp { commits, .. } => match std::mem::take(commits) {
            true => Due::Fail,
            false => Due::Nothing,
        },
        _ => Due::Nothing,
    });
    match due {
        Due::Nothing => return false,
        Due::End(part, end) => {
            if ready {
                shows(c"COMMIT", true);
            }
            retry::ending();
            ending::finish(part, end);
        }
        Due::Abort => ending::abort(),
        Due::Fail => {
            let reason = reason();
            ending::abort();
            if let Some(error) = reason {
                error.raise();
            }
        }
    }
    if ready {
        shows(c"", false);
    }
    true
}

/// Shows in `pg_stat_activity` whether the session is busy; PostgreSQL has said before
/// ReadyForQuery that it is idle in a transaction.
fn shows(text: &CStr, busy: bool) {
    // SAFETY: the text is copied; ending a timeout that does not run does nothing.
    unsafe {
        raw::disable_timeout(raw::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, false);
        let state = match busy {
            true => pg_sys::BackendState::STATE_RUNNING,
            false => pg_sys::BackendState::STATE_IDLE,
        };
        pg_sys::pgstat_report_activity(state, text.as_ptr());
    }
}
