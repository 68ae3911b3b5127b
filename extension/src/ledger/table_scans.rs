//! Scans of recovery: the expected rows of a table from base and history, its actual rows, and the
//! ranges of keys in which the two differ.
//!
//! Base and table are read from their pages, each row encoded and hashed once. The expected rows
//! are hashed into a state hash, which has to be the certified one. The actual rows are compared
//! with them by keyed digests, which cost a tenth of that.

use std::collections::{HashMap, HashSet};

use chainify_codec::{
    key_hash, key_hash_range, Hash, KeyRanges, LaneHasher, RangeDigest, SecretHasher, State, States,
};
use pgrx::pg_sys;

use crate::ledger::damaged_rows;
use crate::ledger::ledger_tables::{Column, LedgerTable};
use crate::ledger::row_bytes;
use crate::pg::base::cell_texts::CellTexts;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::encode::RowEncoder;
use crate::pg::base::error::OrRaise;
use crate::pg::base::random;
use crate::pg::base::relation::{Lock, Relation, Tuple};
use crate::pg::base::spi::SpiClient;

/// Ranges of keys that a scan tells apart: of a million rows, 250 each.
const SCAN_BITS: u32 = 12;

/// Rows that a table should have: their state, and what tells where the table differs from them.
pub struct Scan {
    pub state: State,
    digests: Digests,
}

impl Scan {
    /// The rows that base and history give for the end of block `number`.
    pub fn told(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> Scan {
        let mut scan = Scan::empty();
        let hasher = LaneHasher::new(&table.name);
        let changed = scan.add_changes(client, table, number, &hasher);
        read(table, &[table.base], Sees::Latest, &mut |row| {
            let key = row.key_hash();
            if !changed.contains(&short(&key)) {
                scan.add(&hasher, &key, row.bytes());
            }
        });
        scan
    }

    /// The rows that a query with columns `k` and `v` gives.
    pub fn of_query(client: &SpiClient<'_>, table: &LedgerTable, rows: &str) -> Scan {
        let mut scan = Scan::empty();
        let hasher = LaneHasher::new(&table.name);
        let sql = format!(
            "SELECT k, chainify_ledger.encoded_row({}, v) FROM ({rows}) e",
            table.id
        );
        let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
        while let Some(row) = rows.next_row() {
            let key = row.bytes(1).unwrap_or_default();
            scan.add(&hasher, &key_hash(&key), &row.bytes(2).unwrap_or_default());
        }
        scan
    }

    fn empty() -> Scan {
        Scan {
            state: State::default(),
            digests: Digests::new(SecretHasher::new(&random::key())),
        }
    }

    fn add(&mut self, hasher: &LaneHasher, key: &Hash, row: &[u8]) {
        self.state.add(hasher, row);
        self.digests.add(key, row);
    }

    /// Adds the rows that history lays over the base, and returns the keys that the base no longer
    /// tells.
    fn add_changes(
        &mut self,
        client: &SpiClient<'_>,
        table: &LedgerTable,
        number: i64,
        hasher: &LaneHasher,
    ) -> HashSet<u128> {
        let mut changed = HashSet::new();
        let sql = format!(
            "SELECT k, op <> 'D', chainify_ledger.encoded_row({}, v) FROM ({}) last",
            table.id,
            table.last_changes(number)
        );
        let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
        while let Some(row) = rows.next_row() {
            let key = key_hash(&row.bytes(1).unwrap_or_default());
            changed.insert(short(&key));
            if row.boolean(2) == Some(true) {
                self.add(hasher, &key, &row.bytes(3).unwrap_or_default());
            }
        }
        changed
    }

    /// The ranges in which the table has other rows now.
    pub fn differing(&self, client: &SpiClient<'_>, table: &LedgerTable) -> KeyRanges {
        let live = self.of_table(client, table, None);
        let pairs = self.digests.ranges.iter().zip(&live.ranges).enumerate();
        let differing = pairs.filter(|(_, (told, live))| told != live);
        let differing = differing.map(|(range, _)| range as u32).collect();
        KeyRanges::new(SCAN_BITS, differing).expect("places of the list, in its order")
    }

    /// Whether the table has these rows in the ranges that [`Scan::differing`] gave.
    pub fn agrees_in(
        &self,
        client: &SpiClient<'_>,
        table: &LedgerTable,
        ranges: &KeyRanges,
    ) -> bool {
        let live = self.of_table(client, table, Some(ranges));
        let mut places = ranges.ranges().iter().map(|range| *range as usize);
        places.all(|range| self.digests.ranges[range] == live.ranges[range])
    }

    fn of_table(
        &self,
        client: &SpiClient<'_>,
        table: &LedgerTable,
        only: Option<&KeyRanges>,
    ) -> Digests {
        let mut digests = Digests::new(self.digests.hasher.clone());
        let wanted = |key: &Hash| only.is_none_or(|only| only.have(key));
        let leaves = table.leaves(client, Sees::Latest);
        read(table, &leaves, Sees::Latest, &mut |row| {
            let key = row.key_hash();
            if wanted(&key) {
                digests.add(&key, row.bytes());
            }
        });
        digests
    }
}

/// The rows that base and history give for the ends of several blocks, ascending and none before
/// the base. Cost: one read of base and history, however many blocks.
pub fn states_told(client: &SpiClient<'_>, table: &LedgerTable, blocks: &[i64]) -> Vec<State> {
    let Some(last) = blocks.last() else {
        return Vec::new();
    };
    let mut states = States::new(&table.name, blocks);
    let changed = add_changes(&mut states, client, Sees::Latest, table, *last, &mut |_| ());
    read(table, &[table.base], Sees::Latest, &mut |row| {
        let until = changed.get(&short(&row.key_hash())).copied();
        states.add(table.base_block, until, row.bytes());
    });
    states.sum()
}

/// The state at the end of block `number`, not before the base: the running state at the last
/// block, `position`, with the changes since undone. `None` when what is kept there is no state.
/// Cost: a read of history and, where something changed since, of the base, whose rows are hashed
/// into lanes only where they changed.
pub fn state_before(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    number: i64,
    position: i64,
) -> Option<State> {
    let running = table.running_state()?;
    if number == position {
        return Some(running);
    }
    let blocks = [number, position];
    let mut states = States::new(&table.name, &blocks);
    let sees = Sees::Statement;
    let mut changed = add_changes(&mut states, client, sees, table, position, &mut |_| ());
    changed.retain(|_, first| *first > number);
    if !changed.is_empty() {
        read(table, &[table.base], sees, &mut |row| {
            if let Some(first) = changed.get(&short(&row.key_hash())) {
                states.add(table.base_block, Some(*first), row.bytes());
            }
        });
    }
    let changed_now = states.sum().pop()?;
    states.add_rest(&running, &changed_now);
    states.sum().into_iter().next()
}

/// The rows whose keys are `wanted`, at the end of block `number`, not before the base: the hash of
/// the key, and the texts of these columns. `position` is the last block. Cost: a read of the
/// table, or of base and history. Raises what the output functions of the types do.
pub fn texts_at(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    columns: &[&Column],
    (number, position): (i64, i64),
    wanted: &KeyRanges,
    f: &mut dyn FnMut(&Hash, &[Option<String>]),
) {
    let sees = Sees::Statement;
    if number == position {
        let leaves = table.leaves(client, sees);
        return read_texts(table, &leaves, columns, &|key| wanted.have(key), f);
    }
    // num_nulls, since IS NOT NULL looks into composite values; format prints without looking for
    // a cast.
    let shown = columns.iter().map(|Column { quoted, .. }| {
        format!(", CASE WHEN num_nulls((v).{quoted}) = 0 THEN format('%s', (v).{quoted}) END")
    });
    let sql = format!(
        "SELECT k, op <> 'D'{} FROM ({}) last",
        shown.collect::<String>(),
        table.last_changes(number)
    );
    let mut changed = HashSet::new();
    let mut rows = Cursor::open(client, sees, &sql, &[]);
    while let Some(row) = rows.next_row() {
        let key = key_hash(&row.bytes(1).unwrap_or_default());
        changed.insert(short(&key));
        if row.boolean(2) == Some(true) && wanted.have(&key) {
            let texts: Vec<_> = (0..columns.len()).map(|i| row.text(i + 3)).collect();
            f(&key, &texts);
        }
    }
    drop(rows);
    let wanted = |key: &Hash| wanted.have(key) && !changed.contains(&short(key));
    read_texts(table, &[table.base], columns, &wanted, f);
}

/// Where rows are whose keys are `wanted`, at most so many: partition and place of each. Cost: a
/// read of the table.
pub fn places_in(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    wanted: &KeyRanges,
    most: usize,
) -> Vec<(pg_sys::Oid, (u32, u16))> {
    let encoded = row_bytes::columns(table.id);
    let (mut places, mut key) = (Vec::new(), Vec::new());
    for leaf in table.leaves(client, Sees::Latest) {
        let relation = Relation::open(leaf, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &encoded).or_raise();
        relation.scan_seen(Sees::Latest, |tuple| {
            key.clear();
            encoder.key(tuple, &mut key);
            if places.len() < most && wanted.have(&key_hash(&key)) {
                places.extend(tuple.place().map(|place| (leaf, place)));
            }
        });
    }
    places
}

/// The rows of these relations that the statement sees, and whose keys are `wanted`.
fn read_texts(
    table: &LedgerTable,
    relations: &[pg_sys::Oid],
    columns: &[&Column],
    wanted: &dyn Fn(&Hash) -> bool,
    f: &mut dyn FnMut(&Hash, &[Option<String>]),
) {
    let encoded = row_bytes::columns(table.id);
    let mut key = Vec::new();
    for relation in relations {
        let relation = Relation::open(*relation, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &encoded).or_raise();
        let names = columns.iter().map(|column| column.name.as_str());
        let texts = CellTexts::new(&relation, names).or_raise();
        relation.scan_seen(Sees::Statement, |tuple| {
            key.clear();
            encoder.key(tuple, &mut key);
            let key = key_hash(&key);
            if wanted(&key) {
                f(&key, &texts.of(tuple));
            }
        });
    }
}

/// The table beside what base and history tell of it, under the statement's snapshot.
pub struct Compared {
    /// The state by a full scan.
    pub live: State,
    /// The rows that base and history give for the ends of the blocks asked for.
    pub told: Vec<State>,
}

impl Compared {
    /// `blocks` are ascending and none is before the base; the last is the one at whose end the
    /// table is. `seen` is told of how many rows were read.
    ///
    /// Cost: one read of table, base and history. Hashing a row into lanes is most of it, so rows
    /// that nothing changed since the base are hashed into them where they are live. Digests under
    /// a key drawn for the purpose show that they are the same in the base. Only where they are
    /// not, the base is read again.
    pub fn of(
        client: &SpiClient<'_>,
        table: &LedgerTable,
        blocks: &[i64],
        seen: &mut dyn FnMut(i64),
    ) -> Compared {
        let last = blocks.last().copied().unwrap_or(table.base_block);
        let secret = SecretHasher::new(&random::key());
        let (mut live_rows, mut told_rows) = (RangeDigest::default(), RangeDigest::default());
        let hasher = LaneHasher::new(&table.name);
        let mut live = State::default();
        let mut rows = 0;
        let mut count = |many: i64| {
            rows += many;
            if rows % ROWS_BETWEEN_NEWS == 0 {
                seen(rows);
            }
        };
        let leaves = table.leaves(client, Sees::Statement);
        read(table, &leaves, Sees::Statement, &mut |row| {
            let bytes = row.bytes();
            live.add(&hasher, bytes);
            live_rows.add(&secret.hash(bytes));
            count(1);
        });
        let mut states = States::new(&table.name, blocks);
        let changed = add_changes(
            &mut states,
            client,
            Sees::Statement,
            table,
            last,
            &mut |row| {
                told_rows.add(&secret.hash(row));
            },
        );
        read(table, &[table.base], Sees::Statement, &mut |row| {
            let until = changed.get(&short(&row.key_hash())).copied();
            match until {
                None => told_rows.add(&secret.hash(row.bytes())),
                Some(_) => states.add(table.base_block, until, row.bytes()),
            }
            count(1);
        });
        if told_rows == live_rows {
            // A live row that was not changed since the base is in it from the start.
            if let Some(changed) = states.sum().last() {
                states.add_rest(&live, changed);
            }
        } else {
            read(table, &[table.base], Sees::Statement, &mut |row| {
                if !changed.contains_key(&short(&row.key_hash())) {
                    states.add(table.base_block, None, row.bytes());
                }
            });
        }
        let told = states.sum();
        Compared { live, told }
    }
}

/// Rows read from one word about progress to the next.
const ROWS_BETWEEN_NEWS: i64 = 1_000;

/// Adds what history tells up to block `last`: each row from its change to the next of its key.
/// Gives the keys with the block of their first change, up to which a row of the base counts, and
/// tells `remaining` the rows that no later change replaces.
fn add_changes(
    states: &mut States<'_>,
    client: &SpiClient<'_>,
    sees: Sees,
    table: &LedgerTable,
    last: i64,
    remaining: &mut dyn FnMut(&[u8]),
) -> HashMap<u128, i64> {
    let mut first_changes = HashMap::new();
    let sql = format!(
        "SELECT k, op <> 'D', chainify_ledger.encoded_row({}, v), b, until, first FROM ({}) changes",
        table.id,
        table.changes_with_next(last)
    );
    let mut rows = Cursor::open(client, sees, &sql, &[]);
    while let Some(row) = rows.next_row() {
        let (from, until) = (row.bigint(4).unwrap_or_default(), row.bigint(5));
        if row.boolean(6) == Some(true) {
            let key = key_hash(&row.bytes(1).unwrap_or_default());
            first_changes.insert(short(&key), from);
        }
        if row.boolean(2) == Some(true) {
            let bytes = row.bytes(3).unwrap_or_default();
            states.add(from, until, &bytes);
            if until.is_none() {
                remaining(&bytes);
            }
        }
    }
    first_changes
}

/// Those of these canonical keys of which the table has a row, whatever its indexes say. Cost: one
/// read of it, where there are keys.
pub fn keys_there(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    keys: &HashSet<Vec<u8>>,
) -> HashSet<Vec<u8>> {
    let mut there = HashSet::new();
    if keys.is_empty() {
        return there;
    }
    let leaves = table.leaves(client, Sees::Latest);
    read(table, &leaves, Sees::Latest, &mut |row| {
        let key = row.key();
        if keys.contains(key) {
            there.insert(key.to_vec());
        }
    });
    there
}

/// The state by a full scan of the table as this transaction sees it now.
pub fn live_state(client: &SpiClient<'_>, table: &LedgerTable) -> State {
    let hasher = LaneHasher::new(&table.name);
    let mut state = State::default();
    let leaves = table.leaves(client, Sees::Latest);
    read(table, &leaves, Sees::Latest, &mut |row| {
        state.add(&hasher, row.bytes())
    });
    state
}

/// A digest for each range of keys, under one secret key.
struct Digests {
    hasher: SecretHasher,
    ranges: Vec<RangeDigest>,
}

impl Digests {
    fn new(hasher: SecretHasher) -> Self {
        Digests {
            hasher,
            ranges: vec![RangeDigest::default(); 1 << SCAN_BITS],
        }
    }

    fn add(&mut self, key: &Hash, row: &[u8]) {
        let range = key_hash_range(key, SCAN_BITS) as usize;
        self.ranges[range].add(&self.hasher.hash(row));
    }
}

/// Enough of a key's hash to tell keys apart. Two that agreed in it would give another state than
/// the certified one.
fn short(key: &Hash) -> u128 {
    key.iter()
        .take(16)
        .fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

/// A row read from its page.
struct Row<'a> {
    encoder: &'a RowEncoder,
    tuple: &'a Tuple<'a>,
    buffer: &'a mut Vec<u8>,
    /// The whole row, where it was written before.
    whole: Option<&'a [u8]>,
}

impl Row<'_> {
    fn key(&mut self) -> &[u8] {
        self.buffer.clear();
        self.encoder.key(self.tuple, self.buffer);
        self.buffer
    }

    fn key_hash(&mut self) -> Hash {
        key_hash(self.key())
    }

    fn bytes(&mut self) -> &[u8] {
        if let Some(whole) = self.whole {
            return whole;
        }
        self.buffer.clear();
        self.encoder.row(self.tuple, self.buffer);
        self.buffer
    }
}

/// Every row of these relations that `sees` says, and that can be read.
fn read(
    table: &LedgerTable,
    relations: &[pg_sys::Oid],
    sees: Sees,
    f: &mut dyn FnMut(&mut Row<'_>),
) {
    let columns = row_bytes::columns(table.id);
    let (mut buffer, mut written) = (Vec::new(), Vec::new());
    for relation in relations {
        let relation = Relation::open(*relation, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &columns).or_raise();
        relation.scan_seen(sees, |tuple| {
            let mut whole = None;
            if tuple.has_values_outside() {
                written.clear();
                if damaged_rows::row(&encoder, tuple, &mut written).is_err() {
                    return;
                }
                whole = Some(&written[..]);
            }
            f(&mut Row {
                encoder: &encoder,
                tuple,
                buffer: &mut buffer,
                whole,
            })
        });
    }
}
