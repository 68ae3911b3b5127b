//! The conflict worker in a scripted server: which session loses what, and when.

use chainify_seeded::check;
use std::collections::BTreeMap;
use std::time::Duration;

use chainify_worker::conflicts::{run, Executor, Host, Reason, Session};
use proptest::prelude::*;

const BLOCK: Executor = Executor { pid: 100, block: 7 };

/// A session's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Transaction,
    Statement,
    Connection,
}

fn of_client() -> Session<i32> {
    Session {
        handle: 0,
        transaction: 1,
        of_client: true,
        maintains: false,
        idle: false,
        waiting: false,
        gives_up: false,
    }
}

/// A server in which executors wait for the sessions that there are.
struct Server {
    now: u64,
    until: u64,
    grace: Option<u64>,
    running: Vec<Executor>,
    /// Executors that wait, with the processes in their way.
    blocked: BTreeMap<i32, Vec<i32>>,
    sessions: BTreeMap<i32, Session<i32>>,
    /// Sessions that go on after a cancel.
    stubborn: bool,
    /// Runs before each look, with the millisecond.
    story: fn(&mut Server, u64),
    /// Runs when the table is asked for.
    meanwhile: fn(&mut Server),
    waits: Vec<Option<u64>>,
    forgotten: Vec<i32>,
    reasons: Vec<(i32, Executor, Option<u32>)>,
    lost: Vec<(u64, i32, Lost)>,
}

impl Server {
    /// One block, in whose way one session is; it is watched for `until` milliseconds.
    fn new(until: u64, session: Session<i32>) -> Self {
        Server {
            now: 0,
            until,
            grace: Some(500),
            running: vec![BLOCK],
            blocked: [(BLOCK.pid, vec![5])].into(),
            sessions: [(5, session)].into(),
            stubborn: false,
            story: |_, _| (),
            meanwhile: |_| (),
            waits: Vec::new(),
            forgotten: Vec::new(),
            reasons: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn lost(mut self) -> Vec<(u64, i32, Lost)> {
        run(&mut self);
        self.lost
    }

    fn lose(&mut self, pid: i32, what: Lost) {
        self.lost.push((self.now, pid, what));
        if what == Lost::Connection {
            self.blocked.remove(&pid);
        }
        if what == Lost::Connection || !self.stubborn {
            self.blocked.values_mut().for_each(|pids| pids.retain(|other| *other != pid));
        }
    }
}

impl Host for Server {
    type Handle = i32;

    fn now(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    fn wait(&mut self, time: Option<Duration>) -> bool {
        let millis = time.map(|time| time.as_millis() as u64);
        self.waits.push(millis);
        self.now += millis.unwrap_or(u64::MAX / 2);
        (self.story)(self, self.now);
        self.now <= self.until
    }

    fn grace(&self) -> Option<Duration> {
        self.grace.map(Duration::from_millis)
    }

    fn executing(&mut self) -> Vec<Executor> {
        self.running.clone()
    }

    fn waits(&mut self, pid: i32) -> Option<bool> {
        self.blocked.get(&pid).map(|by| !by.is_empty())
    }

    fn forget(&mut self, pid: i32) {
        self.forgotten.push(pid);
        self.running.retain(|executor| executor.pid != pid);
    }

    fn blockers(&mut self, pid: i32) -> Vec<i32> {
        self.blocked[&pid].clone()
    }

    fn session(&mut self, pid: i32) -> Option<Session<i32>> {
        self.sessions.get(&pid).map(|session| Session { handle: pid, ..*session })
    }

    fn table_waited_for(&mut self, pid: i32) -> Option<u32> {
        assert!(self.running.iter().any(|executor| executor.pid == pid));
        (self.meanwhile)(self);
        Some(77)
    }

    fn leave_reason(&mut self, session: &Session<i32>, executor: Executor, table: Option<u32>) {
        self.reasons.push((session.handle, executor, table));
    }

    fn ask_to_give_up(&mut self, session: i32) {
        self.lose(session, Lost::Transaction);
    }

    fn cancel(&mut self, session: i32) {
        self.lose(session, Lost::Statement);
    }

    fn terminate(&mut self, session: i32) {
        self.lose(session, Lost::Connection);
    }

    fn looked(&mut self) {}
}

#[test]
fn a_statement_in_the_way_has_its_grace() {
    assert_eq!(Server::new(2_000, of_client()).lost(), [(500, 5, Lost::Statement)]);
}

#[test]
fn a_session_that_is_idle_in_a_transaction_loses_its_connection() {
    let idle = Session { idle: true, ..of_client() };
    assert_eq!(Server::new(2_000, idle).lost(), [(500, 5, Lost::Connection)]);
}

#[test]
fn a_session_that_waits_for_a_later_block_has_no_grace() {
    let waiting = Session { waiting: true, ..of_client() };
    assert_eq!(Server::new(2_000, waiting).lost(), [(0, 5, Lost::Statement)]);
}

#[test]
fn a_session_that_goes_on_after_a_cancel_is_terminated() {
    let mut server = Server::new(9_000, of_client());
    server.stubborn = true;
    assert_eq!(server.lost(), [(500, 5, Lost::Statement), (1_500, 5, Lost::Connection)]);
    // A longer grace holds for the cancel, too.
    let mut server = Server::new(9_000, of_client());
    (server.stubborn, server.grace) = (true, Some(3_000));
    assert_eq!(server.lost(), [(3_000, 5, Lost::Statement), (6_000, 5, Lost::Connection)]);
}

#[test]
fn a_session_that_is_idle_after_a_cancel_is_terminated_at_once() {
    let mut server = Server::new(9_000, of_client());
    server.stubborn = true;
    server.story = |server, now| server.sessions.get_mut(&5).unwrap().idle = now >= 700;
    assert_eq!(server.lost(), [(500, 5, Lost::Statement), (700, 5, Lost::Connection)]);
}

#[test]
fn a_session_whose_changes_are_ordered_later_has_no_grace_and_keeps_its_connection() {
    let of_client = || Session { gives_up: true, ..of_client() };
    assert_eq!(Server::new(2_000, Session { idle: true, ..of_client() }).lost(), [(0, 5, Lost::Transaction)]);
    assert_eq!(Server::new(2_000, of_client()).lost(), [(0, 5, Lost::Statement)]);
    // Savepoints keep locks when a statement fails.
    let mut server = Server::new(2_000, of_client());
    server.stubborn = true;
    server.story = |server, now| {
        server.stubborn = now < 100;
        server.sessions.get_mut(&5).unwrap().idle = now >= 100;
    };
    assert_eq!(server.lost(), [(0, 5, Lost::Statement), (100, 5, Lost::Transaction)]);
}

#[test]
fn a_session_that_does_not_give_up_is_terminated() {
    let mut server = Server::new(9_000, Session { gives_up: true, idle: true, ..of_client() });
    server.stubborn = true;
    let lost = server.lost();
    let (last, asked) = lost.split_last().expect("it was asked");
    assert!(asked.iter().all(|(_, _, what)| *what == Lost::Transaction), "{lost:?}");
    assert_eq!(*last, (1_000, 5, Lost::Connection));
}

#[test]
fn a_session_that_has_begun_to_give_up_keeps_its_connection() {
    let mut server = Server::new(2_000, Session { gives_up: true, idle: true, ..of_client() });
    server.stubborn = true;
    server.story = |server, now| {
        server.stubborn = now < 100;
        server.sessions.get_mut(&5).unwrap().gives_up = false;
    };
    let lost = server.lost();
    assert!(lost.iter().all(|(_, _, what)| *what == Lost::Transaction), "{lost:?}");
}

#[test]
fn another_transaction_has_a_grace_of_its_own() {
    let mut server = Server::new(1_500, of_client());
    server.story = |server, now| server.sessions.get_mut(&5).unwrap().transaction = if now < 400 { 1 } else { 2 };
    assert_eq!(server.lost(), [(900, 5, Lost::Statement)]);
}

#[test]
fn a_session_that_was_out_of_the_way_begins_anew() {
    let mut server = Server::new(1_500, of_client());
    server.story = |server, now| *server.blocked.get_mut(&100).unwrap() = if now == 400 { vec![] } else { vec![5] };
    let lost = server.lost();
    assert_eq!(lost[0], (905, 5, Lost::Statement));
}

#[test]
fn a_session_that_gave_up_its_lock_meanwhile_is_left_alone() {
    let mut server = Server::new(2_000, of_client());
    server.meanwhile = |server| server.blocked.values_mut().for_each(Vec::clear);
    run(&mut server);
    assert!(server.lost.is_empty() && server.reasons.is_empty());
}

#[test]
fn the_session_is_left_the_block_and_the_table() {
    let mut server = Server::new(2_000, of_client());
    run(&mut server);
    assert_eq!(server.reasons, [(5, BLOCK, Some(77))]);
}

#[test]
fn maintenance_is_cancelled_and_never_ended() {
    let mut server = Server::new(2_600, Session { of_client: false, maintains: true, idle: true, ..of_client() });
    server.stubborn = true;
    let lost = server.lost();
    assert_eq!(lost[0], (500, 5, Lost::Statement));
    assert!(lost.iter().all(|(_, _, what)| *what == Lost::Statement));
}

#[test]
fn processes_of_the_server_are_left_to_the_server() {
    let mut server = Server::new(2_000, Session { of_client: false, ..of_client() });
    server.blocked.insert(BLOCK.pid, vec![0, 5, 9]); // 0: a prepared transaction; 9: gone
    assert_eq!(server.lost(), []);
}

#[test]
fn without_a_grace_nobody_gives_way() {
    let mut server = Server::new(1_000, Session { waiting: true, ..of_client() });
    server.grace = None;
    run(&mut server);
    assert!(server.lost.is_empty());
    assert!(server.waits.iter().all(|wait| *wait == Some(5)));
}

#[test]
fn a_running_block_is_looked_at_every_few_milliseconds() {
    for grace in [0, 20, 60_000] {
        let mut server = Server::new(1_000, of_client());
        server.grace = Some(grace);
        run(&mut server);
        assert_eq!(server.waits[0], Some(5), "{grace}");
    }
}

#[test]
fn the_worker_sleeps_while_no_block_runs() {
    let mut server = Server::new(1_000, of_client());
    server.running.clear();
    run(&mut server);
    assert_eq!(server.waits, [None]);
}

#[test]
fn an_executor_that_is_gone_is_forgotten() {
    let mut server = Server::new(1_000, of_client());
    server.running.push(Executor { pid: 300, block: 8 });
    run(&mut server);
    assert_eq!(server.forgotten, [300]);
}

#[test]
fn of_two_parts_that_wait_for_each_other_the_worker_ends() {
    for (waiting, holding) in [(100, 101), (101, 100), (101, 102), (102, 101)] {
        let until = |millis: u64| {
            let mut server = Server::new(millis, of_client());
            server.running = vec![Executor { pid: waiting, block: 7 }, Executor { pid: holding, block: 7 }];
            server.blocked = [(waiting, vec![holding]), (holding, vec![])].into();
            let part = |pid: i32| (pid, Session { of_client: pid == 100, ..of_client() });
            server.sessions = [part(100), part(101), part(102)].into();
            server.lost()
        };
        assert_eq!(until(995), [], "that a table grows by a page takes less");
        assert_eq!(until(1_005), [(1_000, 101, Lost::Connection)], "{waiting} waits for {holding}");
    }
}

#[test]
fn a_process_that_executes_another_block_is_no_local_session() {
    for of_client in [true, false] {
        let mut server = Server::new(2_000, Session { of_client, ..self::of_client() });
        server.running.push(Executor { pid: 5, block: 8 });
        server.blocked.insert(5, Vec::new());
        assert_eq!(server.lost(), []);
    }
}

/// A session loses nothing within its grace unless it waits for an outcome. A block waits for it no
/// longer than twice the grace and what a cancel takes, with the looks between.
#[test]
fn a_block_waits_for_no_session_for_ever() {
    let session = (any::<bool>(), any::<bool>(), 1u64..3_000, any::<bool>());
    check(1_000, session, |(idle, waiting, grace, stubborn)| {
        let mut server = Server::new(20_000, Session { idle, waiting, ..of_client() });
        (server.grace, server.stubborn) = (Some(grace), stubborn);
        let lost = server.lost();
        prop_assert!(waiting || lost[0].0 >= grace);
        let last = lost.last().unwrap();
        prop_assert!(last.2 == Lost::Connection || !stubborn);
        prop_assert!(last.0 <= grace + grace.max(1_000) + 200, "{:?}", lost);
        prop_assert!(lost.len() <= 2);
        Ok(())
    });
}

#[test]
fn a_session_is_told_why() {
    let reason = |table: Option<&str>, waiting| Reason { block: 7, table: table.map(str::to_owned), waiting };
    assert_eq!(
        reason(Some("public.a"), false).detail(),
        "Block 7 waited for a lock on table \"public.a\" behind this session's transaction."
    );
    assert_eq!(reason(None, false).detail(), "Block 7 waited for a lock behind this session's transaction.");
    assert!(reason(None, false).hint().starts_with("Keep transactions short that lock ledger tables;"));
    assert!(reason(None, true).hint().starts_with("Commit before calling chainify.execute"));
    let conflict = |table, row| reason(table, false).conflict_detail(row);
    assert_eq!(
        conflict(Some("public.a"), Some("1, x")),
        "Block 7 changes row (1, x) of table \"public.a\", which this transaction has changed or locked."
    );
    assert_eq!(
        conflict(Some("public.a"), None),
        "Block 7 changes a row of table \"public.a\" that this transaction has changed or locked."
    );
    assert_eq!(conflict(None, Some("1")), "Block 7 changes what this transaction has changed or locked.");
    assert_eq!(Reason::message(true), "terminating connection that blocks a ledger block");
    assert_eq!(Reason::message(false), "canceling statement that blocks a ledger block");
}
