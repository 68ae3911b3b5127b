//! Following the database: mirrors are made, brought forward block by block, and published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::load::{apply, differing, load, LoadError, Memory};
use crate::mirror::Mirror;
use crate::source::{Block, Changes, Database, Moment, SourceError, States, ToldTable};
use crate::views::{BlockView, MirrorStatus, Pin};

/// How the follower paces itself.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Between two looks at the last block.
    pub poll: Duration,
    /// Between two looks at which tables are to be mirrored.
    pub tables: Duration,
    /// Before a mirror that failed is made anew.
    pub retry: Duration,
    /// Between two looks at the cells of all mirrors.
    pub recheck: Duration,
}

const RECONNECT: Duration = Duration::from_secs(1);
/// Bytes of changes that are read before they are applied: the database keeps no rows for the
/// worker meanwhile. Of more, some are applied while others are read.
const AHEAD_BYTES_MAX: usize = 16 << 20;

/// Changes that are read and not applied, in their order.
#[derive(Default)]
struct Waiting {
    changes: Vec<(i32, Changes)>,
    bytes: usize,
}

/// Follows one database. One task runs it.
pub struct Follower {
    connection: String,
    memory: Memory,
    pace: Pace,
    mirrors: BTreeMap<i32, Mirror>,
    /// The block that all mirrors have.
    at: Option<Block>,
    failed: BTreeMap<i32, (Instant, MirrorStatus)>,
    checked: Option<i64>,
    /// When the cells of all mirrors were read last.
    rechecked: Instant,
    /// They are being read: gives the mirrors whose cells are others.
    rechecking: Option<JoinHandle<Vec<i32>>>,
    published: Vec<i32>,
}

impl Follower {
    /// For the database of a connection string.
    pub fn new(connection: String, memory: Memory, pace: Pace) -> Self {
        Follower {
            connection,
            memory,
            pace,
            mirrors: BTreeMap::new(),
            at: None,
            failed: BTreeMap::new(),
            checked: None,
            rechecked: Instant::now(),
            rechecking: None,
            published: Vec::new(),
        }
    }

    /// Follows for ever. A lost connection is made again; mirrors stay meanwhile.
    pub async fn run(mut self) {
        loop {
            match Database::connect(&self.connection).await {
                Ok(mut database) => {
                    tracing::info!("connected to the database");
                    let lost = self.follow(&mut database).await;
                    tracing::warn!(error = %lost, "the database does not answer");
                }
                Err(error) => tracing::warn!(%error, "the database does not answer"),
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn follow(&mut self, database: &mut Database) -> SourceError {
        let mut looked: Option<Instant> = None;
        loop {
            let stepped = async {
                let last = database.last_block().await?;
                let due = looked.is_none_or(|at| at.elapsed() >= self.pace.tables);
                if due || self.at != Some(last) {
                    self.step(database).await?;
                    looked = Some(Instant::now());
                }
                Ok(())
            };
            match stepped.await {
                Err(SourceError::Database(error)) if error.is_closed() => return error.into(),
                // Half a block is committed, for instance: the next look finds all of it.
                Err(error) => {
                    tracing::warn!(%error, "reading the ledger failed");
                    tokio::time::sleep(self.pace.poll).await;
                }
                Ok(()) => (),
            }
            tokio::select! {
                () = tokio::time::sleep(self.pace.poll) => (),
                () = self.memory.views.hurry.notified() => (),
            }
        }
    }

    /// Brings everything to the last block. A failure leaves mirrors at the block that they had, or
    /// drops them.
    async fn step(&mut self, database: &mut Database) -> Result<(), SourceError> {
        let moment = database.moment().await?;
        let seen = moment.look(self.at.map(|at| at.number)).await?;
        let (last, told) = (seen.last, &seen.tables);
        self.memory.views.set_last(last.number);
        if let Some(at) = self.at {
            if seen.at != Some(at) {
                tracing::warn!(block = at.number, "the database's ledger is another one: all mirrors are made anew");
                self.forget_all();
                self.memory.views.forget_pinned_rows();
            }
        }
        let wanted: BTreeMap<i32, &ToldTable> = told.iter().map(|table| (table.id, table)).collect();
        self.mirrors.retain(|id, mirror| wanted.get(id).is_some_and(|table| mirror.is_of(table)));
        self.failed.retain(|id, _| wanted.contains_key(id));
        let waiting = self.read_changes(&moment, last, &seen.states).await?;
        let loaded = self.load_missing(&moment, last, told).await;
        // The transaction ends before the work that takes long. This thread sends what ends it while
        // it gives way.
        drop(moment);
        tokio::task::yield_now().await;
        self.apply(waiting);
        self.at = Some(last);
        loaded?;
        self.check(last, &seen.states);
        self.end_recheck().await;
        self.publish(last);
        self.begin_recheck(last);
        self.keep_pins(&seen.pins);
        Ok(())
    }

    fn forget_all(&mut self) {
        self.mirrors.clear();
        self.failed.clear();
        self.published.clear();
        self.at = None;
        self.memory.views.forget_all();
    }

    /// Reads the changes that the mirrors do not have. Those that come back are to be applied, to
    /// mirrors that are there.
    async fn read_changes(
        &mut self,
        moment: &Moment<'_>,
        last: Block,
        states: &States,
    ) -> Result<Waiting, SourceError> {
        let mut waiting = Waiting::default();
        let Some(at) = self.at.filter(|at| at.number < last.number) else { return Ok(waiting) };
        let has_them = |mirror: &Mirror| mirror.has_rows_of(states.get(mirror.name()));
        let behind = self.mirrors.iter().filter(|(_, mirror)| !has_them(mirror));
        for id in behind.map(|(id, _)| *id).collect::<Vec<_>>() {
            let read = moment.changes(id, (at.number, last.number), |changes| {
                waiting.bytes += changes.bytes();
                waiting.changes.push((id, changes));
                if waiting.bytes > AHEAD_BYTES_MAX {
                    self.apply(std::mem::take(&mut waiting));
                }
            });
            if let Err(error) = read.await {
                // Mirrors may be at different blocks now.
                self.forget_all();
                return Err(error);
            }
        }
        // A mirror that failed meanwhile may be made anew, at the last block.
        waiting.changes.retain(|(id, _)| self.mirrors.contains_key(id));
        Ok(waiting)
    }

    /// Applies changes. What fails meanwhile is not served.
    fn apply(&mut self, waiting: Waiting) {
        let mut changed = BTreeSet::new();
        for (id, changes) in waiting.changes {
            changed.insert(id);
            self.change(id, |memory, mirror| apply(memory, mirror, &changes));
        }
        changed.extend(self.mirrors.iter().filter(|(_, mirror)| mirror.is_compacting()).map(|(id, _)| *id));
        for id in changed {
            self.change(id, |_, mirror| Ok(mirror.compact()?));
        }
    }

    /// Changes a mirror, unless it has failed. One that fails goes.
    fn change(&mut self, id: i32, step: impl FnOnce(&Memory, &mut Mirror) -> Result<(), LoadError>) {
        let Some(mirror) = self.mirrors.get_mut(&id) else { return };
        if let Err(error) = step(&self.memory, mirror) {
            let name = mirror.name().to_owned();
            self.mirrors.remove(&id);
            self.fail(id, &name, "failed", &error);
        }
    }

    fn fail(&mut self, id: i32, name: &str, state: &'static str, why: &dyn std::fmt::Display) {
        tracing::warn!(table = name, error = %why, "a mirror serves nothing");
        let status = MirrorStatus { state, error: Some(why.to_string()), ..MirrorStatus::default() };
        self.failed.insert(id, (Instant::now() + self.pace.retry, status));
    }

    async fn load_missing(&mut self, moment: &Moment<'_>, last: Block, told: &[ToldTable]) -> Result<(), SourceError> {
        for table in told {
            let waits = self.failed.get(&table.id).is_some_and(|(until, _)| Instant::now() < *until);
            if waits || self.mirrors.contains_key(&table.id) {
                continue;
            }
            self.memory.views.set_mirror(table.id, MirrorStatus { state: "loading", ..MirrorStatus::default() });
            let begun = Instant::now();
            match load(&self.memory, moment, table, last.number).await {
                Ok(mirror) => {
                    tracing::info!(table = table.name, block = last.number, took = ?begun.elapsed(), "a mirror is loaded");
                    self.failed.remove(&table.id);
                    self.mirrors.insert(table.id, mirror);
                }
                Err(LoadError::Trouble(trouble)) => self.fail(table.id, &table.name, "failed", &trouble),
                Err(LoadError::Source(SourceError::Database(error))) if error.is_closed() => return Err(error.into()),
                Err(LoadError::Source(error)) => {
                    self.fail(table.id, &table.name, "failed", &error);
                    // The transaction of this moment is of no more use.
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Compares all mirrors with the certified state (Q1). Those that differ go.
    fn check(&mut self, last: Block, told: &States) {
        if self.checked == Some(last.number) && self.published.iter().eq(self.mirrors.keys()) || last.number == 0 {
            return;
        }
        let states: Vec<_> = self.mirrors.values().map(|mirror| (mirror.name().to_owned(), mirror.state())).collect();
        let wrong = differing(&last.state_root, told, &states);
        let ids = self.mirrors.iter().filter(|(_, mirror)| wrong.contains(mirror.name()));
        for id in ids.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.mirrors.remove(&id);
            let why = format!("its rows at block {} are not those that organisations agreed on", last.number);
            let names = wrong.iter().cloned().collect::<Vec<_>>().join(", ");
            self.fail(id, &names, "differs", &why);
        }
        if !wrong.is_empty() {
            self.memory.views.forget_all();
        }
        self.checked = Some(last.number);
    }

    /// Has the state of every mirror computed of its cells again: memory may be faulty. Another
    /// thread reads the view that was just published, and following goes on.
    fn begin_recheck(&mut self, last: Block) {
        if self.rechecking.is_some() || self.rechecked.elapsed() < self.pace.recheck {
            return;
        }
        let Some(view) = self.memory.views.newest().filter(|view| view.block == last.number) else { return };
        let mirrors = self.mirrors.iter();
        let given = mirrors.filter_map(|(id, mirror)| Some((*id, mirror.given(), view.tables.get(id)?.clone())));
        let given: Vec<_> = given.collect();
        self.rechecking = Some(tokio::task::spawn_blocking(move || {
            let others = given.into_iter().filter(|(_, given, view)| !given.are_in(view));
            others.map(|(id, ..)| id).collect()
        }));
    }

    /// Mirrors go whose cells were found to be others.
    async fn end_recheck(&mut self) {
        let Some(ended) = self.rechecking.take_if(|running| running.is_finished()) else { return };
        let others = match ended.await {
            Ok(others) => others,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        };
        for id in others {
            if let Some(mirror) = self.mirrors.remove(&id) {
                self.memory.views.forget_all();
                self.fail(
                    id,
                    mirror.name(),
                    "differs",
                    &"its cells are not those that it was given: is the machine's memory in order?",
                );
            }
        }
        self.rechecked = Instant::now();
    }

    fn publish(&mut self, last: Block) {
        let views = self.memory.views.clone();
        let same = self.published.iter().eq(self.mirrors.keys());
        if !same || views.newest().is_none_or(|view| view.block != last.number) {
            let (mut tables, mut without) = (BTreeMap::new(), Vec::new());
            for (id, mirror) in &mut self.mirrors {
                match self.memory.within(|| Ok(mirror.view()?)) {
                    Ok(view) => _ = tables.insert(*id, Arc::new(view)),
                    Err(trouble) => without.push((*id, trouble)),
                }
            }
            for (id, trouble) in without {
                if let Some(mirror) = self.mirrors.remove(&id) {
                    self.fail(id, mirror.name(), "failed", &trouble);
                }
            }
            views.publish(BlockView::new(last.number, tables));
            self.published = self.mirrors.keys().copied().collect();
        }
        let mut statuses: BTreeMap<i32, MirrorStatus> =
            self.failed.iter().map(|(id, (_, status))| (*id, status.clone())).collect();
        for (id, mirror) in &self.mirrors {
            let checked = self.checked;
            statuses.insert(*id, mirror.status(last.number, checked));
        }
        views.set_mirrors(statuses);
    }

    /// Pins without a row in the database go: they were unpinned, or their transaction was rolled
    /// back. One that is not there yet is made where its block still is.
    fn keep_pins(&self, told: &BTreeMap<String, i64>) {
        let views = &self.memory.views;
        for (name, pin) in views.pins() {
            if told.get(&name) != Some(&pin.block) && pin.is_old() {
                views.remove_pin(&name);
            }
        }
        for (name, block) in told {
            if views.pin(name).is_none() {
                views.set_pin(name, Pin::new(*block, views.at(*block)));
            }
        }
    }
}
