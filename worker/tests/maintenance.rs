//! The maintenance worker in a scripted database: what it does, in which order, and how long it
//! rests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chainify_worker::maintenance::{run, Audited, Host, Level, Settings};
use chainify_worker::prepared::Known;
use chainify_worker::scrubbing::TableRead;
use chainify_worker::summaries::{BlockIndex, Due};
use chainify_worker::Failure;

const SECOND: Duration = Duration::from_secs(1);

/// A database in which work takes no time. Answers that are not scripted are that there is nothing
/// to do.
struct Database {
    now: Duration,
    /// When the node goes.
    until: Duration,
    turns: VecDeque<Result<bool, Failure>>,
    rate: Option<i64>,
    prepared: Vec<String>,
    known: BTreeMap<Vec<u8>, bool>,
    height: u64,
    finishes: VecDeque<Result<(), Failure>>,
    indexes: Vec<BlockIndex>,
    sums: VecDeque<Result<(), Failure>>,
    folds: VecDeque<Result<Option<i64>, Failure>>,
    fold_takes: Duration,
    audits: VecDeque<Result<Audited, Failure>>,
    audit_takes: Duration,
    tables: Vec<TableRead>,
    scrubs: VecDeque<Result<Option<i64>, Failure>>,
    /// Events, each with its second.
    log: Vec<(u64, String)>,
}

impl Database {
    fn new(seconds: u64) -> Self {
        Database {
            now: Duration::ZERO,
            until: SECOND * seconds as u32,
            turns: VecDeque::new(),
            rate: Some(5_000),
            prepared: Vec::new(),
            known: BTreeMap::new(),
            height: 0,
            finishes: VecDeque::new(),
            indexes: Vec::new(),
            sums: VecDeque::new(),
            folds: VecDeque::new(),
            fold_takes: Duration::ZERO,
            audits: VecDeque::new(),
            audit_takes: Duration::ZERO,
            tables: Vec::new(),
            scrubs: VecDeque::new(),
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.log.push((self.now.as_secs(), what.into()));
    }

    fn run(&mut self) {
        run(self);
    }

    /// The seconds in which this happened.
    fn when(&self, what: &str) -> Vec<u64> {
        self.log.iter().filter(|(_, said)| said == what).map(|(at, _)| *at).collect()
    }
}

impl Host for Database {
    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, time: Duration) {
        assert!(self.log.len() < 10_000, "works without an end");
        self.now += time;
    }

    fn say(&mut self, level: Level, text: &str) {
        self.note(format!("{level:?} {text}"));
    }

    fn settings(&self) -> Settings {
        Settings { scrub_rate: self.rate, scrub_interval: SECOND * 600 }
    }

    fn takes_turn(&mut self) -> Result<bool, Failure> {
        self.note("takes turn");
        self.turns.pop_front().unwrap_or(Ok(true))
    }

    fn has_turn(&mut self) {
        self.note("has turn");
    }

    fn node_is_there(&mut self) -> Result<bool, Failure> {
        self.note("node?");
        Ok(self.now < self.until)
    }

    fn prepared(&mut self) -> Result<Vec<String>, Failure> {
        self.note("prepared?");
        Ok(self.prepared.clone())
    }

    fn known(&mut self, id: &[u8]) -> Result<Known, Failure> {
        Ok(Known { succeeded: self.known.get(id).copied(), height: self.height })
    }

    fn finish(&mut self, name: &str, commits: bool) -> Result<(), Failure> {
        self.note(format!("ends {name} {commits}"));
        let answer = self.finishes.pop_front().unwrap_or(Ok(()));
        if answer.is_ok() {
            self.prepared.retain(|other| other != name);
        }
        answer
    }

    fn block_indexes(&mut self) -> Result<Vec<BlockIndex>, Failure> {
        self.note("indexes");
        Ok(self.indexes.clone())
    }

    fn sum_up(&mut self, index: u32, due: Due) -> Result<(), Failure> {
        self.note(format!("sums up {index} {due:?}"));
        self.sums.pop_front().unwrap_or(Ok(()))
    }

    fn fold(&mut self, changes_max: i64) -> Result<Option<i64>, Failure> {
        assert_eq!(changes_max, 10_000);
        self.note("fold");
        self.now += self.fold_takes;
        self.folds.pop_front().unwrap_or(Ok(None))
    }

    fn record_history(&mut self, what: &str) -> Result<(), Failure> {
        self.note(format!("records {what}"));
        Ok(())
    }

    fn audit(&mut self, changes_max: i64) -> Result<Audited, Failure> {
        assert_eq!(changes_max, 10_000);
        self.note("audit");
        self.now += self.audit_takes;
        self.audits.pop_front().unwrap_or(Ok(Audited::default()))
    }

    fn tables(&mut self) -> Result<Vec<TableRead>, Failure> {
        self.note("tables");
        Ok(self.tables.clone())
    }

    fn scrub(&mut self, relation: u32, rows_per_second: i64) -> Result<Option<i64>, Failure> {
        assert_eq!(Some(rows_per_second), self.rate);
        self.note(format!("scrub {relation}"));
        let read = self.tables.iter_mut().find(|table| table.relation == relation);
        let answer = self.scrubs.pop_front().unwrap_or(Ok(Some(0)));
        if let (Some(table), Ok(Some(_))) = (read, &answer) {
            table.ago = Some(Duration::ZERO);
        }
        answer
    }
}

fn failure(sqlstate: &str) -> Failure {
    Failure { sqlstate: sqlstate.into(), message: "no luck".into(), detail: Some("It rains.".into()) }
}

fn never_read(relation: u32) -> TableRead {
    TableRead { relation, ago: None }
}

#[test]
fn a_round_looks_for_each_kind_of_work_once_a_second() {
    let mut database = Database::new(2);
    database.run();
    let happened: Vec<_> = database.log.iter().map(|(at, what)| (*at, what.as_str())).collect();
    let round = |at| [(at, "node?"), (at, "prepared?"), (at, "indexes"), (at, "fold"), (at, "audit"), (at, "tables")];
    let expected = [&[(0, "takes turn"), (0, "has turn")][..], &round(0), &round(1), &[(2, "node?")]].concat();
    assert_eq!(happened, expected);
}

#[test]
fn a_new_worker_waits_for_the_one_before_it() {
    let mut database = Database::new(7);
    database.turns = [Ok(false), Err(failure("57P03")), Ok(false), Ok(true)].into();
    database.run();
    assert_eq!(database.when("takes turn"), [0, 1, 2, 3]);
    assert_eq!(database.when("Warning looking for the node: no luck (57P03) It rains."), [1]);
    assert_eq!(database.when("has turn"), [3]);
}

#[test]
fn a_worker_too_many_ends_after_five_looks() {
    let mut database = Database::new(60);
    database.turns = vec![Ok(false); 60].into();
    database.run();
    assert_eq!(database.when("takes turn"), [0, 1, 2, 3, 4]);
    assert_eq!(database.log.len(), 5);
}

#[test]
fn work_goes_on_at_once_while_there_is_more() {
    let mut database = Database::new(1);
    database.folds = [Ok(Some(7)), Ok(Some(9))].into();
    database.tables = vec![never_read(3), never_read(4)];
    database.run();
    assert_eq!(database.when("fold"), [0, 0, 0]);
    assert_eq!((database.when("scrub 3"), database.when("scrub 4")), (vec![0], vec![0]));
}

#[test]
fn what_failed_rests_for_a_minute_and_nothing_else_does() {
    let mut database = Database::new(62);
    database.folds = [Err(failure("XX000")), Err(failure("XX000"))].into();
    database.run();
    assert_eq!(database.when("fold"), [0, 60,]);
    assert_eq!(database.when("Warning folding history: no luck (XX000) It rains."), [0, 60]);
    assert_eq!(database.when("audit").len(), 62);
}

#[test]
fn what_gave_way_rests_for_five_seconds() {
    for sqlstate in ["57014", "CH007"] {
        let mut database = Database::new(7);
        database.audits = [Err(failure(sqlstate))].into();
        database.tables = vec![never_read(3)];
        database.scrubs = [Ok(None)].into();
        database.run();
        assert_eq!(database.when("audit"), [0, 5, 6]);
        assert_eq!(database.when("Log reading the past: no luck"), [0]);
        // A block in the way is no error, and nothing is said.
        assert_eq!(database.when("scrub 3"), [0, 5]);
        assert!(!database.log.iter().any(|(_, what)| what.starts_with("Warning")));
    }
}

#[test]
fn history_that_is_not_as_agreed_is_recorded() {
    let mut database = Database::new(1);
    database.folds = [Err(failure("CH002"))].into();
    database.run();
    assert_eq!(database.when("records no luck. It rains."), [0]);
    assert_eq!(database.when("Warning folding history: no luck (CH002) It rains."), [0]);
    let mut database = Database::new(1);
    database.folds = [Err(failure("CH003"))].into();
    database.run();
    assert!(!database.log.iter().any(|(_, what)| what.starts_with("records")));
}

#[test]
fn the_past_is_read_at_the_scrubbers_rate() {
    let mut database = Database::new(5);
    let read = |block, findings| Ok(Audited { block: Some(block), findings });
    database.audits = [read(10, 0), read(20, 2)].into();
    database.run();
    // 10,000 changes at 5,000 rows a second.
    assert_eq!(database.when("audit"), [0, 2, 4]);
    let told = "Warning 2 blocks are not kept as agreed; another organisation has to tell them";
    assert_eq!(database.when(told), [2]);
}

#[test]
fn the_past_takes_a_tenth_of_a_processor_and_holds_up_nothing() {
    let mut database = Database::new(40);
    database.audits = (1..9).map(|n| Ok(Audited { block: Some(n), findings: 0 })).collect();
    database.audit_takes = SECOND;
    database.run();
    assert_eq!(database.when("audit"), [0, 10, 20, 30]);
    let folds = database.when("fold");
    assert!(folds.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{folds:?}");
    let mut database = Database::new(200);
    database.audits = (1..9).map(|n| Ok(Audited { block: Some(n), findings: 0 })).collect();
    database.audit_takes = SECOND * 30;
    database.run();
    assert_eq!(database.when("audit"), [0, 90, 180]);
}

#[test]
fn deviations_are_told() {
    let mut database = Database::new(1);
    database.tables = vec![never_read(3)];
    database.scrubs = [Ok(Some(4))].into();
    database.run();
    assert_eq!(database.when("Warning scrubbing found 4 deviations; chainify.deviations has them"), [0]);
}

#[test]
fn without_a_rate_history_is_folded_and_nothing_is_read() {
    let mut database = Database::new(3);
    database.rate = None;
    database.tables = vec![never_read(3)];
    database.run();
    assert_eq!(database.when("fold"), [0, 1, 2]);
    assert!(database.when("audit").is_empty() && database.when("tables").is_empty());
}

/// Prepared changes end as their ledger transactions did (W4); those of others are left alone.
#[test]
fn prepared_changes_follow_the_ledger() {
    let name = |byte: u8, height: u64| format!("chainify:{}:{height}", format!("{byte:02x}").repeat(32));
    let mut database = Database::new(3);
    database.height = 10;
    database.known = [(vec![1; 32], true), (vec![2; 32], false)].into();
    database.prepared = vec![name(1, 20), name(2, 20), name(3, 9), name(4, 10), "of another".into()];
    // The session of the first is just ending it, and the second fails: the others go on.
    database.finishes = [Err(failure("55000")), Err(failure("53100"))].into();
    database.run();
    assert_eq!(database.when(&format!("ends {} true", name(1, 20))), [0]);
    assert_eq!(database.when(&format!("ends {} false", name(2, 20))), [0]);
    assert_eq!(database.when(&format!("ends {} false", name(3, 9))), [0]);
    assert_eq!(database.when(&format!("Log rolled back prepared local changes \"{}\"", name(3, 9))), [0]);
    assert_eq!(database.when("Warning ending prepared local changes: no luck (53100) It rains."), [0]);
    assert_eq!(database.prepared, [name(1, 20), name(2, 20), name(4, 10), "of another".into()]);

    let mut database = Database::new(2);
    database.known = [(vec![1; 32], true)].into();
    database.prepared = vec![name(1, 20)];
    database.finishes = [Err(failure("42704"))].into();
    database.run();
    assert_eq!(database.when(&format!("ends {} true", name(1, 20))), [0, 1]);
    assert_eq!(database.when(&format!("Log committed prepared local changes \"{}\"", name(1, 20))), [1]);
}

#[test]
fn an_index_is_summed_up_once_and_one_that_is_locked_at_the_next_look() {
    let mut database = Database::new(3);
    let index = |index| BlockIndex { index, pages: 40, pages_per_range: 16, dropped: 0 };
    database.indexes = vec![index(1), index(2)];
    database.sums = [Err(failure("55P03"))].into();
    database.run();
    assert_eq!(database.when("sums up 1 All"), [0, 1]);
    assert_eq!(database.when("sums up 2 All"), [0]);
    assert!(!database.log.iter().any(|(_, said)| said.starts_with("Warning")));
}

#[test]
fn new_ranges_do_not_keep_those_anew_waiting() {
    let mut database = Database::new(3);
    database.indexes = vec![BlockIndex { index: 1, pages: 16 * 300, pages_per_range: 16, dropped: 9 }];
    database.run();
    assert_eq!(database.when("sums up 1 All"), [0]);
    let anew = |first: i64, last: i64| format!("sums up 1 Anew(Ranges {{ first: {first}, last: {last}, step: 16 }})");
    assert_eq!(database.when(&anew(0, 16 * 249)), [0]);
    assert_eq!(database.when(&anew(16 * 250, 16 * 299)), [1], "some at a time");
}

#[test]
fn an_index_that_cannot_be_summed_up_is_told_and_rests() {
    let mut database = Database::new(100);
    database.indexes = vec![BlockIndex { index: 1, pages: 40, pages_per_range: 16, dropped: 0 }];
    database.sums = [Err(failure("XX001"))].into();
    database.run();
    assert_eq!(database.when("sums up 1 All"), [0, 60]);
    assert_eq!(database.when("Warning summing up indexes by block: no luck (XX001) It rains."), [0]);
}

#[test]
fn work_without_an_end_gives_other_work_its_turn() {
    let mut database = Database::new(10);
    database.folds = (1..100).map(|block| Ok(Some(block))).collect();
    database.fold_takes = SECOND / 2;
    database.run();
    assert_eq!(database.when("fold").len(), 20, "it never waits");
    assert_eq!(database.when("indexes"), (0..10).collect::<Vec<_>>());
    assert_eq!(database.when("tables"), (1..11).collect::<Vec<_>>());
}
