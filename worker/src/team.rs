//! The workers of a session as its leader sees them, and what it says to them (`spec/parallel.md`,
//! Messages).
//!
//! Invariant P3: the end of the leader's transaction, however it comes, ends that of every worker.
//! All have ended before another block runs.

use std::time::Duration;

use chainify_ledger::parts::{LeaderSays, PartReport, PartRequest, WorkerSays};

use crate::failure::Failure;

/// How often the leader looks which transactions its workers run, while it waits for nothing else.
const LOOK: Duration = Duration::from_millis(100);
/// How long workers may take to roll back, or to commit, before they are ended.
const SETTLE_MAX: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_millis(5);

/// The state of a worker's transaction, as far as the leader knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// There is none.
    Closed,
    /// It was told to run a part.
    Open,
    /// It was told to roll back, and has not answered.
    Abandoned,
}

/// The process at the other end is gone, or can be told nothing more.
#[derive(Debug)]
pub struct Lost;

/// The leader's session and its workers, which count from 0; worker `n` runs part `n + 1`.
pub trait Host {
    /// Time since some start.
    fn now(&self) -> Duration;
    /// Waits for the time given, or until there is a message. A cancel of the statement raises
    /// here.
    fn wait(&mut self, time: Duration);
    /// How many workers there are.
    fn workers(&self) -> usize;
    /// The stage of a worker; all begin closed.
    fn stage(&self, worker: usize) -> Stage;
    /// Notes the stage of a worker.
    fn set_stage(&mut self, worker: usize, stage: Stage);
    /// Sends a message, and waits while its queue is full.
    fn send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost>;
    /// Sends a message if its queue has room, and waits for nothing.
    fn try_send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost>;
    /// The next message, if there is one.
    fn receive(&mut self, worker: usize) -> Result<Option<Vec<u8>>, Lost>;
    /// Cancels what a worker runs.
    fn cancel(&mut self, worker: usize);
    /// Tells all parts to stop.
    fn stop_parts(&mut self);
    /// Ends all workers, which roll back what they have open. There are none then.
    fn end(&mut self);
    /// Whether a part of any session is open in this database.
    fn parts_are_open(&mut self) -> bool;
    /// Shows the earliest transaction that a worker runs, or none when the parts are `done`.
    fn show(&mut self, done: bool);
}

/// Has a worker run a part.
pub fn start_part(host: &mut impl Host, part: usize, request: PartRequest) -> Result<(), Failure> {
    host.set_stage(part - 1, Stage::Open);
    host.send(part - 1, &LeaderSays::Run(request.into()).write()).map_err(|Lost| lost(part))
}

/// Waits until the parts from 1 on are ready. `members`: how many transactions each has.
pub fn collect(host: &mut impl Host, members: &[usize]) -> Result<Vec<PartReport>, Failure> {
    let mut reports: Vec<Option<PartReport>> = vec![None; members.len()];
    loop {
        for (at, report) in reports.iter_mut().enumerate().filter(|(_, report)| report.is_none()) {
            *report = match hear(host, at + 1)? {
                None => None,
                Some(WorkerSays::Ready(bytes)) => Some(PartReport::read(&bytes, members[at]).map_err(garbled)?),
                Some(WorkerSays::Failed(why)) => {
                    host.set_stage(at, Stage::Closed);
                    return Err(Failure::new("40001", format!("part {}: {why}", at + 1)));
                }
                Some(other) => return Err(garbled(format!("{other:?}"))),
            };
        }
        let done = reports.iter().all(Option::is_some);
        host.show(done);
        if done {
            return Ok(reports.into_iter().flatten().collect());
        }
        host.wait(LOOK);
    }
}

/// Has a part that is ready commit.
pub fn tell_to_commit(host: &mut impl Host, part: usize) -> Result<(), Failure> {
    host.send(part - 1, &LeaderSays::Commit.write()).map_err(|Lost| lost(part))
}

/// Waits until a part that was told to has committed.
pub fn committed(host: &mut impl Host, part: usize) -> Result<(), Failure> {
    let until = host.now() + SETTLE_MAX;
    loop {
        match hear(host, part)? {
            Some(WorkerSays::Committed) => {
                host.set_stage(part - 1, Stage::Closed);
                return Ok(());
            }
            Some(WorkerSays::Failed(why)) => {
                host.set_stage(part - 1, Stage::Closed);
                let message = format!("part {part} of the block could not be committed");
                return Err(Failure { detail: Some(why), ..Failure::new("58000", message) });
            }
            Some(other) => return Err(garbled(format!("{other:?}"))),
            None if host.now() > until => {
                return Err(Failure::new("58000", format!("part {part} of the block does not answer")));
            }
            None => host.wait(LOOK),
        }
    }
}

/// Tells every worker with an open part to roll back, and waits for none.
pub fn abandon(host: &mut impl Host) {
    let open: Vec<_> = (0..host.workers()).filter(|worker| host.stage(*worker) == Stage::Open).collect();
    if open.is_empty() {
        return;
    }
    host.stop_parts();
    let mut told = true;
    for worker in open {
        host.cancel(worker);
        told &= host.try_send(worker, &LeaderSays::Abandon.write()).is_ok();
        host.set_stage(worker, Stage::Abandoned);
    }
    if !told {
        host.end();
    }
}

/// Waits until nothing is open that an earlier block left: parts of this session, and of one that
/// ended. Fails with 55P03 when that takes too long.
pub fn settle(host: &mut impl Host) -> Result<(), Failure> {
    let until = host.now() + SETTLE_MAX;
    while !answered(host, until) {
        host.wait(LOOK);
    }
    while host.parts_are_open() {
        if host.now() > until {
            return Err(Failure::new("55P03", "parts of an earlier block are still open"));
        }
        host.wait(SETTLE_PAUSE);
    }
    Ok(())
}

/// Whether every worker that was told to roll back has said so; when one cannot, or not in time,
/// all are ended.
fn answered(host: &mut impl Host, until: Duration) -> bool {
    let mut broken = false;
    let mut done = true;
    for worker in 0..host.workers() {
        if host.stage(worker) == Stage::Closed {
            continue;
        }
        let lost = take_answers(host, worker).is_err();
        broken |= lost;
        done &= host.stage(worker) == Stage::Closed;
    }
    if broken || (!done && host.now() > until) {
        host.end();
        return true;
    }
    done
}

/// Reads what a worker has said, up to that it has rolled back.
fn take_answers(host: &mut impl Host, worker: usize) -> Result<(), Lost> {
    while let Some(bytes) = host.receive(worker)? {
        // Another message is the answer to what it was told before.
        if WorkerSays::read(bytes).map_err(|_| Lost)? == WorkerSays::Abandoned {
            host.set_stage(worker, Stage::Closed);
        }
    }
    Ok(())
}

fn hear(host: &mut impl Host, part: usize) -> Result<Option<WorkerSays>, Failure> {
    let received = host.receive(part - 1).map_err(|Lost| lost(part))?;
    received.map(WorkerSays::read).transpose().map_err(garbled)
}

fn lost(part: usize) -> Failure {
    Failure::new("58000", format!("the worker of part {part} is gone"))
}

fn garbled(what: impl std::fmt::Display) -> Failure {
    Failure::new("XX000", format!("answer of a worker is garbled: {what}"))
}
