//! The workers of this session as its leader sees them, and what it says to them (spec/parallel.md, Messages).
//!
//! Invariant P3: whatever ends the leader's transaction ends that of every worker; before another block runs, all have.
use std::cell::RefCell;
use std::time::{Duration, Instant};

use chainify_ledger::parts::{LeaderSays, PartReport, PartRequest, WorkerSays};

use crate::block::part;
use crate::pg::base::error::PgError;
use crate::pg::base::latch::pause;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::run::block_settings::show_activity;
use crate::pg::shared::pool;
use crate::pg::shared::pool::{Lost, Pool};

/// How often the leader looks which transactions its workers run, while it waits for nothing else.
const LOOK: Duration = Duration::from_millis(100);
/// How long workers may take to roll back, or to commit, before they are ended.
const SETTLE_MAX: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_millis(5);

/// What a worker's transaction is, as far as the leader knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Closed,
    /// Open: it was told to run a part.
    Open,
    /// It was told to roll back, and has not answered.
    Abandoned,
}

struct Team {
    pool: Pool,
    stages: Vec<Stage>,
}

thread_local! {
    static TEAM: RefCell<Option<Team>> = const { RefCell::new(None) };
}

/// How many workers there are.
pub fn size() -> usize {
    TEAM.with_borrow(|team| team.as_ref().map_or(0, |t| t.stages.len()))
}

/// Starts up to `workers` workers in place of those there are; returns how many the server has room for. Raises when there is no
/// shared memory for them.
pub fn start(workers: usize) -> usize {
    TEAM.with_borrow_mut(|team| {
        end(team);
        *team = Pool::start(workers).map(|pool| Team {
            stages: vec![Stage::Closed; pool.workers()],
            pool,
        });
    });
    size()
}

/// Before the first part of a block.
pub fn begin() {
    with(|team| team.pool.clear());
}

/// Has worker `part` - 1 run a part.
pub fn run(part: usize, request: PartRequest) -> Result<(), PgError> {
    with(|team| {
        team.stages[part - 1] = Stage::Open;
        let message = LeaderSays::Run(request).write();
        team.pool.send(part - 1, &message).map_err(|_| lost(part))
    })
}

/// Waits until parts 1 to `parts` are ready; meanwhile this session shows the earliest transaction that still runs.
/// `members`: how many transactions each has.
pub fn collect(number: i64, members: &[usize]) -> Result<Vec<PartReport>, PgError> {
    let mut reports: Vec<Option<PartReport>> = vec![None; members.len()];
    loop {
        for (at, report) in reports.iter_mut().enumerate().filter(|(_, r)| r.is_none()) {
            *report = match hear(at + 1)? {
                None => None,
                Some(WorkerSays::Ready(bytes)) => {
                    Some(PartReport::read(&bytes, members[at]).map_err(garbled)?)
                }
                Some(WorkerSays::Failed(why)) => {
                    with(|team| team.stages[at] = Stage::Closed);
                    return Err(PgError::new(b"40001", format!("part {}: {why}", at + 1)));
                }
                Some(other) => return Err(garbled(format!("{other:?}"))),
            };
        }
        if reports.iter().all(Option::is_some) {
            show_activity(None);
            return Ok(reports.into_iter().flatten().collect());
        }
        let running = pool::earliest_running();
        show_activity(running.map(|tx| part::activity(number, tx)).as_deref());
        pause(LOOK);
    }
}

/// Has a part that is ready commit.
pub fn tell_to_commit(part: usize) -> Result<(), PgError> {
    with(|team| {
        let sent = team.pool.send(part - 1, &LeaderSays::Commit.write());
        sent.map_err(|_| lost(part))
    })
}

/// Waits until a part that was told to has committed.
pub fn committed(part: usize) -> Result<(), PgError> {
    let until = Instant::now() + SETTLE_MAX;
    loop {
        match hear(part)? {
            Some(WorkerSays::Committed) => {
                with(|team| team.stages[part - 1] = Stage::Closed);
                return Ok(());
            }
            Some(WorkerSays::Failed(why)) => {
                with(|team| team.stages[part - 1] = Stage::Closed);
                let message = format!("part {part} of the block could not be committed");
                return Err(PgError::new(b"58000", message).detail(why));
            }
            Some(other) => return Err(garbled(format!("{other:?}"))),
            None if Instant::now() > until => {
                let message = format!("part {part} of the block does not answer");
                return Err(PgError::new(b"58000", message));
            }
            None => pause(LOOK),
        }
    }
}

/// Tells every worker with an open part to roll back, and waits for none. Does not raise.
pub fn abandon() {
    TEAM.with(|team| {
        // Borrowed: the session ends while it was sending, and its workers with it.
        let Ok(mut team) = team.try_borrow_mut() else {
            return;
        };
        let Some(Team { pool, stages }) = team.as_mut() else {
            return;
        };
        if stages.iter().all(|s| *s != Stage::Open) {
            return;
        }
        pool::stop_parts();
        let mut told = true;
        for (worker, stage) in stages.iter_mut().enumerate() {
            if *stage == Stage::Open {
                pool.cancel(worker);
                told &= pool.try_send(worker, &LeaderSays::Abandon.write()).is_ok();
                *stage = Stage::Abandoned;
            }
        }
        if !told {
            end(&mut team);
        }
    });
}

/// Waits until nothing is open that an earlier block left: parts of this session, and of one that ended. Raises 55P03 after
/// [`SETTLE_MAX`].
pub fn settle() {
    let until = Instant::now() + SETTLE_MAX;
    while !answered(until) {
        pause(LOOK);
    }
    while !own_lock::is_free(OwnLock::Parts) {
        if Instant::now() > until {
            PgError::new(b"55P03", "parts of an earlier block are still open").raise();
        }
        pause(SETTLE_PAUSE);
    }
}

/// Whether every worker that was told to roll back has said so; one that cannot, or not in time, is ended.
fn answered(until: Instant) -> bool {
    TEAM.with_borrow_mut(|team| {
        let Some(Team { pool, stages }) = team else {
            return true;
        };
        let mut broken = false;
        let waiting = stages.iter_mut().enumerate();
        for (worker, stage) in waiting.filter(|(_, stage)| **stage != Stage::Closed) {
            loop {
                match pool
                    .receive(worker)
                    .map(|bytes| bytes.map(WorkerSays::read))
                {
                    Ok(None) => break,
                    Ok(Some(Ok(WorkerSays::Abandoned))) => *stage = Stage::Closed,
                    Ok(Some(Ok(_))) => (), // the answer to what it was told before
                    Ok(Some(Err(_))) | Err(Lost) => {
                        broken = true;
                        break;
                    }
                }
            }
        }
        let done = stages.iter().all(|stage| *stage == Stage::Closed);
        if broken || (!done && Instant::now() > until) {
            end(team);
            return true;
        }
        done
    })
}

fn hear(part: usize) -> Result<Option<WorkerSays>, PgError> {
    let received = with(|team| team.pool.receive(part - 1)).map_err(|_| lost(part))?;
    received.map(WorkerSays::read).transpose().map_err(garbled)
}

fn with<T>(f: impl FnOnce(&mut Team) -> T) -> T {
    TEAM.with_borrow_mut(|team| f(team.as_mut().expect("a team is made ready first")))
}

fn end(team: &mut Option<Team>) {
    if let Some(Team { pool, .. }) = team.take() {
        pool.end();
    }
}

fn lost(part: usize) -> PgError {
    PgError::new(b"58000", format!("the worker of part {part} is gone"))
}

fn garbled(what: impl std::fmt::Display) -> PgError {
    PgError::new(b"XX000", format!("answer of a worker is garbled: {what}"))
}
