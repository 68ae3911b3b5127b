//! Makes local sessions give way when they hold locks that a block needs.
//! `chainify_worker::conflicts` decides which session, when and how.
//!
//! The executor itself only waits, so that a lock never becomes the outcome of a transaction (X4).
//! While the executor waits for a lock, no code of the extension runs in it. So a background worker
//! watches.
use std::rc::Rc;
use std::time::{Duration, Instant};

use chainify_worker::conflicts::{self, Executor, Reason, Session, RETRY, SQLSTATE};
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::ledger::tables::LedgerTable;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::PgError;
use crate::pg::base::memory::Context;
use crate::pg::base::settings;
use crate::pg::shared::conflict_memory as memory;
use crate::pg::shared::end_session;
use crate::pg::shared::lock_waits;
use crate::pg::shared::worker;

/// The key of the only row of a table that the session's transaction has changed or locked; None:
/// there is none, or there are several. Must not raise.
pub type OnlyRow = fn(&str) -> Option<String>;

/// Runs `f`, the transactions of a block; local sessions in its way give way. Call it with the turn
/// of the block taken: a session that executes another block is no local session.
pub fn before_locals<T>(block: i64, f: impl FnOnce() -> T) -> T {
    let tables = tables::all();
    memory::executing(block, names(&tables), f)
}

/// The same for a worker, from now on until [`memory::retire`]: its part stays open when it has
/// run.
pub fn enlist(block: i64) {
    memory::enlist(block, names(&tables::all()));
}

fn names(tables: &[(Oid, Rc<LedgerTable>)]) -> impl Iterator<Item = (Oid, &str)> {
    tables
        .iter()
        .map(|(oid, table)| (*oid, table.name.as_str()))
}

/// Runs in the conflict worker until it has to stop.
pub fn watch() {
    memory::serve();
    conflicts::run(&mut Server {
        start: Instant::now(),
        scratch: Context::child(c"chainify conflicts"),
        seen: Vec::new(),
    });
}

/// The server that the worker watches.
struct Server {
    start: Instant,
    /// For what PostgreSQL allocates while one look goes on.
    scratch: Context,
    /// The sessions of this look; a handle is a place here.
    seen: Vec<lock_waits::Session>,
}

impl conflicts::Host for Server {
    type Handle = usize;

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&mut self, time: Option<Duration>) -> bool {
        worker::wait(time)
    }

    fn grace(&self) -> Option<Duration> {
        settings::conflict_grace()
    }

    fn executing(&mut self) -> Vec<Executor> {
        let running = memory::executing_now().into_iter();
        running
            .map(|(pid, block)| Executor { pid, block })
            .collect()
    }

    fn waits(&mut self, pid: i32) -> Option<bool> {
        lock_waits::waits(pid)
    }

    fn forget(&mut self, pid: i32) {
        memory::forget_executor(pid);
    }

    fn blockers(&mut self, pid: i32) -> Vec<i32> {
        self.scratch.enter(|| lock_waits::blockers(pid))
    }

    fn session(&mut self, pid: i32) -> Option<Session<usize>> {
        let session = self.scratch.enter(|| lock_waits::session(pid))?;
        let told = Session {
            handle: self.seen.len(),
            transaction: session.transaction,
            of_client: session.of_client,
            maintains: memory::is_maintaining(session.place, pid),
            idle: session.idle,
            waiting: memory::is_waiting(session.place, pid),
            gives_up: memory::is_giving_up(session.place, pid),
        };
        self.seen.push(session);
        Some(told)
    }

    fn table_waited_for(&mut self, pid: i32) -> Option<u32> {
        let table = self.scratch.enter(|| lock_waits::table_waited_for(pid));
        table.map(Oid::to_u32)
    }

    fn leave_reason(
        &mut self,
        session: &Session<usize>,
        Executor { pid, block }: Executor,
        table: Option<u32>,
    ) {
        let seen = &self.seen[session.handle];
        memory::leave_reason(
            seen.place,
            seen.pid,
            session.transaction,
            (pid, block),
            table.map(Oid::from),
        );
    }

    fn ask_to_give_up(&mut self, session: usize) {
        end_session::wake(&self.seen[session]);
    }

    fn cancel(&mut self, session: usize) {
        end_session::cancel_statement(&self.seen[session]);
    }

    fn terminate(&mut self, session: usize) {
        end_session::terminate(&self.seen[session]);
    }

    fn looked(&mut self) {
        self.seen.clear();
        self.scratch.reset();
    }
}

/// The error a session gets in place of a plain cancel or termination. Must not raise.
pub fn explain(fatal: bool, only_row: OnlyRow) -> Option<PgError> {
    let reason = reason()?;
    if !fatal && phase() == Phase::Plain {
        return Some(conflict(&reason, only_row));
    }
    let error = PgError::new(SQLSTATE, Reason::message(fatal));
    Some(error.detail(reason.detail()).hint(reason.hint()))
}

/// Why this session's transaction is to be ended; None: it is not. Told once.
fn reason() -> Option<Reason> {
    let memory::Reason {
        block,
        table,
        waiting,
    } = memory::take_reason()?;
    Some(Reason {
        block,
        table,
        waiting,
    })
}

/// Whether the conflict worker has cancelled this session, whatever its transaction was then. Told
/// once.
pub fn take_cancel() -> bool {
    memory::take_end()
}

fn conflict(reason: &Reason, only_row: OnlyRow) -> PgError {
    let row = reason.table.as_deref().and_then(only_row);
    let detail = reason.conflict_detail(row.as_deref());
    let error = PgError::new(RETRY, Reason::conflict()).detail(detail);
    error.hint("The transaction might succeed if retried.")
}

/// The error of a session that has to give up its transaction, whose changes would be ordered; None
/// when it need not.
pub fn gives_up(only_row: OnlyRow) -> Option<PgError> {
    reason().map(|reason| conflict(&reason, only_row))
}
