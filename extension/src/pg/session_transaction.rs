//! The transaction of an ordinary session, of which one part can be undone before it ends.
//!
//! The part is an internal subtransaction at nest level 2. It begins before the first statement of
//! the session that asks for it, and holds everything after that. When the session commits, the
//! callbacks take what the part did, the part is undone, and what was taken goes its own way.
//!
//! Invariant W1: no part is committed that the callbacks did not let go.
//!
//! An undo while a portal runs would fail COMMIT's own portal. No portal runs when PostgreSQL sends
//! CommandComplete of a statement, or ReadyForQuery. So this file watches both messages, and works
//! before they leave.
mod elsewhere;
pub mod kept_settings;
mod messages;
mod retry;
mod run_again;
pub mod statement;

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CStr};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::pg::base::catalog::NO_RELATION;
use crate::pg::base::constraints;
use crate::pg::base::error::{attempt, enter, without_raising, PgError};
use crate::pg::base::interrupts::without_cancels;
use crate::pg::base::subtransaction::{self, Hooks};
use crate::pg::run::locked_rows;
use crate::pg::session_transaction::statement::statement_of;
pub use crate::pg::session_transaction::statement::Statement;

/// The work that remains once the part is undone. Err: the session's COMMIT fails with it.
pub type Remaining = Box<dyn FnOnce() -> Result<(), PgError>>;

/// The callbacks of the extension. Each may raise.
pub struct Watch {
    /// Whether the session's statements are looked at; asked first, for every one.
    pub wanted: fn() -> bool,
    /// Whether a statement must run in the part.
    pub needs_part: fn(&Statement) -> bool,
    /// The part has begun.
    pub begun: fn(),
    /// Shown each row that a statement of the part locks.
    pub locked: locked_rows::Shown,
    /// Has a statement executed elsewhere.
    pub execute: elsewhere::Execute,
    /// The session commits; called in the part. None: the part is committed like the rest.
    pub take: fn() -> Option<Remaining>,
    /// Asked while the session waits for its client: the error of its next statement when it has to
    /// give up its transaction. Must not raise.
    pub gives_up: fn() -> Option<PgError>,
    /// The part is over, one way or another. Must not raise.
    pub over: fn(),
}

static WATCH: OnceLock<&'static Watch> = OnceLock::new();

/// The part that is open.
#[derive(Clone, Copy)]
struct Part {
    /// The session said BEGIN.
    block: bool,
    /// The transaction of a single statement.
    lone: bool,
    /// The transaction had changed something before.
    changed_before: bool,
}

#[derive(Clone, Copy)]
enum State {
    None,
    Open(Part),
    /// An error undid it; the transaction has failed.
    Failed(Part),
    /// The session gave up its transaction while it waited for its client, who does not know.
    GivenUp,
}

/// How the session ends its transaction, said while a portal ran.
#[derive(Clone, Copy)]
enum End {
    Commit { chain: bool },
    Rollback,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::None) };
    static END: Cell<Option<End>> = const { Cell::new(None) };
    /// The session said BEGIN.
    static BLOCK: Cell<bool> = const { Cell::new(false) };
    /// The transaction ends with AND CHAIN.
    static CHAIN: Cell<bool> = const { Cell::new(false) };
    /// How many executors run, each inside of the one before.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The depth at which each open subtransaction began.
    static DEPTHS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// The error of the next statement after the transaction was given up.
    static REASON: RefCell<Option<PgError>> = const { RefCell::new(None) };
    static NEXT_START: Cell<pg_sys::ExecutorStart_hook_type> = const { Cell::new(None) };
    static NEXT_RUN: Cell<pg_sys::ExecutorRun_hook_type> = const { Cell::new(None) };
    static NEXT_FINISH: Cell<pg_sys::ExecutorFinish_hook_type> = const { Cell::new(None) };
}

mod raw {
    use super::{c_int, pg_sys};
    c_functions! {
        pub fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
        pub fn standard_ExecutorRun(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
            once: bool,
        );
        pub fn standard_ExecutorFinish(query: *mut pg_sys::QueryDesc);
    }
    extern "C-unwind" {
        /// timeout.h; the identifier of the timeout is the same in PostgreSQL 15 to 18.
        pub fn disable_timeout(timeout: c_int, keep_indicator: bool);
    }
    pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: c_int = 7;
}

static HOOKS: Hooks = Hooks {
    begin: || DEPTHS.with_borrow_mut(|depths| depths.push(DEPTH.get())),
    release: || {
        DEPTHS.with_borrow_mut(Vec::pop);
    },
    undo: || {
        let depth = DEPTHS.with_borrow_mut(Vec::pop);
        DEPTH.set(depth.unwrap_or_default());
        if DEPTHS.with_borrow(Vec::is_empty) {
            if let State::Open(part) = STATE.get() {
                STATE.set(State::Failed(part));
                END.set(None);
                over();
            }
        }
    },
    end: || {
        if !matches!(STATE.replace(State::None), State::None) {
            over();
        }
        DEPTHS.with_borrow_mut(Vec::clear);
        DEPTH.set(0);
        END.set(None);
        REASON.set(None);
        kept_settings::forget();
        BLOCK.set(CHAIN.take());
    },
};

fn over() {
    if let Some(watch) = WATCH.get() {
        (watch.over)();
    }
}

/// Installs hooks and callbacks; once, while the library is loaded, after the executor's other
/// hooks of our own.
pub fn watch(watch: &'static Watch) {
    if WATCH.set(watch).is_err() {
        return;
    }
    subtransaction::watch(&HOOKS);
    // SAFETY: hooks are set while the postmaster loads libraries, before any backend exists; the
    // callback is a static function.
    unsafe {
        NEXT_START.set(pg_sys::ExecutorStart_hook);
        NEXT_RUN.set(pg_sys::ExecutorRun_hook);
        NEXT_FINISH.set(pg_sys::ExecutorFinish_hook);
        pg_sys::ExecutorStart_hook = Some(on_start);
        pg_sys::ExecutorRun_hook = Some(on_run);
        pg_sys::ExecutorFinish_hook = Some(on_finish);
        pg_sys::RegisterXactCallback(Some(on_end), std::ptr::null_mut());
        pg_sys::CacheRegisterRelcacheCallback(Some(on_message), pg_sys::Datum::from(0));
    }
}

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
unsafe extern "C-unwind" fn on_message(_: pg_sys::Datum, relation: pg_sys::Oid) {
    if relation.to_u32() == NO_RELATION && matches!(STATE.get(), State::Open(_) | State::Failed(_))
    {
        without_raising("giving way to a block", || {
            if waits_for_client() {
                if let Some(error) = WATCH.get().and_then(|watch| (watch.gives_up)()) {
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
    BLOCK.set(true);
    STATE.set(State::GivenUp);
    REASON.set(Some(error));
}

/// Raises when the transaction was given up.
fn fail_if_given_up() {
    if matches!(STATE.get(), State::GivenUp) {
        reason().raise();
    }
}

/// Why the transaction was given up.
fn reason() -> PgError {
    let reason = REASON.take();
    reason.unwrap_or_else(|| PgError::new(b"40001", "the transaction was given up"))
}

/// Whether the part is open.
fn is_open() -> bool {
    matches!(STATE.get(), State::Open(_))
}

unsafe extern "C-unwind" fn on_start(query: *mut pg_sys::QueryDesc, flags: c_int) {
    // SAFETY: the executor's caller passes a query that has not started.
    unsafe {
        enter(|| {
            fail_if_given_up();
            // The checks of foreign keys, which may wait for COMMIT, run as the table's owner.
            let of_session = DEPTH.get() == 0 && !pg_sys::InLocalUserIdChange();
            if of_session && flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as c_int == 0 {
                if let Some(watch) = wanted() {
                    let statement = statement_of(&*(*query).plannedstmt);
                    begin_if((watch.needs_part)(&statement));
                    if matches!(STATE.get(), State::Open(part) if part.lone) {
                        retry::keep(&*query);
                        elsewhere::note(query);
                    }
                }
            }
        });
        match NEXT_START.get() {
            Some(next) => next(query, flags),
            None => raw::standard_ExecutorStart(query, flags),
        }
        if is_open() {
            enter(|| {
                if let Some(watch) = wanted() {
                    locked_rows::watch(query, watch.locked);
                }
            });
        }
    }
}

unsafe extern "C-unwind" fn on_run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    once: bool,
) {
    // SAFETY: the executor's caller passes a query that has started.
    let done =
        unsafe { enter(|| wanted().is_some_and(|watch| elsewhere::run(query, watch.execute))) };
    if done {
        return;
    }
    // An ERROR leaves the depth as it is; the end of the subtransaction puts it back.
    DEPTH.set(DEPTH.get() + 1);
    // SAFETY: the arguments are passed on.
    unsafe {
        match NEXT_RUN.get() {
            Some(next) => next(query, direction, count, once),
            None => raw::standard_ExecutorRun(query, direction, count, once),
        }
    }
    DEPTH.set(DEPTH.get().saturating_sub(1));
}

unsafe extern "C-unwind" fn on_finish(query: *mut pg_sys::QueryDesc) {
    DEPTH.set(DEPTH.get() + 1);
    // SAFETY: the argument is passed on.
    unsafe {
        match NEXT_FINISH.get() {
            Some(next) => next(query),
            None => raw::standard_ExecutorFinish(query),
        }
    }
    DEPTH.set(DEPTH.get().saturating_sub(1));
}

unsafe extern "C-unwind" fn on_end(event: pg_sys::XactEvent::Type, _: *mut std::ffi::c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    if !matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE) || !is_open() {
        return;
    }
    // SAFETY: the whole body of a callback in which raising is allowed.
    unsafe {
        enter(|| {
            PgError::new(
                b"XX000",
                "changes of ledger tables cannot be committed here",
            )
            .detail(
                "They are ordered when the session commits; something else ended its transaction.",
            )
            .raise()
        })
    }
}

/// The callbacks, where a client waits for the messages of a session that wants to be looked at.
fn wanted() -> Option<&'static Watch> {
    // SAFETY: variables of this process.
    let serves = unsafe {
        pg_sys::whereToSendOutput == pg_sys::CommandDest::DestRemote
            && pg_sys::ParallelWorkerNumber < 0
    };
    WATCH
        .get()
        .copied()
        .filter(|watch| serves && (watch.wanted)())
}

/// Begins the part where one is needed and none is open.
fn begin_if(needed: bool) {
    if !needed || is_open() {
        return;
    }
    // SAFETY: a transaction is in progress; memory context and resource owner are put back, so that
    // the statement that is about to start keeps what it has.
    unsafe {
        if pg_sys::GetCurrentTransactionNestLevel() != 1 {
            PgError::new(
                b"25001",
                "this savepoint was made before the ledger could follow",
            )
            .hint("Set chainify.writes before the transaction begins.")
            .raise();
        }
        let lone = pg_sys::TransactionBlockStatusCode() as u8 == b'I';
        let part = Part {
            block: BLOCK.get() && !lone,
            lone,
            changed_before: pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId,
        };
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        STATE.set(State::Open(part));
        messages::watch(put_message, flush);
    }
    if let Some(watch) = WATCH.get() {
        (watch.begun)();
    }
}

/// A utility statement of the session itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::pg) enum Course {
    /// PostgreSQL runs it.
    Run,
    /// It is done when CommandComplete is sent.
    Later,
}

/// Looks at a utility statement before it runs.
///
/// # Safety
/// `node` must be a utility statement.
pub(in crate::pg) unsafe fn utility(
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
    if DEPTH.get() == 0 {
        if let Some(watch) = wanted() {
            begin_if((watch.needs_part)(&statement()));
        }
    }
    Course::Run
}

fn transaction_statement(statement: &pg_sys::TransactionStmt) -> Course {
    use pg_sys::TransactionStmtKind::*;
    let open = match STATE.get() {
        State::Open(part) => Some(part),
        State::GivenUp => return given_up(statement),
        _ => None,
    };
    match (statement.kind, open) {
        (TRANS_STMT_BEGIN | TRANS_STMT_START, Some(part)) if !part.block => PgError::new(
            b"0A000",
            "BEGIN cannot follow changes of ledger tables in one request",
        )
        .hint("Send BEGIN before the first of them.")
        .raise(),
        (TRANS_STMT_BEGIN | TRANS_STMT_START, _) => BLOCK.set(true),
        (TRANS_STMT_COMMIT, Some(_)) => {
            END.set(Some(End::Commit {
                chain: statement.chain,
            }));
            return Course::Later;
        }
        (TRANS_STMT_ROLLBACK, Some(part)) if !part.block => {
            END.set(Some(End::Rollback));
            return Course::Later;
        }
        (TRANS_STMT_COMMIT | TRANS_STMT_ROLLBACK, _) => {
            CHAIN.set(statement.chain && BLOCK.get());
        }
        (TRANS_STMT_PREPARE, Some(_)) => PgError::new(
            b"0A000",
            "a transaction that changed ledger tables cannot be prepared",
        )
        .hint("COMMIT it.")
        .raise(),
        // A savepoint must lie inside of the part: its release would keep the part otherwise.
        (TRANS_STMT_SAVEPOINT, None) if BLOCK.get() && wanted().is_some() => begin_if(true),
        _ => (),
    }
    Course::Run
}

/// COMMIT fails and ends the transaction, as any COMMIT that fails does.
fn given_up(statement: &pg_sys::TransactionStmt) -> Course {
    use pg_sys::TransactionStmtKind::*;
    match statement.kind {
        TRANS_STMT_ROLLBACK => {
            CHAIN.set(statement.chain);
            Course::Run
        }
        TRANS_STMT_COMMIT => {
            END.set(Some(End::Commit { chain: false }));
            Course::Later
        }
        _ => {
            fail_if_given_up();
            Course::Run
        }
    }
}

unsafe extern "C-unwind" fn put_message(kind: c_char, text: *const c_char, length: usize) -> c_int {
    // SAFETY: the arguments are passed on, or a status byte in their place.
    unsafe {
        let mut text = text;
        let message = match length {
            0 => &[],
            _ => std::slice::from_raw_parts(text.cast::<u8>(), length),
        };
        let ready = kind as u8 == b'Z';
        let mut idle = false;
        if matches!(kind as u8, b'C' | b'Z') && !matches!(STATE.get(), State::None) {
            idle = enter(|| before_message(kind as u8));
        }
        if ready {
            let ran = enter(|| retry::ready(&messages::send));
            if ran || idle {
                text = c"I".as_ptr();
            }
        }
        if !ready && retry::holds(kind as u8, message, is_open(), &messages::send) {
            return 0;
        }
        messages::pass_on(kind, text, length)
    }
}

unsafe extern "C-unwind" fn flush() -> c_int {
    retry::flush(&messages::send);
    messages::flush_on()
}

/// Ends the transaction where it is time to. True: no transaction is in progress any more.
fn before_message(kind: u8) -> bool {
    let ready = kind == b'Z';
    match STATE.get() {
        State::Open(part) => {
            // SAFETY: a variable of this process.
            let pipeline = unsafe { pg_sys::MyXactFlags } as u32 & pg_sys::XACT_FLAGS_PIPELINING;
            let lone = !ready && part.lone && pipeline == 0;
            let end = match END.take() {
                Some(end) => end,
                None if lone || ready && !part.block => End::Commit { chain: false },
                None => return false,
            };
            if ready {
                shows(c"COMMIT", true);
            }
            retry::ending();
            finish(part, end);
        }
        State::Failed(part) if ready && !part.block => abort(),
        State::GivenUp if END.take().is_some() => {
            let reason = reason();
            abort();
            reason.raise();
        }
        _ => return false,
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

/// Ends the transaction. When that fails, none is in progress afterwards and the error is raised:
/// for the client, as after any COMMIT that failed.
fn finish(part: Part, end: End) {
    let End::Commit { chain } = end else {
        return abort();
    };
    if let Err(error) = attempt(|| commit(part, chain)) {
        abort();
        error.raise();
    }
}

fn abort() {
    // SAFETY: no portal runs. The context of the messages is there for as long as the session.
    unsafe {
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}

/// A cancel for the sake of a block finds its locks gone, so it is put off until the work remains
/// that may be cancelled.
fn commit(part: Part, chain: bool) {
    let remaining = without_cancels(|| {
        constraints::check_at_once();
        let remaining = WATCH.get().and_then(|watch| (watch.take)());
        let settings = kept_settings::values();
        leave_part(remaining.is_none());
        if remaining.is_some() {
            kept_settings::set_again(settings);
        }
        // It holds locks, so it ends first unless it has changed something: that is committed only
        // if the rest is.
        if remaining.is_none() || !part.changed_before {
            end_rest(part, chain, remaining.is_some());
        }
        remaining
    });
    if let Some(remaining) = remaining {
        remaining().unwrap_or_else(|error| {
            retry::refused(&error);
            error.raise()
        });
        if part.changed_before {
            end_rest(part, chain, false);
        }
    }
}

/// Ends the part and what savepoints are open in it.
fn leave_part(keep: bool) {
    STATE.set(State::None);
    over();
    // SAFETY: no portal runs; the innermost subtransaction is in progress, since this is where the
    // session commits.
    unsafe {
        while pg_sys::GetCurrentTransactionNestLevel() > 1 {
            match keep {
                true => pg_sys::ReleaseCurrentSubTransaction(),
                false => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
            }
        }
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}

/// Commits the transaction itself. `empty`: it changed nothing, so nobody waits for the disk.
fn end_rest(part: Part, chain: bool, empty: bool) {
    // SAFETY: no subtransaction is open and no portal runs. The setting is put back; an ERROR
    // before that ends the session's transaction, and PostgreSQL knows what was set.
    unsafe {
        let durable = pg_sys::synchronous_commit;
        if empty {
            pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as c_int;
        }
        if part.block {
            CHAIN.set(chain);
            pg_sys::EndTransactionBlock(chain);
        } else if !part.lone {
            pg_sys::EndImplicitTransactionBlock();
        }
        let ended = attempt(|| pg_sys::CommitTransactionCommand());
        pg_sys::synchronous_commit = durable;
        ended.unwrap_or_else(|error| error.raise());
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}
