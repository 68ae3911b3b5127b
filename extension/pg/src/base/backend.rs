//! The state of this backend in one place: whose statements run now, and the transaction of an
//! ordinary session with all that is known of it between two calls of PostgreSQL's.
//!
//! PostgreSQL calls hooks, callbacks and triggers without a context, so that the state is global.
//! The rooms above keep what they know of a phase beside it: their types are not known here.
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CString};
use std::ops::Deref;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use pgrx::pg_sys;

use crate::base::error::PgError;
use crate::base::held_locks::Held;

/// Whose statements run, and so what they may do and what becomes of their changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// An ordinary session's: changes of ledger tables are refused.
    Outside,
    /// An ordinary session's, in the part of its transaction that will be undone: changes of ledger
    /// tables are recorded, and ordered when the session commits.
    Plain,
    /// A client's, in transaction `tx` of a block: changes are recorded.
    Client { tx: u32 },
    /// The ledger's own, in transaction `tx` of a block: changes are recorded, and nobody judges
    /// the statement.
    Own { tx: u32 },
    /// Those of a DEPLOY transaction: definitions change, rows do not.
    Deploy,
    /// The ledger's own work (attach, seal, repair): neither refused nor recorded.
    Internal,
}

/// The phase that was entered, in one word: hooks ask for each statement, and triggers for each
/// row. Its low half is the transaction. 0: an ordinary session's statements run.
static ENTERED: AtomicU64 = AtomicU64::new(0);

const CLIENT: u64 = 1 << 32;
const OWN: u64 = 2 << 32;
const DEPLOY: u64 = 3 << 32;
const INTERNAL: u64 = 4 << 32;

/// The phase now.
#[inline]
pub fn phase() -> Phase {
    let entered = ENTERED.load(Relaxed);
    let tx = entered as u32;
    match entered - u64::from(tx) {
        CLIENT => Phase::Client { tx },
        OWN => Phase::Own { tx },
        DEPLOY => Phase::Deploy,
        INTERNAL => Phase::Internal,
        _ if BACKEND.session.is_open() => Phase::Plain,
        _ => Phase::Outside,
    }
}

/// Whether the statements that run now belong to the ledger's work: they are no part of a
/// transaction of the session's own, and change nothing that is kept about one.
#[inline]
pub(crate) fn is_own_work() -> bool {
    ENTERED.load(Relaxed) != 0
}

/// Runs `f` in a phase; the phase before returns however `f` ends. Outside and plain SQL are one:
/// the session is in the part of its transaction, or not.
pub fn within<T>(phase: Phase, f: impl FnOnce() -> T) -> T {
    /// Puts back what was entered before.
    struct Back(u64);
    impl Drop for Back {
        fn drop(&mut self) {
            ENTERED.store(self.0, Relaxed);
        }
    }
    let entered = match phase {
        Phase::Outside | Phase::Plain => 0,
        Phase::Client { tx } => CLIENT + u64::from(tx),
        Phase::Own { tx } => OWN + u64::from(tx),
        Phase::Deploy => DEPLOY,
        Phase::Internal => INTERNAL,
    };
    let _back = Back(ENTERED.swap(entered, Relaxed));
    f()
}

/// Runs `f`, the ledger's own work: neither refused nor recorded as a change of a block.
pub fn unrecorded<T>(f: impl FnOnce() -> T) -> T {
    within(Phase::Internal, f)
}

/// A value of this backend, which has one thread.
pub(crate) struct OfBackend<T>(T);

// SAFETY: PostgreSQL's code and ours run in the one thread of the process.
unsafe impl<T> Sync for OfBackend<T> {}

impl<T> Deref for OfBackend<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The knowledge of a backend, each part as long as its comment says.
pub(crate) struct Backend {
    /// The transaction of an ordinary session.
    pub(crate) session: Session,
}

pub(crate) static BACKEND: OfBackend<Backend> = OfBackend(Backend {
    session: Session::new(),
});

/// The bounds of the part of a session's transaction that is undone.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Within {
    Subtransaction,
    /// The whole transaction, while a procedure runs that may end it.
    Procedure,
    /// The same after it. An empty subtransaction keeps PostgreSQL from committing too early.
    AfterProcedure,
}

/// The part that is open.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) within: Within,
    /// The session said BEGIN.
    pub(crate) block: bool,
    /// The transaction of a single statement.
    pub(crate) lone: bool,
    /// The transaction had changed something before.
    pub(crate) changed_before: bool,
    /// The nesting level of the settings of the part.
    pub(crate) settings_level: c_int,
}

/// How the session ends its transaction, said while a portal ran.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Commit { chain: bool },
    Rollback,
}

/// How far the session's transaction is, with what it has there.
pub(crate) enum State {
    /// No part is open.
    Outside,
    /// The part is open; `end`: what the session said of its end.
    Open { part: Part, end: Option<End> },
    /// An error undid the part; the transaction has failed.
    Failed(Part),
    /// The session gave up its transaction while it waited for its client, who does not know.
    /// `reason` is the error of the next statement. `commits`: the client has said COMMIT.
    GivenUp {
        reason: Option<PgError>,
        commits: bool,
    },
}

/// The transaction of an ordinary session.
pub(crate) struct Session {
    /// How far it is.
    state: RefCell<State>,
    /// The session said BEGIN.
    pub(crate) block: Cell<bool>,
    /// The transaction ends with AND CHAIN.
    pub(crate) chain: Cell<bool>,
    /// The transaction has something to commit that gives it no id, such as a NOTIFY.
    pub(crate) changed: Cell<bool>,
    /// How many executors run, each inside of the one before.
    pub(crate) depth: Cell<u32>,
    /// The depth at which each open subtransaction began.
    pub(crate) depths: RefCell<Vec<u32>>,
    /// The query that may be executed elsewhere, until it runs.
    pub(crate) elsewhere: Cell<*const pg_sys::QueryDesc>,
    /// Its locks that no block needs.
    pub(crate) locks: Locks,
    /// CALL or DO of it, which may end it.
    pub(crate) procedure: Procedure,
    /// Its statement, which may run again.
    pub(crate) again: Again,
}

/// Locks of the session's transaction that no block needs.
pub(crate) struct Locks {
    /// The transaction may hold some: only then it is worth a look at the locks of the server.
    pub(crate) some: Cell<bool>,
    /// Those that the session holds in its transaction's place.
    pub(crate) held: RefCell<Vec<Held>>,
}

/// CALL or DO of a session.
pub(crate) struct Procedure {
    /// One runs that may end the session's transaction.
    pub(crate) runs: Cell<bool>,
    /// PL/pgSQL's plugin: ours, with the functions of the one that was there before.
    pub(crate) plugin: Cell<*mut pg_sys::PLpgSQL_plugin>,
    pub(crate) theirs: Cell<*mut pg_sys::PLpgSQL_plugin>,
    /// The settings from before a procedure whose COMMIT failed.
    pub(crate) before: RefCell<Option<Before>>,
}

/// Settings as they were before a transaction, by name. None: the value is that of RESET.
pub(crate) type Before = Vec<(CString, Option<CString>)>;

/// A statement that may run again, and how often it has.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) extended: bool,
    /// It has done nothing that must not be done twice.
    pub(crate) whole: bool,
    /// How often it has run again.
    pub(crate) runs: u32,
    pub(crate) until: Instant,
}

/// The statement of a session that may run again: it outlives its transaction.
pub(crate) struct Again {
    pub(crate) kept: Cell<Option<Kept>>,
    /// The message that is held back, with its kind: CommandComplete or ErrorResponse.
    pub(crate) held: RefCell<Option<(u8, Vec<u8>)>>,
    /// The transaction was ending: an error now is that of its end.
    pub(crate) ending: Cell<bool>,
    /// The row that another transaction changed first.
    pub(crate) row: Cell<Option<u32>>,
    /// The transaction has done something that must not be done twice, before its statement began.
    pub(crate) cannot: Cell<bool>,
    /// Holds text and values of the statement; emptied for the next one.
    pub(crate) memory: Cell<pg_sys::MemoryContext>,
    pub(crate) text: Cell<*const c_char>,
    pub(crate) values: Cell<pg_sys::ParamListInfo>,
    /// The row whose turn this session has.
    pub(crate) turn: Cell<Option<u32>>,
}

impl Session {
    const fn new() -> Self {
        Session {
            state: RefCell::new(State::Outside),
            block: Cell::new(false),
            chain: Cell::new(false),
            changed: Cell::new(false),
            depth: Cell::new(0),
            depths: RefCell::new(Vec::new()),
            elsewhere: Cell::new(null()),
            locks: Locks {
                some: Cell::new(false),
                held: RefCell::new(Vec::new()),
            },
            procedure: Procedure {
                runs: Cell::new(false),
                plugin: Cell::new(null_mut()),
                theirs: Cell::new(null_mut()),
                before: RefCell::new(None),
            },
            again: Again {
                kept: Cell::new(None),
                held: RefCell::new(None),
                ending: Cell::new(false),
                row: Cell::new(None),
                cannot: Cell::new(false),
                memory: Cell::new(null_mut()),
                text: Cell::new(null()),
                values: Cell::new(null_mut()),
                turn: Cell::new(None),
            },
        }
    }

    /// The part, while it is open.
    #[inline]
    pub(crate) fn part(&self) -> Option<Part> {
        match *self.state.borrow() {
            State::Open { part, .. } => Some(part),
            _ => None,
        }
    }

    /// Whether the part is open.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Open { .. })
    }

    /// Whether the transaction, if there is one, is as PostgreSQL knows it.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(*self.state.borrow(), State::Outside)
    }

    /// Goes on to another state, and gives the one before.
    pub(crate) fn enter(&self, state: State) -> State {
        self.state.replace(state)
    }

    /// Shows the state.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.state.borrow())
    }

    /// Changes what belongs to the state. `f` must not raise.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.borrow_mut())
    }
}
