//! From the changes that a session made to the write set that its transaction carries.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::Reader;
use crate::write_set::{Action, Change, Isolation, Read, SeenRow, WriteSet};
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

/// The write set of a session's transaction; None when it changed nothing. A row that it locked, or
/// wrote as it was, counts as seen unless the transaction had changed it before. `reads` are the
/// tables that a SERIALIZABLE transaction read, each as a whole. Err: a row that is not encoded as
/// rows are. Cost: one copy of all rows after.
pub fn write_set(
    snapshot: u64,
    isolation: Isolation,
    events: &[Event<'_>],
    reads: &BTreeSet<String>,
) -> Result<Option<WriteSet>, WireError> {
    let read_tables = reads.iter().filter(|_| isolation == Isolation::Serializable).map(String::as_str);
    let names = events.iter().map(|event| event.table()).chain(read_tables.clone());
    let tables: BTreeSet<&str> = names.collect();
    let number: BTreeMap<&str, u16> = tables.iter().copied().zip(0..=u16::MAX).collect();
    let mut changed: BTreeSet<(u16, &[u8])> = BTreeSet::new();
    let mut seen: BTreeMap<(u16, &[u8]), Hash> = BTreeMap::new();
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
            seen.insert((table, key), hash);
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let seen = seen.into_iter().map(|((table, key), hash)| SeenRow { table, key: key.to_vec(), hash: Some(hash) });
    let whole = |table: &str| number.get(table).map(|table| Read { table: *table, bounds: Vec::new() });
    let reads = read_tables.filter_map(whole).collect();
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
    let (before, after) = (columns(before)?, columns(after)?);
    let ordinals: BTreeSet<u16> = before.keys().chain(after.keys()).copied().collect();
    let differing = ordinals.into_iter().filter(|ordinal| before.get(ordinal) != after.get(ordinal));
    let value = |ordinal| after.get(&ordinal).map_or_else(|| NULL.to_vec(), |value| value.to_vec());
    Ok(differing.map(|ordinal| (ordinal, value(ordinal))).collect())
}

/// The columns of a row that are not NULL, with their values.
fn columns(row: &[u8]) -> Result<BTreeMap<u16, &[u8]>, WireError> {
    let mut reader = Reader::new(row);
    let count = reader.u16("row")?;
    let mut columns = BTreeMap::new();
    for _ in 0..count {
        let ordinal = reader.u16("row")?;
        columns.insert(ordinal, reader.value("row")?);
    }
    reader.end("row")?;
    Ok(columns)
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
        let set = write_set(7, Isolation::ReadCommitted, events, &BTreeSet::new()).expect("the rows are well formed");
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

    #[test]
    fn a_serializable_transaction_names_the_tables_that_it_read() {
        let key = row(&[(1, 1)]);
        let insert = || Event::Changed { table: "public.b", key: &key, before: None, after: Some(&key) };
        let reads = ["public.a".to_owned(), "public.c".to_owned()].into();
        let built = |isolation| write_set(7, isolation, &[insert()], &reads).expect("rows are well formed");
        let set = built(Isolation::Serializable).expect("there is a change");
        assert_eq!(set.tables, ["public.a", "public.b", "public.c"]);
        let whole = |table| Read { table, bounds: vec![] };
        assert_eq!(set.reads, [whole(0), whole(2)]);
        assert_eq!(WriteSet::decode(&set.encode()).as_ref(), Ok(&set));
        assert_eq!(built(Isolation::RepeatableRead).map(|set| set.tables), Some(vec!["public.b".to_owned()]));
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
