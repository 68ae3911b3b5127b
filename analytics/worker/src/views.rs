//! The rows that queries see: by block, and by the name of a pin.
//!
//! One thread publishes, many read. A view here was compared with the certified state (Q1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chainify_snapshot::Rows;
use tokio::sync::{watch, Notify};

use crate::bounds::Bounds;
use crate::layout::Layout;

/// The rows of a table at a block.
pub struct TableView {
    /// The rows.
    pub rows: Rows,
    /// The columns.
    pub layout: Arc<Layout>,
    /// Between which numbers their values lie.
    pub bounds: Bounds,
}

/// The rows of mirrored tables at one block, by the number of a table's version.
pub struct BlockView {
    /// The block.
    pub block: i64,
    /// The tables.
    pub tables: BTreeMap<i32, Arc<TableView>>,
    /// Each query that reads them has a clone.
    pub readers: Arc<()>,
}

impl BlockView {
    /// A view that nobody reads yet.
    pub fn new(block: i64, tables: BTreeMap<i32, Arc<TableView>>) -> Self {
        BlockView { block, tables, readers: Arc::default() }
    }

    /// Whether it has all these tables.
    pub fn has(&self, tables: &BTreeSet<i32>) -> bool {
        tables.iter().all(|id| self.tables.contains_key(id))
    }
}

/// A mirror as `chainify.mirrors` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Rows.
    pub rows: u64,
    /// Bytes of columns, values and the index of keys.
    pub bytes: u64,
    /// Chunks of the column store.
    pub chunks: u64,
    /// Those of them that snapshots share.
    pub chunks_shared: u64,
    /// The block that it has.
    pub block: i64,
    /// The last block at which its state was the certified one.
    pub digest_checked: Option<i64>,
    /// In a word.
    pub state: &'static str,
    /// The reason why it serves nothing.
    pub error: Option<String>,
}

/// A pinned snapshot.
#[derive(Clone)]
pub struct Pin {
    /// Its block.
    pub block: i64,
    /// Its rows; None while they are being read.
    pub view: Option<Arc<BlockView>>,
    made: Instant,
}

/// How long a pin may be without a row in the database: its transaction is still open then.
const PIN_WAITS: Duration = Duration::from_secs(60);

impl Pin {
    /// A pin of now.
    pub fn new(block: i64, view: Option<Arc<BlockView>>) -> Pin {
        Pin { block, view, made: Instant::now() }
    }

    /// Whether its transaction must have ended.
    pub fn is_old(&self) -> bool {
        self.made.elapsed() > PIN_WAITS
    }
}

/// A snapshot as `chainify.snapshots` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// Of a pin: its name.
    pub name: Option<String>,
    /// The block.
    pub block: i64,
    /// Queries that read it now.
    pub readers: u64,
}

#[derive(Default)]
struct State {
    views: BTreeMap<i64, Arc<BlockView>>,
    /// Rows of earlier blocks that queries have asked for, the one asked for last at the end.
    earlier: VecDeque<Arc<BlockView>>,
    pins: BTreeMap<String, Pin>,
    mirrors: BTreeMap<i32, MirrorStatus>,
    /// The last block of the database.
    last: i64,
}

/// Everything that queries can see.
pub struct Views {
    state: Mutex<State>,
    /// Newest block published.
    newest: watch::Sender<i64>,
    /// Somebody waits for a block: the database is asked at once.
    pub hurry: Notify,
    kept: usize,
}

impl Views {
    /// Keeps the views of the newest `kept` blocks that were published, at least one.
    pub fn new(kept: usize) -> Arc<Views> {
        Arc::new(Views {
            state: Mutex::default(),
            newest: watch::Sender::new(0),
            hurry: Notify::new(),
            kept: kept.max(1),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the newest view. Earlier ones beyond the number kept go.
    pub fn publish(&self, view: BlockView) {
        let block = view.block;
        let mut state = self.state();
        state.views.insert(block, Arc::new(view));
        while state.views.len() > self.kept {
            state.views.pop_first();
        }
        state.last = state.last.max(block);
        drop(state);
        self.newest.send_replace(block);
    }

    /// Forgets every view but for pins.
    pub fn forget_all(&self) {
        let mut state = self.state();
        state.views.clear();
        state.earlier.clear();
    }

    /// Forgets the rows of pins, since they are of another ledger: they are read again when a query
    /// asks for them.
    pub fn forget_pinned_rows(&self) {
        self.state().pins.values_mut().for_each(|pin| pin.view = None);
    }

    /// Gives up a view that is not pinned, for its memory: those of earlier blocks first, then the
    /// oldest. False: there is none but the newest.
    pub fn give_up_oldest(&self) -> bool {
        let mut state = self.state();
        match state.views.len() {
            _ if state.earlier.pop_front().is_some() => true,
            0 | 1 => false,
            _ => state.views.pop_first().is_some(),
        }
    }

    /// The rows of these tables at an earlier block, when they are kept.
    pub fn earlier(&self, block: i64, tables: &BTreeSet<i32>) -> Option<Arc<BlockView>> {
        let mut state = self.state();
        let at = state.earlier.iter().position(|view| view.block == block && view.has(tables))?;
        let view = state.earlier.remove(at)?;
        state.earlier.push_back(view.clone());
        Some(view)
    }

    /// Keeps the rows of an earlier block, and those of `kept_max` blocks at most.
    pub fn keep_earlier(&self, view: Arc<BlockView>, kept_max: usize) {
        let mut state = self.state();
        state.earlier.retain(|kept| kept.block != view.block);
        state.earlier.push_back(view);
        while state.earlier.len() > kept_max.max(1) {
            state.earlier.pop_front();
        }
    }

    /// The view of a block: one of the newest, or a pinned one.
    pub fn at(&self, block: i64) -> Option<Arc<BlockView>> {
        let state = self.state();
        let mut pins = state.pins.values().filter(|pin| pin.block == block);
        state.views.get(&block).cloned().or_else(|| pins.find_map(|pin| pin.view.clone()))
    }

    /// The newest view.
    pub fn newest(&self) -> Option<Arc<BlockView>> {
        self.state().views.last_key_value().map(|(_, view)| view.clone())
    }

    /// Tells of each newest block.
    pub fn subscribe(&self) -> watch::Receiver<i64> {
        self.newest.subscribe()
    }

    /// The last block of the database, as far as is known.
    pub fn last(&self) -> i64 {
        self.state().last
    }

    /// Says which block the database has.
    pub fn set_last(&self, block: i64) {
        self.state().last = block;
    }

    /// A pin.
    pub fn pin(&self, name: &str) -> Option<Pin> {
        self.state().pins.get(name).cloned()
    }

    /// Makes or changes a pin.
    pub fn set_pin(&self, name: &str, pin: Pin) {
        self.state().pins.insert(name.into(), pin);
    }

    /// Gives the rows of a block to its pins that have none.
    pub fn fill_pins(&self, view: &Arc<BlockView>) {
        let mut state = self.state();
        let pins = state.pins.values_mut().filter(|pin| pin.block == view.block && pin.view.is_none());
        pins.for_each(|pin| pin.view = Some(view.clone()));
    }

    /// Forgets a pin.
    pub fn remove_pin(&self, name: &str) {
        self.state().pins.remove(name);
    }

    /// Names and blocks of all pins.
    pub fn pins(&self) -> BTreeMap<String, Pin> {
        self.state().pins.clone()
    }

    /// Says how mirrors are; those that are not told of are gone.
    pub fn set_mirrors(&self, mirrors: BTreeMap<i32, MirrorStatus>) {
        self.state().mirrors = mirrors;
    }

    /// Says how one mirror is.
    pub fn set_mirror(&self, table: i32, status: MirrorStatus) {
        self.state().mirrors.insert(table, status);
    }

    /// How mirrors are.
    pub fn mirrors(&self) -> BTreeMap<i32, MirrorStatus> {
        self.state().mirrors.clone()
    }

    /// The snapshots that are kept.
    pub fn snapshots(&self) -> Vec<SnapshotStatus> {
        let state = self.state();
        let pinned = state.pins.iter().map(|(name, pin)| SnapshotStatus {
            name: Some(name.clone()),
            block: pin.block,
            readers: pin.view.as_ref().map_or(0, readers),
        });
        let pins: BTreeSet<i64> = state.pins.values().map(|pin| pin.block).collect();
        let recent = state.views.iter().filter(|(block, _)| !pins.contains(block));
        let recent = recent.map(|(block, view)| SnapshotStatus { name: None, block: *block, readers: readers(view) });
        pinned.chain(recent).collect()
    }
}

fn readers(view: &Arc<BlockView>) -> u64 {
    (Arc::strong_count(&view.readers) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(block: i64) -> BlockView {
        BlockView::new(block, BTreeMap::new())
    }

    /// V4
    #[test]
    fn the_oldest_views_that_are_not_pinned_go_first() {
        let views = Views::new(16);
        (1..=3).for_each(|block| views.publish(view(block)));
        views.keep_earlier(Arc::new(view(0)), 2);
        views.set_pin("month", Pin::new(1, views.at(1)));
        let kept = || (0..=3).map(|block| views.at(block).is_some()).collect::<Vec<_>>();
        let second = Arc::downgrade(&views.at(2).unwrap());
        assert!(views.give_up_oldest());
        assert!(views.earlier(0, &BTreeSet::new()).is_none(), "those of earlier blocks go first");
        assert_eq!(kept(), [false, true, true, true]);
        // The pin keeps its rows. The next one gives some back.
        assert!(views.give_up_oldest() && views.give_up_oldest());
        assert_eq!(kept(), [false, true, false, true]);
        assert!(second.upgrade().is_none(), "its memory is free");
        assert!(!views.give_up_oldest(), "the newest stays");
        assert_eq!(kept(), [false, true, false, true]);
        views.remove_pin("month");
        assert_eq!(kept(), [false, false, false, true]);
    }

    #[test]
    fn a_pin_keeps_its_rows_for_queries_at_its_block() {
        let views = Views::new(1);
        views.publish(view(1));
        views.set_pin("with", Pin::new(1, views.at(1)));
        views.set_pin("without", Pin::new(2, None));
        views.publish(view(5));
        assert!(views.at(1).is_some() && views.at(2).is_none());
        views.fill_pins(&Arc::new(view(2)));
        assert_eq!(views.at(2).map(|view| view.block), Some(2));
        views.forget_pinned_rows();
        assert!(views.at(1).is_none() && views.at(2).is_none() && views.at(5).is_some());
    }
}
