//! Keeps local sessions from holding up a block.
//!
//! What a block changes is agreed between organisations; a lock that one of them happens to hold is not. So the block
//! goes first: a session that is in its way for longer than `chainify.conflict_grace` loses its statement, or, when it
//! holds its locks between statements, its connection, as queries do that conflict with replay on a hot standby.
//! The executor itself only waits, so that a lock never becomes the outcome of a transaction (X4).
//!
//! An executor that waits runs no code of ours, so a background worker watches. Ending whoever is directly in the way is
//! enough: one that itself waits for others gives up its locks, or its place in the queue, all the same.
//! PostgreSQL's own rules hold for autovacuum, which makes way unless it prevents wraparound.
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::ledger::tables::LedgerTable;
use crate::pg::base::error::PgError;
use crate::pg::base::memory::Context;
use crate::pg::base::{report, settings};
use crate::pg::shared::conflict_memory as memory;
use crate::pg::shared::conflict_memory::Reason;
use crate::pg::shared::end_session::{cancel_statement, terminate};
use crate::pg::shared::lock_waits;
use crate::pg::shared::lock_waits::Session;
use crate::pg::shared::worker;

/// How often a running block is looked at: a fraction of the grace, within these bounds.
const LOOKS_PER_GRACE: u32 = 5;
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// A session that still blocks so long after its statement was cancelled is terminated: it went on, or it runs in a
/// subtransaction and its locks are those of the transaction around it.
const CANCEL_TAKES_MAX: Duration = Duration::from_secs(1);

/// Asks for shared memory, worker and hook; once, in the postmaster.
pub fn install() {
    memory::request();
    worker::register(watch);
    report::explain_cancels(explain);
}

/// Runs `f`, the transactions of a block; local sessions in its way give way. Call it with the turn of the block taken:
/// whoever executes another one is no local session.
pub fn before_locals<T>(block: i64, f: impl FnOnce() -> T) -> T {
    let tables = tables::all();
    memory::executing(block, names(&tables), f)
}

/// The same for a worker, from now on until [`memory::retire`]: its part stays open when it has run.
pub fn enlist(block: i64) {
    memory::enlist(block, names(&tables::all()));
}

fn names(tables: &[(Oid, Rc<LedgerTable>)]) -> impl Iterator<Item = (Oid, &str)> {
    tables
        .iter()
        .map(|(oid, table)| (*oid, table.name.as_str()))
}

/// A local transaction in the way of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    executor: i32,
    block: i64,
    pid: i32,
    transaction: u32,
}

/// What is known of a claim.
#[derive(Clone, Copy)]
struct History {
    since: Instant,
    cancelled: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Wait,
    Cancel,
    Terminate,
}

/// What to do now about a session in the way; `waiting` for an outcome of its own, which cannot come before the block.
fn decide(history: History, now: Instant, grace: Duration, idle: bool, waiting: bool) -> Action {
    match history.cancelled {
        None if waiting => Action::Cancel,
        None if now - history.since < grace => Action::Wait,
        None if idle => Action::Terminate,
        None => Action::Cancel,
        Some(_) if idle => Action::Terminate,
        Some(at) if now - at < grace.max(CANCEL_TAKES_MAX) => Action::Wait,
        Some(_) => Action::Terminate,
    }
}

/// What the worker does until it has to stop: sleeps while no block runs.
fn watch() {
    memory::serve();
    let scratch = Context::child(c"chainify conflicts");
    let mut claims = BTreeMap::new();
    loop {
        let running = memory::executing_now();
        let grace = settings::conflict_grace();
        if let Some(grace) = grace {
            claims = scratch.enter(|| look(&running, grace, &claims));
            scratch.reset();
        }
        let pause = grace.map_or(LOOK_MAX, |grace| {
            (grace / LOOKS_PER_GRACE).clamp(LOOK_MIN, LOOK_MAX)
        });
        if !worker::wait((!running.is_empty()).then_some(pause)) {
            return;
        }
    }
}

/// Looks at every block being executed; returns the claims that are in the way now.
fn look(
    running: &[(i32, i64)],
    grace: Duration,
    before: &BTreeMap<Claim, History>,
) -> BTreeMap<Claim, History> {
    let mut claims = BTreeMap::new();
    for &(executor, block) in running {
        match lock_waits::waits(executor) {
            Some(true) => (),
            Some(false) => continue,
            None => {
                memory::forget_executor(executor);
                continue;
            }
        }
        for pid in lock_waits::blockers(executor) {
            if let Some((_, other)) = running.iter().find(|(other, _)| *other == pid) {
                if *other == block {
                    part(executor, pid);
                }
                continue;
            }
            let Some(session) = lock_waits::session(pid).filter(gives_way) else {
                continue;
            };
            let claim = Claim {
                executor,
                block,
                pid,
                transaction: session.transaction,
            };
            let mut history = before.get(&claim).copied().unwrap_or(History {
                since: Instant::now(),
                cancelled: None,
            });
            resolve(claim, &mut history, &session, grace);
            claims.insert(claim, history);
        }
    }
    claims
}

/// Sessions of clients, and the ledger's own maintenance, which begins again later.
fn gives_way(session: &Session) -> bool {
    session.of_client || memory::is_maintaining(session.place, session.pid)
}

/// Parts of one block wait for each other: they are not what they seemed, and the worker among them gives up. Mostly a part
/// has done so itself (`lock_timeout`); a function may have put that off.
fn part(waiting: i32, holding: i32) {
    let worker = [waiting, holding]
        .into_iter()
        .filter_map(lock_waits::session);
    if let Some(worker) = worker.filter(|s| !s.of_client).min_by_key(|s| s.pid) {
        terminate(&worker);
    }
}

fn resolve(claim: Claim, history: &mut History, session: &Session, grace: Duration) {
    let now = Instant::now();
    let waiting = memory::is_waiting(session.place, session.pid);
    let action = decide(*history, now, grace, session.idle, waiting);
    if action == Action::Wait {
        return;
    }
    let table = lock_waits::table_waited_for(claim.executor);
    // Meanwhile the lock may have been given up: a session that is no longer in the way is left alone.
    if !lock_waits::blockers(claim.executor).contains(&session.pid) {
        return;
    }
    memory::leave_reason(
        session.place,
        session.pid,
        claim.transaction,
        (claim.executor, claim.block),
        table,
    );
    match action {
        Action::Wait => (),
        Action::Cancel => {
            cancel_statement(session);
            history.cancelled = Some(now);
        }
        Action::Terminate if session.of_client => terminate(session),
        // Nobody would start maintenance again.
        Action::Terminate => cancel_statement(session),
    }
}

/// The error a session gets in place of a plain cancel or termination. Must not raise.
///
/// Not of class 40: the lock did not lose a race that a retry could win, and a retry loop would take it again at once.
fn explain(fatal: bool) -> Option<PgError> {
    let reason = memory::take_reason()?;
    let message = if fatal {
        "terminating connection that blocks a ledger block"
    } else {
        "canceling statement that blocks a ledger block"
    };
    Some(
        PgError::new(b"CH007", message)
            .detail(detail(&reason))
            .hint(hint(&reason)),
    )
}

fn detail(reason: &Reason) -> String {
    let Reason { block, table, .. } = reason;
    // In the way is who holds the lock, and also who asked for it before the block.
    match table {
        Some(table) => format!(
            "Block {block} waited for a lock on table \"{table}\" behind this session's transaction."
        ),
        None => format!("Block {block} waited for a lock behind this session's transaction."),
    }
}

fn hint(reason: &Reason) -> &'static str {
    if reason.waiting {
        "Commit before calling chainify.execute or chainify.wait. What was submitted is not taken back: look for it in the view chainify.transactions."
    } else {
        "Keep transactions short that lock ledger tables; change these tables with SELECT chainify.execute('...')."
    }
}
