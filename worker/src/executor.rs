//! An executor worker: runs parts of blocks for the session that started it (`spec/parallel.md`,
//! Messages).

use chainify_ledger::parts::{LeaderSays, PartReport, PartRequest, WorkerSays};
use chainify_ledger::WireError;

use crate::failure::Failure;

/// The worker's process and its leader.
pub trait Host {
    /// Shows what it is doing.
    fn show(&mut self, activity: &str);
    /// Waits for the next message; None when the leader is gone.
    fn receive(&mut self) -> Option<Vec<u8>>;
    /// Sends an answer; false when the leader is gone.
    fn send(&mut self, answer: &[u8]) -> bool;
    /// Runs a part in a transaction that stays open when it succeeds, and whose locks local
    /// sessions give way to.
    fn run(&mut self, request: &PartRequest) -> Result<PartReport, Failure>;
    /// Commits what is open.
    fn commit(&mut self) -> Result<(), Failure>;
    /// Rolls back what is open, if anything is.
    fn roll_back(&mut self);
    /// Local sessions need not give way to this process any more.
    fn retire(&mut self);
    /// Tells the other parts to stop: this one gave up.
    fn stop_parts(&mut self);
}

/// Serves until the leader is gone; what is open then is rolled back by the end of the process.
pub fn run(host: &mut impl Host) -> Result<(), WireError> {
    loop {
        host.show("idle");
        let Some(message) = host.receive() else {
            return Ok(());
        };
        let answer = match LeaderSays::read(&message)? {
            LeaderSays::Run(request) => run_part(host, &request),
            LeaderSays::Commit => {
                let committed = host.commit();
                host.retire();
                committed.map_or_else(failed, |()| WorkerSays::Committed.write())
            }
            LeaderSays::Abandon => {
                host.roll_back();
                host.retire();
                WorkerSays::Abandoned.write()
            }
        };
        if !host.send(&answer) {
            return Ok(());
        }
    }
}

fn run_part(host: &mut impl Host, request: &PartRequest) -> Vec<u8> {
    host.show(&format!("part {} of block {}", request.part, request.number));
    match host.run(request) {
        Ok(report) => WorkerSays::ready(&report),
        Err(failure) => {
            host.retire();
            host.stop_parts();
            failed(failure)
        }
    }
}

fn failed(Failure { message, detail, .. }: Failure) -> Vec<u8> {
    let text = match detail {
        Some(detail) => format!("{message} ({detail})"),
        None => message,
    };
    WorkerSays::Failed(text).write()
}
