//! From the changes that a session made to the write set that its transaction carries.

use std::collections::{BTreeMap, BTreeSet};

use crate::write_set::{columns, Action, Bound, Change, Isolation, Read, SeenRow, WriteSet};
use crate::{Hash, WireError};

/// NULL in a cell: tag 00 with length 0.
const NULL: [u8; 5] = [0; 5];

/// A row as the session had it: its encoding (`chainify_codec`) and the hash of that.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    /// The row.
    pub row: &'a [u8],
    /// Its row hash.
    pub hash: Hash,
}

/// One thing that a session did to a row of a ledger table. All in the order of the session.
pub enum Event<'a> {
    /// It changed the row with this key. An insert has no `before`, a delete no `after`; an update
    /// has both, of one key.
    Changed {
        /// `schema.name`, unquoted.
        table: &'a str,
        /// The primary key.
        key: &'a [u8],
        /// The row before.
        before: Option<Image<'a>>,
        /// The row after.
        after: Option<&'a [u8]>,
    },
    /// It locked the row with this key.
    Locked {
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
            Self::Changed { table, .. } | Self::Locked { table, .. } => table,
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
/// that its reads found. `reads` and `found` count in SERIALIZABLE alone. Err: a row that is not
/// encoded as rows are. Cost: one copy of all rows after.
pub fn write_set(
    snapshot: u64,
    isolation: Isolation,
    events: &[Event<'_>],
    reads: &Reads,
    found: &[Found],
) -> Result<Option<WriteSet>, WireError> {
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
            Event::Locked { key, hash, .. } => (*key, *hash),
            Event::Changed { before: None, after: None, .. } => continue,
            Event::Changed { key, before, after, .. } => match action(key, before, *after)? {
                Some(action) => {
                    changed.insert((table, key));
                    changes.push(Change { table, action });
                    continue;
                }
                None => (*key, before.map_or([0; 32], |image| image.hash)),
            },
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
        return Ok(None);
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
    Ok(Some(used(WriteSet { snapshot, isolation, tables, changes, seen: seen.collect(), reads })))
}

/// The change of a row; None when it stays as it was.
fn action(key: &[u8], before: &Option<Image<'_>>, after: Option<&[u8]>) -> Result<Option<Action>, WireError> {
    Ok(match (before, after) {
        (None, None) => None,
        (None, Some(row)) => Some(Action::Insert { row: row.to_vec() }),
        (Some(before), None) => Some(Action::Delete { before: before.hash, key: key.to_vec() }),
        (Some(before), Some(after)) => {
            let cells = cells(before.row, after)?;
            let update = || Action::Update { before: before.hash, key: key.to_vec(), cells };
            (before.row != after).then(update)
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

    fn image(row: &[u8]) -> Image<'_> {
        Image { row, hash: row_hash("public.a", row) }
    }

    fn set(events: &[Event<'_>]) -> Option<WriteSet> {
        let set =
            write_set(7, Isolation::ReadCommitted, events, &Reads::default(), &[]).expect("the rows are well formed");
        if let Some(set) = &set {
            assert_eq!(WriteSet::decode(&set.encode()).as_ref(), Ok(set), "a write set decodes to itself");
        }
        set
    }

    #[test]
    fn an_update_names_the_columns_that_differ() {
        let (key, before, after) = (row(&[(1, 1)]), row(&[(1, 1), (2, 5), (3, 9)]), row(&[(1, 1), (3, 8), (4, 2)]));
        let events =
            [Event::Changed { table: "public.a", key: &key, before: Some(image(&before)), after: Some(&after) }];
        let cells = vec![(2, NULL.to_vec()), (3, int(8)), (4, int(2))];
        let action = Action::Update { before: row_hash("public.a", &before), key: key.clone(), cells };
        assert_eq!(set(&events).expect("there is a change").changes, [Change { table: 0, action }]);
    }

    #[test]
    fn a_row_written_as_it_was_is_seen() {
        let (key, same, other) = (row(&[(1, 1)]), row(&[(1, 1), (2, 5)]), row(&[(1, 2)]));
        let kept =
            |key| Event::Changed { table: "public.a", key, before: Some(image(&same)), after: Some(same.as_slice()) };
        assert_eq!(set(&[kept(&key)]), None, "no change");
        let insert = || Event::Changed { table: "public.b", key: &other, before: None, after: Some(&other) };
        let built = set(&[insert(), kept(&key)]).expect("there is a change");
        assert_eq!(built.seen, [SeenRow { table: 0, key: key.clone(), hash: Some(image(&same).hash) }]);
        assert_eq!(built.tables, ["public.a", "public.b"]);
    }

    #[test]
    fn a_row_that_the_transaction_changed_is_not_seen() {
        let (key, one, two) = (row(&[(1, 1)]), row(&[(1, 1), (2, 1)]), row(&[(1, 1), (2, 2)]));
        let insert = Event::Changed { table: "public.a", key: &key, before: None, after: Some(&one) };
        let update = Event::Changed { table: "public.a", key: &key, before: Some(image(&one)), after: Some(&two) };
        let lock = Event::Locked { table: "public.a", key: &key, hash: image(&two).hash };
        let delete = Event::Changed { table: "public.a", key: &key, before: Some(image(&two)), after: None };
        let built = set(&[insert, update, lock, delete]).expect("there are changes");
        assert_eq!(built.changes.len(), 3);
        assert_eq!(built.seen, []);
    }

    fn from(ordinal: u16, number: i64) -> Vec<Bound> {
        vec![Bound { ordinal, lower: End::Closed(int(number)), upper: End::None }]
    }

    #[test]
    fn a_serializable_transaction_names_what_it_read() {
        let key = row(&[(1, 1)]);
        let insert = || Event::Changed { table: "public.b", key: &key, before: None, after: Some(&key) };
        let mut reads = Reads::default();
        [300, 2, -1].into_iter().for_each(|number| reads.add("public.a", from(2, number)));
        reads.add("public.c", vec![]);
        let found = |table: &str, hash| Found { table: table.to_owned(), key: key.clone(), hash };
        let found = [found("public.b", Some([9; 32])), found("public.d", None)];
        let built = |isolation| write_set(7, isolation, &[insert()], &reads, &found).expect("rows are well formed");
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
    fn a_table_without_change_or_row_seen_is_left_out() {
        let (key, row_key) = (row(&[(1, 1), (2, 1)]), row(&[(1, 1)]));
        let in_b = Event::Changed { table: "public.b", key: &row_key, before: None, after: Some(&key) };
        let unchanged = Event::Changed { table: "public.c", key: &row_key, before: None, after: None };
        let lock = Event::Locked { table: "public.b", key: &row_key, hash: image(&key).hash };
        let built = set(&[in_b, lock, unchanged]).expect("there is a change");
        assert_eq!(built.tables, ["public.b"]);
        assert_eq!(built.seen, [], "the lock is of a row that the transaction made");
    }
}
