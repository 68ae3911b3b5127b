//! An executor worker and its leader: one answer for each message, and what is left behind when a
//! part ends.

use chainify_seeded::check;
use std::collections::VecDeque;

use chainify_ledger::parts::{LeaderSays, PartReport, PartRequest, WorkerSays};
use chainify_worker::executor::{run, Host};
use chainify_worker::Failure;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Default)]
struct Process {
    messages: VecDeque<Vec<u8>>,
    /// Failures of the next parts and commits; all others succeed.
    fail: VecDeque<Failure>,
    /// Answers after which the leader is gone.
    patience: usize,
    open: bool,
    enlisted: bool,
    log: Vec<String>,
}

impl Process {
    fn told(messages: &[LeaderSays]) -> Self {
        let messages = messages.iter().map(LeaderSays::write).collect();
        Process { messages, patience: usize::MAX, ..Process::default() }
    }

    fn served(mut self) -> Vec<String> {
        run(&mut self).expect("messages are well formed");
        self.log
    }
}

impl Host for Process {
    fn show(&mut self, activity: &str) {
        self.log.push(activity.into());
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    fn send(&mut self, answer: &[u8]) -> bool {
        self.log.push(match WorkerSays::read(answer.to_vec()).expect("an answer") {
            WorkerSays::Ready(_) => "says ready".into(),
            other => format!("says {other:?}"),
        });
        self.patience -= 1;
        self.patience > 0
    }

    fn run(&mut self, _: &PartRequest) -> Result<PartReport, Failure> {
        self.enlisted = true;
        let failure = self.fail.pop_front();
        self.open = failure.is_none();
        failure.map_or(Ok(PartReport::default()), Err)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.open = false;
        self.log.push("commit".into());
        self.fail.pop_front().map_or(Ok(()), Err)
    }

    fn roll_back(&mut self) {
        self.open = false;
        self.log.push("roll back".into());
    }

    fn retire(&mut self) {
        self.enlisted = false;
        self.log.push("retire".into());
    }

    fn stop_parts(&mut self) {
        self.log.push("stop parts".into());
    }
}

fn part() -> LeaderSays {
    LeaderSays::Run(PartRequest { number: 9, part: 2, ..PartRequest::default() }.into())
}

fn failure() -> Failure {
    Failure { detail: Some("At 3.".into()), ..Failure::new("40001", "no luck") }
}

#[test]
fn a_part_runs_and_commits() {
    let log = Process::told(&[part(), LeaderSays::Commit]).served();
    let expected = ["idle", "part 2 of block 9", "says ready", "idle", "commit", "retire", "says Committed", "idle"];
    assert_eq!(log, expected);
}

#[test]
fn a_part_is_given_up() {
    let log = Process::told(&[part(), LeaderSays::Abandon]).served();
    assert_eq!(log[3..], ["idle", "roll back", "retire", "says Abandoned", "idle"]);
}

#[test]
fn a_part_that_fails_stops_the_others() {
    let mut process = Process::told(&[part()]);
    process.fail = [failure()].into();
    let log = process.served();
    let told = "says Failed(\"no luck (At 3.)\")";
    assert_eq!(log, ["idle", "part 2 of block 9", "retire", "stop parts", told, "idle"]);
}

#[test]
fn a_commit_that_fails_is_told() {
    let mut process = Process::told(&[LeaderSays::Commit]);
    process.fail = [Failure { detail: None, ..failure() }].into();
    assert_eq!(process.served(), ["idle", "commit", "retire", "says Failed(\"no luck\")", "idle"]);
}

#[test]
fn the_worker_ends_with_its_leader() {
    let mut process = Process::told(&[part(), LeaderSays::Commit]);
    process.patience = 1;
    assert_eq!(process.served().last().unwrap(), "says ready");
}

#[test]
fn a_message_that_is_none_ends_the_worker() {
    let mut process = Process::told(&[]);
    process.messages = [b"X".to_vec(), LeaderSays::Commit.write()].into();
    assert!(run(&mut process).is_err());
    assert_eq!(process.log, ["idle"]);
}

/// P3: local sessions give way to a process just as long as it has a part open, and each message
/// has one answer.
#[test]
fn a_process_is_enlisted_while_its_part_is_open() {
    check(1_000, vec((0usize..3, any::<bool>()), 0..20), |story| {
        let mut process = Process { patience: usize::MAX, ..Process::default() };
        for (message, fails) in story {
            let message = [part(), LeaderSays::Commit, LeaderSays::Abandon].into_iter().nth(message).unwrap();
            process.messages.push_back(message.write());
            process.fail = fails.then(failure).into_iter().collect();
            process.log.clear();
            run(&mut process).unwrap();
            prop_assert_eq!(process.log.iter().filter(|what| what.starts_with("says")).count(), 1);
            prop_assert_eq!(process.enlisted, process.open);
        }
        Ok(())
    });
}
