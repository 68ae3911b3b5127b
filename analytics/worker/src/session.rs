//! One connection's queries: which rows they see, how long they may take, what ends them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::command::{Command, Sees};
use crate::earlier::Earlier;
use crate::engine::{Engine, Failure, Running};
use crate::views::{BlockView, MirrorStatus, Pin, SnapshotStatus, Views};

/// How long a query waits for a block, without a `statement_timeout`.
const BLOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two nudges of the follower.
const NUDGE: Duration = Duration::from_millis(5);

/// The parts that all connections share.
pub struct Worker {
    /// Rows.
    pub views: Arc<Views>,
    /// Rows of earlier blocks.
    pub earlier: Earlier,
    /// Queries.
    pub engine: Arc<Engine>,
}

impl Worker {
    /// The rows that are seen, with these tables as far as they have mirrors. Waits for a block as
    /// long as the timeout, and `BLOCK_WAIT_MAX` at most.
    ///
    /// # Errors
    /// 55000 for rows that the worker does not have, and those of reading an earlier block.
    pub async fn rows(
        &self,
        sees: &Sees,
        tables: &BTreeSet<i32>,
        timeout: Option<Duration>,
    ) -> Result<Arc<BlockView>, Failure> {
        let deadline = Instant::now() + timeout.unwrap_or(BLOCK_WAIT_MAX).min(BLOCK_WAIT_MAX);
        match sees {
            Sees::Newest => self.newest(0, deadline).await,
            Sees::AtLeast(block) => self.newest(*block, deadline).await,
            Sees::Block(block) => {
                self.newest(*block, deadline).await?;
                self.at(*block, tables).await
            }
        }
    }

    /// The rows of a block: those kept, or else those of the database, which a pin then keeps.
    async fn at(&self, block: i64, tables: &BTreeSet<i32>) -> Result<Arc<BlockView>, Failure> {
        if let Some(view) = self.views.at(block).filter(|view| view.has(tables)) {
            return Ok(view);
        }
        let view = self.earlier.rows(block, tables).await?;
        self.views.fill_pins(&view);
        Ok(view)
    }

    /// The newest rows, of this block or a later one.
    async fn newest(&self, block: i64, deadline: Instant) -> Result<Arc<BlockView>, Failure> {
        let views = &self.views;
        let mut published = views.subscribe();
        loop {
            if let Some(view) = views.newest().filter(|view| view.block >= block) {
                return Ok(view);
            }
            if Instant::now() >= deadline {
                let has = views.newest().map_or("no block".into(), |view| format!("block {}", view.block));
                return Err(Failure::new("55000", format!("the analytics worker does not have block {block} yet"))
                    .detail(format!("It has {has}; the database's last block is {}.", views.last()))
                    .hint("chainify.mirrors says how far mirrors are."));
            }
            views.hurry.notify_one();
            let _ = tokio::time::timeout(NUDGE, published.changed()).await;
        }
    }
}

/// The settings of one connection.
#[derive(Clone, Default)]
pub struct Settings {
    /// The rows that queries see.
    pub sees: Sees,
    /// How long a statement may take.
    pub timeout: Option<Duration>,
}

/// One connection.
pub struct Session {
    worker: Arc<Worker>,
    settings: Mutex<Settings>,
}

/// The outcome of a statement.
pub enum Outcome {
    /// Nothing, with its tag.
    Done(&'static str),
    /// A query under way.
    Rows(Running),
    /// How mirrors are, and the last block of the database.
    Mirrors(Vec<(i32, MirrorStatus)>, i64),
    /// The snapshots.
    Snapshots(Vec<SnapshotStatus>),
}

impl Session {
    /// A connection that sees the newest block.
    pub fn new(worker: Arc<Worker>) -> Self {
        Session { worker, settings: Mutex::default() }
    }

    /// The settings of now.
    pub fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs a statement up to its first row.
    ///
    /// # Errors
    /// Those of spec/analytics.md.
    pub async fn run(&self, text: &str) -> Result<Outcome, Failure> {
        let command = crate::command::parse(text).map_err(|why| Failure::new("22023", why))?;
        let views = &self.worker.views;
        match command {
            Command::See(sees) => self.set(|settings| settings.sees = sees),
            Command::Timeout(timeout) => self.set(|settings| settings.timeout = timeout),
            Command::Pin { name, block } => {
                self.pin(&name, block).await?;
                return Ok(Outcome::Done("PIN"));
            }
            Command::Unpin { name } => {
                views.remove_pin(&name);
                return Ok(Outcome::Done("UNPIN"));
            }
            Command::Mirrors => return Ok(Outcome::Mirrors(views.mirrors().into_iter().collect(), views.last())),
            Command::Snapshots => return Ok(Outcome::Snapshots(views.snapshots())),
            Command::Query => return self.query(text).await,
        }
        Ok(Outcome::Done("SET"))
    }

    async fn query(&self, text: &str) -> Result<Outcome, Failure> {
        let Settings { sees, timeout } = self.settings();
        let engine = &self.worker.engine;
        let query = engine.parse(text)?;
        let view = self.worker.rows(&sees, &query.tables.iter().copied().collect(), timeout).await?;
        Ok(Outcome::Rows(engine.run(query, &view).await?))
    }

    async fn pin(&self, name: &str, block: i64) -> Result<(), Failure> {
        let views = &self.worker.views;
        // A mirror that serves nothing does not keep the others from being pinned.
        let newest = self.worker.newest(block, Instant::now() + BLOCK_WAIT_MAX).await?;
        let tables = newest.tables.keys().copied().collect();
        let view = self.worker.at(block, &tables).await?;
        views.set_pin(name, Pin::new(block, Some(view)));
        Ok(())
    }
}
