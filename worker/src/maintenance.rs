//! The work of one worker of each database, beside the blocks. It ends prepared local changes that
//! their sessions have left, summarises the BRIN indexes on block numbers, folds history into the
//! base of the checkpoints, and verifies earlier blocks again. It scrubs every table from time to
//! time. It starts when a node connects and ends when the node is gone.

use std::time::Duration;

use crate::failure::Failure;
use crate::prepared::{Fate, Known, Name};
use crate::scrubbing::{self, TableRead};
use crate::summaries::{BlockIndex, Due, Summaries};

/// How often it looks for work.
const LOOK: Duration = Duration::from_secs(1);
/// How often a new worker checks whether the earlier worker has ended. The earlier worker checks
/// once a second, between pieces of work, whether its node is still there.
const LOOKS_FOR_TURN: u32 = 5;
/// Pauses of work that failed, and of work that gave way to a block.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
const AFTER_GIVING_WAY: Duration = Duration::from_secs(5);
/// After a piece of the audit of earlier blocks, the audit rests this many times as long. So it
/// takes a tenth of a processor at most. The pause has a limit, since a piece may have waited for
/// something else.
const PAST_RESTS: u32 = 9;
const PAST_RESTS_MAX: Duration = Duration::from_secs(60);
/// Changes folded, or read again, in one transaction.
const CHANGES_MAX: i64 = 10_000;

/// SQLSTATEs of work that gave way: it was cancelled, or it stood in the way of a block.
const GAVE_WAY: [&str; 2] = ["57014", "CH007"];
/// SQLSTATEs of a prepared transaction that another session ends, or has ended.
const HAS_SESSION: [&str; 2] = ["42704", "55000"];
/// SQLSTATE of a table that is being vacuumed or altered.
const LOCKED: &str = "55P03";
/// SQLSTATE of a ledger that differs from the agreed one.
const NOT_AS_AGREED: &str = "CH002";

/// How loud a message in the server's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is wrong.
    Log,
    /// An operator should know.
    Warning,
}

/// The operator's settings; read again before each piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rows per second; None: the scrubber does not run.
    pub scrub_rate: Option<i64>,
    /// From one look at a table to the next.
    pub scrub_interval: Duration,
}

/// The result of an audit of earlier blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audited {
    /// The last block read; None: there was nothing to read.
    pub block: Option<i64>,
    /// Blocks that are not as agreed.
    pub findings: i64,
}

/// A database, and the server around it. Each piece of work is a transaction of its own.
pub trait Host {
    /// Time since some start.
    fn now(&self) -> Duration;
    /// Waits for the time given, or shorter. A termination ends the worker here.
    fn wait(&mut self, time: Duration);
    /// Writes to the server's log.
    fn say(&mut self, level: Level, text: &str);
    /// The operator's settings.
    fn settings(&self) -> Settings;
    /// Takes this database for this worker; false when another worker has it.
    fn takes_turn(&mut self) -> Result<bool, Failure>;
    /// This is the database's worker from now on.
    fn has_turn(&mut self);
    /// Whether a node is connected, and the extension is still there.
    fn node_is_there(&mut self) -> Result<bool, Failure>;
    /// The names of the prepared transactions of this database.
    fn prepared(&mut self) -> Result<Vec<String>, Failure>;
    /// The ledger's knowledge of a transaction.
    fn known(&mut self, id: &[u8]) -> Result<Known, Failure>;
    /// Commits a prepared transaction, or rolls it back.
    fn finish(&mut self, name: &str, commits: bool) -> Result<(), Failure>;
    /// The BRIN indexes on block numbers.
    fn block_indexes(&mut self) -> Result<Vec<BlockIndex>, Failure>;
    /// Makes summaries of ranges of an index. Fails with 55P03 while another session vacuums or
    /// alters its table.
    fn sum_up(&mut self, index: u32, due: Due) -> Result<(), Failure>;
    /// Folds whole blocks with up to this many changes. Returns the last block folded; None: there
    /// is nothing to fold.
    fn fold(&mut self, changes_max: i64) -> Result<Option<i64>, Failure>;
    /// Records that history is not as agreed, so that the node repairs it.
    fn record_history(&mut self, what: &str) -> Result<(), Failure>;
    /// Verifies blocks with up to this many changes, of those that no checkpoint needs any more.
    fn audit(&mut self, changes_max: i64) -> Result<Audited, Failure>;
    /// The tables on the ledger, in the order of their numbers.
    fn tables(&mut self) -> Result<Vec<TableRead>, Failure>;
    /// Scrubs a table; how many deviations it found, None when a block was in the way.
    fn scrub(&mut self, relation: u32, rows_per_second: i64) -> Result<Option<i64>, Failure>;
}

/// A kind of work, in the order in which they are looked for.
#[derive(Clone, Copy)]
enum Work {
    Finish,
    SumUp,
    Fold,
    Audit,
    Scrub,
}

/// How a piece of work ended.
enum Done {
    /// There may be more at once.
    Some,
    /// There is more after a pause.
    Rests(Duration),
    /// There is no more for now.
    All,
    /// A block was in the way.
    GaveWay,
}

/// Works until no node is there.
pub fn run(host: &mut impl Host) {
    if !becomes_the_only_one(host) {
        return;
    }
    host.has_turn();
    let kinds = [Work::Finish, Work::SumUp, Work::Fold, Work::Audit, Work::Scrub];
    let mut kinds = kinds.map(|work| (work, None));
    let mut summaries = Summaries::default();
    while asked(host, |host| host.node_is_there()) {
        let mut more = false;
        for (work, rests_until) in &mut kinds {
            more |= do_much(host, &mut summaries, *work, rests_until);
        }
        if !more {
            host.wait(LOOK);
        }
    }
}

/// Waits until no other worker has this database; false: one stays. A worker that saw its node go
/// may still be ending, and a node that comes back at once needs a new one.
fn becomes_the_only_one<H: Host>(host: &mut H) -> bool {
    for _ in 0..LOOKS_FOR_TURN {
        if asked(host, |host| host.takes_turn()) {
            return true;
        }
        host.wait(LOOK);
    }
    false
}

/// An answer of the database; false when it has none.
fn asked<H: Host>(host: &mut H, ask: impl FnOnce(&mut H) -> Result<bool, Failure>) -> bool {
    ask(host).unwrap_or_else(|failure| {
        warn(host, "looking for the node", &failure);
        false
    })
}

/// Does all work of one kind that there is, unless it failed, gave way or rests. Work that
/// takes longer than a look gives other kinds their turn: true means that there may be more.
fn do_much(host: &mut impl Host, summaries: &mut Summaries, work: Work, rests_until: &mut Option<Duration>) -> bool {
    let began = host.now();
    if rests_until.is_some_and(|until| began < until) {
        return false;
    }
    *rests_until = None;
    let pause = loop {
        match do_one(host, summaries, work) {
            Ok(Done::Some) => host.wait(Duration::ZERO),
            Ok(Done::Rests(pause)) => break pause,
            Ok(Done::All) => return false,
            Ok(Done::GaveWay) => break AFTER_GIVING_WAY,
            Err(failure) if GAVE_WAY.contains(&failure.sqlstate.as_str()) => {
                host.say(Level::Log, &format!("{}: {}", work.name(), failure.message));
                break AFTER_GIVING_WAY;
            }
            Err(failure) => {
                warn(host, work.name(), &failure);
                break AFTER_FAILURE;
            }
        }
        if host.now() >= began + LOOK {
            return true;
        }
    };
    *rests_until = Some(host.now() + pause);
    false
}

impl Work {
    /// As the server's log has it.
    fn name(self) -> &'static str {
        match self {
            Work::Finish => "ending prepared local changes",
            Work::SumUp => "summing up indexes by block",
            Work::Fold => "folding history",
            Work::Audit => "reading the past",
            Work::Scrub => "scrubbing",
        }
    }
}

fn do_one(host: &mut impl Host, summaries: &mut Summaries, work: Work) -> Result<Done, Failure> {
    match work {
        Work::Finish => finish(host),
        Work::SumUp => sum_up(host, summaries),
        Work::Fold => fold(host),
        Work::Audit => audit(host),
        Work::Scrub => scrub(host),
    }
}

/// Ends the prepared changes whose outcome is known. Their own session may end them first; such a
/// failure does not hold up the others.
fn finish(host: &mut impl Host) -> Result<Done, Failure> {
    let mut failed = Ok(());
    for text in host.prepared()? {
        let Some(name) = Name::parse(&text) else {
            continue;
        };
        let commits = match name.fate(host.known(&name.id)?) {
            Fate::Commit => true,
            Fate::RollBack => false,
            Fate::Open => continue,
        };
        match host.finish(&text, commits) {
            Ok(()) => {
                let done = if commits { "committed" } else { "rolled back" };
                host.say(Level::Log, &format!("{done} prepared local changes \"{text}\""));
            }
            Err(failure) if HAS_SESSION.contains(&failure.sqlstate.as_str()) => {}
            Err(failure) => failed = Err(failure),
        }
    }
    failed.map(|()| Done::All)
}

/// Makes the due summaries of each index: of new ranges, then some anew. A table under vacuum waits
/// for the next look, because waiting for its lock would make PostgreSQL cancel the vacuum.
fn sum_up(host: &mut impl Host, summaries: &mut Summaries) -> Result<Done, Failure> {
    let indexes = host.block_indexes()?;
    summaries.keep(&indexes);
    for of in &indexes {
        while let Some(due) = summaries.due(of) {
            match host.sum_up(of.index, due) {
                Ok(()) => summaries.summed_up(of, due),
                Err(failure) if failure.sqlstate == LOCKED => break,
                Err(failure) => return Err(failure),
            }
            if matches!(due, Due::Anew(_)) {
                break;
            }
        }
    }
    Ok(Done::All)
}

fn fold(host: &mut impl Host) -> Result<Done, Failure> {
    let folded = host.fold(CHANGES_MAX);
    if let Err(failure) = &folded {
        if failure.sqlstate == NOT_AS_AGREED {
            let detail = failure.detail.as_deref().unwrap_or_default();
            host.record_history(&format!("{}. {detail}", failure.message))?;
        }
    }
    Ok(folded?.map_or(Done::All, |_| Done::Some))
}

/// Reads some of the blocks that no checkpoint needs any more, at the scrubber's rate or slower. A
/// block costs more than its changes, and the past grows with the ledger.
fn audit(host: &mut impl Host) -> Result<Done, Failure> {
    let Some(rate) = host.settings().scrub_rate else {
        return Ok(Done::All);
    };
    let began = host.now();
    let Audited { block, findings } = host.audit(CHANGES_MAX)?;
    let took = host.now() - began;
    if findings > 0 {
        let text = format!("{findings} blocks are not kept as agreed; another organisation has to tell them");
        host.say(Level::Warning, &text);
    }
    let pause = scrubbing::time_of(CHANGES_MAX.unsigned_abs(), rate.unsigned_abs());
    let pause = pause.max((took * PAST_RESTS).min(PAST_RESTS_MAX));
    Ok(block.map_or(Done::All, |_| Done::Rests(pause)))
}

/// Scrubs the table that was not read for longest, when its turn has come.
fn scrub(host: &mut impl Host) -> Result<Done, Failure> {
    let Settings { scrub_rate: Some(rate), scrub_interval } = host.settings() else {
        return Ok(Done::All);
    };
    let Some(relation) = scrubbing::next_table(&host.tables()?, scrub_interval) else {
        return Ok(Done::All);
    };
    let Some(found) = host.scrub(relation, rate)? else {
        return Ok(Done::GaveWay);
    };
    if found > 0 {
        let text = format!("scrubbing found {found} deviations; chainify.deviations has them");
        host.say(Level::Warning, &text);
    }
    Ok(Done::Some)
}

/// Writes an error that nobody else will see to the server's log.
fn warn(host: &mut impl Host, what: &str, failure: &Failure) {
    let detail = failure.detail.as_deref().unwrap_or_default();
    host.say(Level::Warning, &format!("{what}: {} ({}) {detail}", failure.message, failure.sqlstate));
}
