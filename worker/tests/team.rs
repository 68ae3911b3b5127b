//! The leader and scripted workers: what it waits for, how long, and when it ends them (P3).

use chainify_seeded::check;
use std::time::Duration;

use chainify_ledger::parts::{LeaderSays, PartOutcome, PartReport, PartRequest, WorkerSays};
use chainify_worker::team::{abandon, collect, committed, settle, start_part, tell_to_commit, Host, Lost, Stage};
use proptest::collection::vec;
use proptest::prelude::*;

/// An answer and the millisecond from which it can be read; None: the worker is gone from then on.
type Answer = (u64, Option<Vec<u8>>);

#[derive(Clone, Debug)]
struct Worker {
    stage: Stage,
    answers: Vec<Answer>,
    /// Whether a message can be sent to it without waiting.
    has_room: bool,
    told: Vec<String>,
}

/// A leader in scripted time.
#[derive(Default)]
struct Session {
    now: u64,
    workers: Vec<Worker>,
    /// Until when a part of another session is open.
    foreign_until: u64,
    ended: bool,
    stopped: bool,
    shown: Vec<bool>,
}

impl Session {
    /// Workers with open parts, and their answers.
    fn new(answers: Vec<Vec<Answer>>) -> Self {
        let worker = |answers| Worker { stage: Stage::Open, answers, has_room: true, told: Vec::new() };
        Session { workers: answers.into_iter().map(worker).collect(), ..Session::default() }
    }

    fn stages(&self) -> Vec<Stage> {
        self.workers.iter().map(|worker| worker.stage).collect()
    }

    fn told(&self, worker: usize) -> &[String] {
        &self.workers[worker].told
    }
}

impl Host for Session {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    fn wait(&mut self, time: Duration) {
        assert!(self.now < 60_000, "waits without an end");
        self.now += time.as_millis() as u64;
    }

    fn workers(&self) -> usize {
        self.workers.len()
    }

    fn stage(&self, worker: usize) -> Stage {
        self.workers[worker].stage
    }

    fn set_stage(&mut self, worker: usize, stage: Stage) {
        self.workers[worker].stage = stage;
    }

    fn send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        self.try_send(worker, message)
    }

    fn try_send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        let worker = &mut self.workers[worker];
        let what = match LeaderSays::read(message).expect("a message") {
            LeaderSays::Run(request) => format!("run part {}", request.part),
            LeaderSays::Commit => "commit".into(),
            LeaderSays::Abandon => "abandon".into(),
        };
        worker.told.push(what);
        worker.has_room.then_some(()).ok_or(Lost)
    }

    fn receive(&mut self, worker: usize) -> Result<Option<Vec<u8>>, Lost> {
        let answers = &mut self.workers[worker].answers;
        match answers.first() {
            Some((at, _)) if *at > self.now => Ok(None),
            Some((_, None)) => Err(Lost),
            Some(_) => Ok(answers.remove(0).1),
            None => Ok(None),
        }
    }

    fn cancel(&mut self, worker: usize) {
        self.workers[worker].told.push("cancel".into());
    }

    fn stop_parts(&mut self) {
        self.stopped = true;
    }

    fn end(&mut self) {
        self.ended = true;
        self.workers.clear();
    }

    fn parts_are_open(&mut self) -> bool {
        self.now < self.foreign_until
    }

    fn show(&mut self, done: bool) {
        self.shown.push(done);
    }
}

fn ready(transactions: usize) -> Option<Vec<u8>> {
    let outcomes = vec![PartOutcome::default(); transactions];
    Some(WorkerSays::ready(&PartReport { outcomes, ..PartReport::default() }))
}

fn says(what: WorkerSays) -> Option<Vec<u8>> {
    Some(what.write())
}

fn failed() -> Option<Vec<u8>> {
    says(WorkerSays::Failed("no luck".into()))
}

/// SQLSTATE and message.
fn error<T: std::fmt::Debug>(result: Result<T, chainify_worker::Failure>) -> (String, String) {
    let failure = result.expect_err("an error");
    (failure.sqlstate, failure.message)
}

#[test]
fn a_worker_that_was_told_has_an_open_part() {
    let mut session = Session::new(vec![vec![], vec![]]);
    session.workers.iter_mut().for_each(|worker| worker.stage = Stage::Closed);
    start_part(&mut session, 2, PartRequest { part: 2, ..PartRequest::default() }).unwrap();
    assert_eq!(session.stages(), [Stage::Closed, Stage::Open]);
    assert_eq!(session.told(1), ["run part 2"]);
    tell_to_commit(&mut session, 2).unwrap();
    assert_eq!(session.told(1), ["run part 2", "commit"]);
    session.workers[0].has_room = false;
    let gone = ("58000".into(), "the worker of part 1 is gone".into());
    assert_eq!(error(start_part(&mut session, 1, PartRequest::default())), gone);
    assert_eq!(error(tell_to_commit(&mut session, 1)), gone);
    // It may have begun all the same.
    assert_eq!(session.stages(), [Stage::Open, Stage::Open]);
}

#[test]
fn the_leader_waits_for_all_parts() {
    let mut session = Session::new(vec![vec![(250, ready(1))], vec![(0, ready(2))]]);
    let reports = collect(&mut session, &[1, 2]).unwrap();
    assert_eq!(reports.iter().map(|report| report.outcomes.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((session.now, session.shown.clone()), (300, vec![false, false, false, true]));
    // Ready is not committed.
    assert_eq!(session.stages(), [Stage::Open, Stage::Open]);
}

#[test]
fn a_part_that_gave_up_ends_the_waiting() {
    let mut session = Session::new(vec![vec![], vec![(100, failed())]]);
    assert_eq!(error(collect(&mut session, &[1, 1])), ("40001".into(), "part 2: no luck".into()));
    assert_eq!(session.stages(), [Stage::Open, Stage::Closed]);
}

#[test]
fn answers_that_do_not_fit_are_refused() {
    let answers = [ready(2), says(WorkerSays::Committed), Some(b"X".to_vec()), Some(Vec::new())];
    for answer in answers {
        let (sqlstate, message) = error(collect(&mut Session::new(vec![vec![(0, answer)]]), &[1]));
        assert_eq!(sqlstate, "XX000");
        assert!(message.starts_with("answer of a worker is garbled: "), "{message}");
    }
    let gone = error(collect(&mut Session::new(vec![vec![(0, None)]]), &[1]));
    assert_eq!(gone, ("58000".into(), "the worker of part 1 is gone".into()));
    assert_eq!(error(committed(&mut Session::new(vec![vec![(0, ready(1))]]), 1)).0, "XX000");
}

#[test]
fn a_commit_is_waited_for_ten_seconds() {
    let mut session = Session::new(vec![vec![(9_950, says(WorkerSays::Committed))]]);
    committed(&mut session, 1).unwrap();
    assert_eq!(session.stages(), [Stage::Closed]);
    let mut session = Session::new(vec![vec![(20_000, says(WorkerSays::Committed))]]);
    let silent = ("58000".into(), "part 1 of the block does not answer".into());
    assert_eq!(error(committed(&mut session, 1)), silent);
    assert_eq!((session.now, session.stages()), (10_100, vec![Stage::Open]));
    let mut session = Session::new(vec![vec![(0, failed())]]);
    let failure = committed(&mut session, 1).unwrap_err();
    assert_eq!(failure.message, "part 1 of the block could not be committed");
    assert_eq!((failure.sqlstate.as_str(), failure.detail.as_deref()), ("58000", Some("no luck")));
    assert_eq!(session.stages(), [Stage::Closed]);
}

#[test]
fn open_parts_are_abandoned_and_no_others() {
    let mut session = Session::new(vec![vec![], vec![], vec![]]);
    session.workers[1].stage = Stage::Closed;
    session.workers[2].stage = Stage::Abandoned;
    abandon(&mut session);
    assert_eq!(session.stages(), [Stage::Abandoned, Stage::Closed, Stage::Abandoned]);
    assert_eq!(session.told(0), ["cancel", "abandon"]);
    assert!(session.told(1).is_empty() && session.told(2).is_empty());
    assert!(session.stopped && !session.ended);
}

#[test]
fn nothing_is_stopped_when_nothing_is_open() {
    let mut session = Session::new(vec![vec![]]);
    session.workers[0].stage = Stage::Abandoned;
    abandon(&mut session);
    assert!(!session.stopped);
}

#[test]
fn a_worker_that_cannot_be_told_ends_all() {
    let mut session = Session::new(vec![vec![], vec![]]);
    session.workers[0].has_room = false;
    abandon(&mut session);
    assert!(session.ended);
}

#[test]
fn the_leader_waits_until_workers_have_rolled_back() {
    let abandoned = || says(WorkerSays::Abandoned);
    // Before it heard that it is to roll back, the first one had answered.
    let mut session = Session::new(vec![vec![(100, ready(1)), (250, abandoned())], vec![(0, abandoned())]]);
    abandon(&mut session);
    settle(&mut session).unwrap();
    assert_eq!((session.now, session.ended), (300, false));
    assert_eq!(session.stages(), [Stage::Closed, Stage::Closed]);
}

#[test]
fn settling_waits_for_every_part_and_hears_nobody_else() {
    let mut session = Session::new(vec![vec![(150, says(WorkerSays::Abandoned))], vec![(0, None)]]);
    session.workers[1].stage = Stage::Closed;
    settle(&mut session).unwrap();
    assert_eq!((session.now, session.ended), (200, false));
}

#[test]
fn workers_that_do_not_answer_in_time_are_ended() {
    let mut session = Session::new(vec![vec![(10_300, says(WorkerSays::Abandoned))]]);
    abandon(&mut session);
    settle(&mut session).unwrap();
    assert_eq!((session.now, session.ended), (10_100, true));
}

#[test]
fn a_lost_or_garbled_worker_ends_all_at_once() {
    for answer in [None, Some(b"X".to_vec())] {
        let mut session = Session::new(vec![vec![(0, answer)], vec![]]);
        abandon(&mut session);
        settle(&mut session).unwrap();
        assert_eq!((session.now, session.ended), (0, true));
    }
}

#[test]
fn parts_of_a_session_that_ended_are_waited_for_ten_seconds() {
    let mut session = Session { foreign_until: 9_999, ..Session::default() };
    settle(&mut session).unwrap();
    assert_eq!(session.now, 10_000);
    let mut session = Session { foreign_until: 30_000, ..Session::default() };
    assert_eq!(error(settle(&mut session)), ("55P03".into(), "parts of an earlier block are still open".into()));
    assert_eq!(session.now, 10_005);
}

/// P3: whatever workers say and whenever, after a block was abandoned and settled none has a part
/// open, or all were ended.
#[test]
fn nothing_is_open_before_the_next_block() {
    let answer = prop_oneof![
        4 => Just(says(WorkerSays::Abandoned)),
        2 => Just(ready(1)),
        1 => Just(failed()),
        1 => Just(says(WorkerSays::Committed)),
        1 => Just(Some(b"X".to_vec())),
        1 => Just(None),
    ];
    let worker = (vec((0u64..12_000, answer), 0..4), prop::bool::weighted(0.9), 0usize..3);
    check(2_000, vec(worker, 0..5), |workers| {
        let mut session = Session::new(Vec::new());
        for (mut answers, has_room, stage) in workers {
            answers.sort_by_key(|(at, _)| *at);
            let stage = [Stage::Closed, Stage::Open, Stage::Abandoned][stage];
            session.workers.push(Worker { stage, answers, has_room, told: Vec::new() });
        }
        abandon(&mut session);
        prop_assert!(settle(&mut session).is_ok());
        prop_assert!(session.ended || session.stages().iter().all(|stage| *stage == Stage::Closed));
        prop_assert!(session.now <= 10_200);
        Ok(())
    });
}
