//! The executor workers of this session. `chainify_worker::team` decides the leader's messages to
//! them, and when they end.
use std::cell::RefCell;
use std::time::{Duration, Instant};

use chainify_ledger::parts::{PartReport, PartRequest};
use chainify_worker::team::{self, Lost, Stage};

use crate::block::part;
use crate::ledger::failure;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::latch::pause;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::planner::block_settings::show_activity;
use crate::pg::shared::pool;
use crate::pg::shared::pool::Pool;

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

/// Starts up to `workers` workers in place of those there are; returns how many the server has room
/// for. Raises when there is no shared memory for them.
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
    team::start_part(&mut Leader::new(), part, request).map_err(failure::into_error)
}

/// Waits until parts 1 to `parts` are ready; meanwhile this session shows the earliest transaction
/// that still runs. `members`: how many transactions each has.
pub fn collect(number: i64, members: &[usize]) -> Result<Vec<PartReport>, PgError> {
    let mut leader = Leader::new();
    leader.number = number;
    team::collect(&mut leader, members).map_err(failure::into_error)
}

/// Has a part that is ready commit.
pub fn tell_to_commit(part: usize) -> Result<(), PgError> {
    team::tell_to_commit(&mut Leader::new(), part).map_err(failure::into_error)
}

/// Waits until a part that was told to has committed.
pub fn committed(part: usize) -> Result<(), PgError> {
    team::committed(&mut Leader::new(), part).map_err(failure::into_error)
}

/// Tells every worker with an open part to roll back, and waits for none. Does not raise.
pub fn abandon() {
    // Borrowed: the session ends while it was sending, and its workers with it.
    if TEAM.with(|team| team.try_borrow_mut().is_ok()) {
        team::abandon(&mut Leader::new());
    }
}

/// Waits until nothing is open that an earlier block left: parts of this session, and of one that
/// ended. Raises 55P03 when that takes too long.
pub fn settle() {
    team::settle(&mut Leader::new())
        .map_err(failure::into_error)
        .or_raise();
}

/// This session. Single calls borrow the team. A wait borrows it only when there is a message to
/// send.
struct Leader {
    start: Instant,
    /// The block whose parts are waited for.
    number: i64,
}

impl Leader {
    fn new() -> Self {
        Leader {
            start: Instant::now(),
            number: 0,
        }
    }
}

impl team::Host for Leader {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&mut self, time: Duration) {
        pause(time);
    }

    fn workers(&self) -> usize {
        size()
    }

    fn stage(&self, worker: usize) -> Stage {
        with(|team| team.stages[worker])
    }

    fn set_stage(&mut self, worker: usize, stage: Stage) {
        with(|team| team.stages[worker] = stage);
    }

    fn send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        with(|team| team.pool.send(worker, message)).map_err(|pool::Lost| Lost)
    }

    fn try_send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        with(|team| team.pool.try_send(worker, message)).map_err(|pool::Lost| Lost)
    }

    fn receive(&mut self, worker: usize) -> Result<Option<Vec<u8>>, Lost> {
        with(|team| team.pool.receive(worker)).map_err(|pool::Lost| Lost)
    }

    fn cancel(&mut self, worker: usize) {
        with(|team| team.pool.cancel(worker));
    }

    fn stop_parts(&mut self) {
        pool::stop_parts();
    }

    fn end(&mut self) {
        TEAM.with_borrow_mut(end);
    }

    fn parts_are_open(&mut self) -> bool {
        !own_lock::is_free(OwnLock::Parts)
    }

    fn show(&mut self, done: bool) {
        let running = pool::earliest_running().filter(|_| !done);
        show_activity(running.map(|tx| part::activity(self.number, tx)).as_deref());
    }
}

fn with<T>(f: impl FnOnce(&mut Team) -> T) -> T {
    TEAM.with_borrow_mut(|team| f(team.as_mut().expect("a team is made ready first")))
}

fn end(team: &mut Option<Team>) {
    if let Some(Team { pool, .. }) = team.take() {
        pool.end();
    }
}
