//! Makes a transaction's write set from the changes that the session made.

use std::collections::{BTreeMap, BTreeSet};

use crate::write_set::{columns, Action, Bound, Change, Isolation, Read, SeenRow, WriteSet};
use crate::{Hash, WireError};

/// NULL in a cell: tag 00 with length 0.
const NULL: [u8; 5] = [0; 5];

/// One thing that a session did to a row of a ledger table. All in the order of the session.
pub enum Event<'a> {
    /// It changed the row with this key, as [`action`] says.
    Changed {
        /// `schema.name`, unquoted.
        table: &'a str,
        /// The primary key.
        key: &'a [u8],
        /// The change.
        action: &'a Action,
    },
    /// It locked the row with this key, or wrote it as it was.
    Seen {
        /// `schema.name`, unquoted.
        table: &'a str,
        /// The primary key.
        key: &'a [u8],
        /// The row hash.
        hash: Hash,
    },
}

impl Event<'_> {
    fn table(&self) -> &str {
        match self {
            Self::Changed { table, .. } | Self::Seen { table, .. } => table,
        }
    }
}

/// Reads of one table that are kept apart; with more it counts as read whole.
const READS_OF_TABLE_MAX: usize = 64;
/// Reads that are kept apart; with more each table counts as read whole.
const READS_MAX: usize = 512;

/// The reads of a SERIALIZABLE transaction, by table: bounds of columns. A table with a read
/// without bounds has no other one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads(BTreeMap<String, BTreeSet<Vec<Bound>>>);

impl Reads {
    /// Adds a read of the rows within the bounds, which ascend by ordinal; of all rows without any.
    /// Cost: a look-up among the reads.
    pub fn add(&mut self, table: &str, bounds: Vec<Bound>) {
        let count: usize = self.0.values().map(BTreeSet::len).sum();
        if !self.0.contains_key(table) {
            self.0.insert(table.to_owned(), BTreeSet::new());
        }
        let Some(reads) = self.0.get_mut(table) else { return };
        if reads.contains(&Vec::new()) {
            return;
        }
        if bounds.is_empty() || reads.len() >= READS_OF_TABLE_MAX || count >= READS_MAX {
            *reads = [Vec::new()].into();
        } else {
            reads.insert(bounds);
        }
    }

    /// Each table with the bounds of its reads.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &BTreeSet<Vec<Bound>>)> {
        self.0.iter().map(|(table, reads)| (table.as_str(), reads))
    }
}

/// A row that a read looked for by its key.
pub struct Found {
    /// `schema.name`, unquoted.
    pub table: String,
    /// The primary key.
    pub key: Vec<u8>,
    /// Its row hash; `None`: there was none.
    pub hash: Option<Hash>,
}

/// The write set of a session's transaction; None when it changed nothing. A row that it locked, or
/// wrote as it was, counts as seen unless the transaction had changed it before, and so does one
/// that its reads found. `reads` and `found` count in SERIALIZABLE alone. Cost: one copy of all
/// changes.
pub fn write_set(
    snapshot: u64,
    isolation: Isolation,
    events: &[Event<'_>],
    reads: &Reads,
    found: &[Found],
) -> Option<WriteSet> {
    let serializable = isolation == Isolation::Serializable;
    let read_tables = reads.tables().map(|(table, _)| table).chain(found.iter().map(|row| row.table.as_str()));
    let names = events.iter().map(|event| event.table()).chain(read_tables.filter(|_| serializable));
    let tables: BTreeSet<&str> = names.collect();
    let number: BTreeMap<&str, u16> = tables.iter().copied().zip(0..=u16::MAX).collect();
    let mut changed: BTreeSet<(u16, &[u8])> = BTreeSet::new();
    let mut seen: BTreeMap<(u16, &[u8]), Option<Hash>> = BTreeMap::new();
    let mut changes = Vec::new();
    for event in events {
        let table = number.get(event.table()).copied().unwrap_or(u16::MAX);
        let (key, hash) = match event {
            Event::Seen { key, hash, .. } => (*key, *hash),
            Event::Changed { key, action, .. } => {
                changed.insert((table, key));
                changes.push(Change { table, action: (*action).clone() });
                continue;
            }
        };
        if !changed.contains(&(table, key)) {
            seen.insert((table, key), Some(hash));
        }
    }
    for row in found.iter().filter(|_| serializable) {
        let place = (number.get(row.table.as_str()).copied().unwrap_or(u16::MAX), row.key.as_slice());
        if !changed.contains(&place) {
            seen.entry(place).or_insert(row.hash);
        }
    }
    if changes.is_empty() {
        return None;
    }
    let seen = seen.into_iter().map(|((table, key), hash)| SeenRow { table, key: key.to_vec(), hash });
    let of_table = |(table, reads)| {
        let table = number.get(table).copied().unwrap_or(u16::MAX);
        let read = move |bounds: &Vec<Bound>| Read { table, bounds: bounds.clone() };
        BTreeSet::iter(reads).map(read)
    };
    let mut reads: Vec<Read> = reads.tables().filter(|_| serializable).flat_map(of_table).collect();
    reads.sort_by_cached_key(Read::encode);
    let tables = tables.into_iter().map(str::to_owned).collect();
    Some(used(WriteSet { snapshot, isolation, tables, changes, seen: seen.collect(), reads }))
}

/// The change of the row with this key, from its encodings before, with the hash of that, and
/// after; None when it stays as it was. Err: a row that is not encoded as rows are. Cost: copies
/// the values that differ.
pub fn action(key: &[u8], before: Option<(&[u8], Hash)>, after: Option<&[u8]>) -> Result<Option<Action>, WireError> {
    Ok(match (before, after) {
        (None, None) => None,
        (None, Some(row)) => Some(Action::Insert { row: row.to_vec() }),
        (Some((_, before)), None) => Some(Action::Delete { before, key: key.to_vec() }),
        (Some((row, before)), Some(after)) => {
            let cells = cells(row, after)?;
            let update = || Action::Update { before, key: key.to_vec(), cells };
            (row != after).then(update)
        }
    })
}

/// The columns whose values differ, with the values after.
fn cells(before: &[u8], after: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, WireError> {
    let by_ordinal = |row| columns(row).map(BTreeMap::from_iter);
    let (before, after) = (by_ordinal(before)?, by_ordinal(after)?);
    let ordinals: BTreeSet<u16> = before.keys().chain(after.keys()).copied().collect();
    let differing = ordinals.into_iter().filter(|ordinal| before.get(ordinal) != after.get(ordinal));
    let value = |ordinal| after.get(&ordinal).map_or_else(|| NULL.to_vec(), |value| value.to_vec());
    Ok(differing.map(|ordinal| (ordinal, value(ordinal))).collect())
}

/// Leaves out tables of which nothing is left.
fn used(mut set: WriteSet) -> WriteSet {
    let of_changes = set.changes.iter().map(|change| change.table);
    let of_rows = set.seen.iter().map(|row| row.table);
    let kept: BTreeSet<u16> = of_changes.chain(of_rows).chain(set.reads.iter().map(|read| read.table)).collect();
    let number = |table: u16| kept.range(..table).count() as u16;
    set.changes.iter_mut().for_each(|change| change.table = number(change.table));
    set.seen.iter_mut().for_each(|row| row.table = number(row.table));
    set.reads.iter_mut().for_each(|read| read.table = number(read.table));
    let mut at = 0..;
    set.tables.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
    set
}

#[cfg(test)]
mod tests {
    use chainify_codec::{row_hash, value, RowWriter, ValueError};

    use super::*;
    use crate::write_set::End;

    fn row(columns: &[(u16, i64)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = RowWriter::begin(&mut out);
        for (ordinal, number) in columns {
            writer
                .column(*ordinal, |out| {
                    value::int(out, *number);
                    Ok::<_, ValueError>(())
                })
                .expect("numbers have an encoding");
        }
        writer.finish();
        out
    }

    fn int(number: i64) -> Vec<u8> {
        let mut out = Vec::new();
        value::int(&mut out, number);
        out
    }

    fn hash(row: &[u8]) -> Hash {
        row_hash("public.a", row)
    }

    fn change(key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> Option<Action> {
        action(key, before.map(|row| (row, hash(row))), after).expect("the rows are well formed")
    }

    fn inserted(row: &[u8]) -> Action {
        Action::Insert { row: row.to_vec() }
    }

    fn set(events: &[Event<'_>]) -> Option<WriteSet> {
        let set = write_set(7, Isolation::ReadCommitted, events, &Reads::default(), &[]);
        if let Some(set) = &set {
            assert_eq!(WriteSet::decode(&set.encode()).as_ref(), Ok(set), "a write set decodes to itself");
        }
        set
    }

    #[test]
    fn an_update_names_the_columns_that_differ() {
        let (key, before, after) = (row(&[(1, 1)]), row(&[(1, 1), (2, 5), (3, 9)]), row(&[(1, 1), (3, 8), (4, 2)]));
        let cells = vec![(2, NULL.to_vec()), (3, int(8)), (4, int(2))];
        let action = Action::Update { before: hash(&before), key: key.clone(), cells };
        assert_eq!(change(&key, Some(&before), Some(&after)), Some(action));
        assert_eq!(change(&key, Some(&before), Some(&before)), None, "a row written as it was");
    }

    #[test]
    fn a_row_written_as_it_was_is_seen() {
        let (key, same, other) = (row(&[(1, 1)]), row(&[(1, 1), (2, 5)]), row(&[(1, 2)]));
        let kept = |key| Event::Seen { table: "public.a", key, hash: hash(&same) };
        assert_eq!(set(&[kept(&key)]), None, "no change");
        let insert = inserted(&other);
        let insert = Event::Changed { table: "public.b", key: &other, action: &insert };
        let built = set(&[insert, kept(&key)]).expect("there is a change");
        assert_eq!(built.seen, [SeenRow { table: 0, key: key.clone(), hash: Some(hash(&same)) }]);
        assert_eq!(built.tables, ["public.a", "public.b"]);
    }

    #[test]
    fn a_row_that_the_transaction_changed_is_not_seen() {
        let (key, one, two) = (row(&[(1, 1)]), row(&[(1, 1), (2, 1)]), row(&[(1, 1), (2, 2)]));
        let actions = [(None, Some(&one)), (Some(&one), Some(&two)), (Some(&two), None)];
        let actions = actions.map(|(before, after)| {
            change(&key, before.map(Vec::as_slice), after.map(Vec::as_slice)).expect("the row is another")
        });
        let [insert, update, delete] =
            [0, 1, 2].map(|at| Event::Changed { table: "public.a", key: &key, action: &actions[at] });
        let lock = Event::Seen { table: "public.a", key: &key, hash: hash(&two) };
        let built = set(&[insert, update, lock, delete]).expect("there are changes");
        assert_eq!(built.changes.len(), 3);
        assert_eq!(built.seen, []);
    }

    #[test]
    fn sizes_are_those_of_the_encoding() {
        let (key, one, two) = (row(&[(1, 1)]), row(&[(1, 1), (2, 1)]), row(&[(1, 1), (2, 2), (3, 4)]));
        for (before, after) in [(None, Some(&one)), (Some(&one), Some(&two)), (Some(&two), None)] {
            let action = change(&key, before.map(Vec::as_slice), after.map(Vec::as_slice)).expect("another row");
            let event = || Event::Changed { table: "public.a", key: &key, action: &action };
            let bytes = |count: usize| {
                let events: Vec<_> = (0..count).map(|_| event()).collect();
                set(&events).expect("there are changes").encode().len()
            };
            assert_eq!(action.encoded_len(), bytes(2) - bytes(1), "{action:?}");
        }
    }

    fn from(ordinal: u16, number: i64) -> Vec<Bound> {
        vec![Bound { ordinal, lower: End::Closed(int(number)), upper: End::None }]
    }

    #[test]
    fn a_serializable_transaction_names_what_it_read() {
        let key = row(&[(1, 1)]);
        let insert = inserted(&key);
        let insert = || Event::Changed { table: "public.b", key: &key, action: &insert };
        let mut reads = Reads::default();
        [300, 2, -1].into_iter().for_each(|number| reads.add("public.a", from(2, number)));
        reads.add("public.c", vec![]);
        let found = |table: &str, hash| Found { table: table.to_owned(), key: key.clone(), hash };
        let found = [found("public.b", Some([9; 32])), found("public.d", None)];
        let built = |isolation| write_set(7, isolation, &[insert()], &reads, &found);
        let set = built(Isolation::Serializable).expect("there is a change");
        assert_eq!(set.tables, ["public.a", "public.b", "public.c", "public.d"]);
        assert_eq!(set.reads.len(), 4);
        assert!(set.reads.contains(&Read { table: 2, bounds: vec![] }));
        assert_eq!(set.seen, [SeenRow { table: 3, key: key.clone(), hash: None }], "its own insert is not seen");
        assert_eq!(WriteSet::decode(&set.encode()).as_ref(), Ok(&set));
        let weaker = built(Isolation::RepeatableRead).expect("there is a change");
        assert_eq!((weaker.tables, weaker.seen, weaker.reads), (vec!["public.b".to_owned()], vec![], vec![]));
    }

    #[test]
    fn a_table_read_in_many_ways_is_read_whole() {
        let mut reads = Reads::default();
        (0..READS_OF_TABLE_MAX as i64).for_each(|number| reads.add("public.a", from(1, number)));
        reads.add("public.b", from(1, 0));
        let count =
            |reads: &Reads, table| reads.tables().find(|(name, _)| *name == table).map(|(_, reads)| reads.clone());
        assert_eq!(count(&reads, "public.a").map(|reads| reads.len()), Some(READS_OF_TABLE_MAX));
        reads.add("public.a", from(1, -1));
        assert_eq!(count(&reads, "public.a"), Some([vec![]].into()));
        assert_eq!(count(&reads, "public.b"), Some([from(1, 0)].into()));
        reads.add("public.b", vec![]);
        reads.add("public.b", from(1, 1));
        assert_eq!(count(&reads, "public.b"), Some([vec![]].into()));
    }

    #[test]
    fn a_row_seen_that_the_transaction_made_is_left_out() {
        let (key, row_key) = (row(&[(1, 1), (2, 1)]), row(&[(1, 1)]));
        let action = inserted(&key);
        let in_b = Event::Changed { table: "public.b", key: &row_key, action: &action };
        let lock = Event::Seen { table: "public.b", key: &row_key, hash: hash(&key) };
        let built = set(&[in_b, lock]).expect("there is a change");
        assert_eq!(built.tables, ["public.b"]);
        assert_eq!(built.seen, [], "the lock is of a row that the transaction made");
    }
}
