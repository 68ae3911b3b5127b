//! Write sets: the changes that a transaction made in its client's own database, with the rows that
//! it saw. An EFFECTS transaction carries one: `spec/formats.md`, "EFFECTS transactions".
//!
//! A write set names tables, rows and columns, and contains no text of statements.

mod pieces;
mod reads;

use chainify_codec::{decode_row, decode_value};
pub use pieces::columns;
use pieces::{check_count, check_tag, put_prefixed, put_u16, put_u32, read_count, read_ordinal, read_table};
pub use reads::{Bound, End, Known, Read, BOUNDS_MAX, READS_MAX};

use crate::names::check_table;
use crate::read::Reader;
use crate::{Hash, WireError};

/// Bytes of a write set, which travels in a proposal.
pub const WRITE_SET_BYTES_MAX: usize = 524_288;
/// Tables of a write set.
pub const TABLES_MAX: usize = 1_000;

const VERSION: u8 = 1;
/// The encoding of NULL: tag 00 with length 0.
const NULL: [u8; 5] = [0; 5];

/// The fewest bytes of `lp(name)`: a name has a dot inside.
const TABLE_BYTES_MIN: usize = 4 + 3;
/// The fewest bytes of a row: one column with an empty value.
const ROW_BYTES_MIN: usize = 2 + 2 + 5;
/// The fewest bytes of a change: an insert.
const CHANGE_BYTES_MIN: usize = 2 + 1 + 4 + ROW_BYTES_MIN;
/// The fewest bytes of a row seen: one that is absent.
const SEEN_BYTES_MIN: usize = 2 + 4 + ROW_BYTES_MIN + 1;
/// The fewest bytes of a cell: an ordinal with NULL.
const CELL_BYTES_MIN: usize = 2 + NULL.len();

/// The level at which the client's session ran the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isolation {
    /// READ COMMITTED
    ReadCommitted = 1,
    /// REPEATABLE READ
    RepeatableRead = 2,
    /// SERIALIZABLE
    Serializable = 3,
}

/// The effects that a transaction asks every organisation to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSet {
    /// The last block that the first statement of the transaction saw; 0 before block 1.
    pub snapshot: u64,
    /// Its isolation level.
    pub isolation: Isolation,
    /// `schema.name`, unquoted, ascending by bytes. Each is used by a change, a row seen or a read.
    pub tables: Vec<String>,
    /// In the order in which the transaction made them; a row may change more than once.
    pub changes: Vec<Change>,
    /// Ascending by table and key, each row once.
    pub seen: Vec<SeenRow>,
    /// Ascending by their bytes, each once. There are some in SERIALIZABLE alone.
    pub reads: Vec<Read>,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index in [`WriteSet::tables`].
    pub table: u16,
    /// The change.
    pub action: Action,
}

/// The change of a row. Rows and keys are encoded as `chainify_codec` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A row that was not there.
    Insert {
        /// The row after, of at least one column.
        row: Vec<u8>,
    },
    /// Other values in some columns.
    Update {
        /// Row hash of the row before.
        before: Hash,
        /// The primary key.
        key: Vec<u8>,
        /// Ordinal and whole value (`tag ‖ length ‖ payload`) of each changed column, ascending by
        /// ordinal. NULL is tag 00 with length 0.
        cells: Vec<(u16, Vec<u8>)>,
    },
    /// The end of a row.
    Delete {
        /// Row hash of the row before.
        before: Hash,
        /// The primary key.
        key: Vec<u8>,
    },
}

impl Action {
    /// Bytes of a change with this action in an encoded write set.
    pub fn encoded_len(&self) -> usize {
        let body = match self {
            Self::Insert { row } => 4 + row.len(),
            Self::Update { before, key, cells } => {
                let cells: usize = cells.iter().map(|(_, value)| 2 + value.len()).sum();
                before.len() + 4 + key.len() + 2 + cells
            }
            Self::Delete { before, key } => before.len() + 4 + key.len(),
        };
        2 + 1 + body
    }
}

/// A row that the transaction looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRow {
    /// Index in [`WriteSet::tables`].
    pub table: u16,
    /// The primary key.
    pub key: Vec<u8>,
    /// The row hash; `None`: there was no such row.
    pub hash: Option<Hash>,
}

impl WriteSet {
    /// Decodes and checks a write set; one spelling is accepted, of canonical values only. Errors
    /// name the place: `effects.changes[3].cells`. Cost: linear in the bytes, with one copy of
    /// them; JSON and numbers are parsed.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let set = Self::decode_structure(bytes)?;
        set.check_values()?;
        Ok(set)
    }

    /// The same but for the payloads of values: all that the order checks. A transaction whose
    /// write set passes this and no more is executed, and fails. Cost: linear in the bytes, with
    /// one copy of them.
    pub fn decode_structure(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > WRITE_SET_BYTES_MAX {
            return Err(WireError::new("effects", format!("longer than {WRITE_SET_BYTES_MAX} bytes")));
        }
        let mut reader = Reader::new(bytes);
        let set = Self::read(&mut reader).map_err(|error| error.within("effects"))?;
        reader.end("effects")?;
        set.check_uses().map_err(|error| error.within("effects"))?;
        Ok(set)
    }

    /// Checks that every value is canonical. Cost: linear; JSON and numbers are parsed.
    pub fn check_values(&self) -> Result<(), WireError> {
        for (i, change) in self.changes.iter().enumerate() {
            change.check_values().map_err(|error| error.within(&format!("effects.changes[{i}]")))?;
        }
        for (i, row) in self.seen.iter().enumerate() {
            check_row("pk", &row.key).map_err(|error| error.within(&format!("effects.seen[{i}]")))?;
        }
        for (i, read) in self.reads.iter().enumerate() {
            read.check_values().map_err(|error| error.within(&format!("effects.reads[{i}]")))?;
        }
        Ok(())
    }

    /// The bytes of a write set. Those of one that breaks a rule of its fields do not decode.
    /// Cost: one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.snapshot.to_be_bytes());
        out.push(self.isolation as u8);
        put_u16(&mut out, self.tables.len());
        self.tables.iter().for_each(|table| put_prefixed(&mut out, table.as_bytes()));
        put_u32(&mut out, self.changes.len());
        self.changes.iter().for_each(|change| change.write(&mut out));
        put_u32(&mut out, self.seen.len());
        self.seen.iter().for_each(|row| row.write(&mut out));
        put_u32(&mut out, self.reads.len());
        self.reads.iter().for_each(|read| read.write(&mut out));
        out
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(WireError::new("version", format!("is {version}, want {VERSION}")));
        }
        let snapshot = reader.u64("snapshot")?;
        let isolation = read_isolation(reader)?;
        let tables = read_tables(reader)?;
        let count = read_count(reader, "changes", CHANGE_BYTES_MIN)?;
        let changes = (0..count)
            .map(|i| Change::read(reader, &tables).map_err(|error| error.within(&format!("changes[{i}]"))))
            .collect::<Result<_, _>>()?;
        let seen = read_seen(reader, &tables)?;
        let reads = reads::read_reads(reader, &tables)?;
        if !reads.is_empty() && isolation != Isolation::Serializable {
            return Err(WireError::new("reads", "are there though the isolation is not SERIALIZABLE"));
        }
        Ok(Self { snapshot, isolation, tables, changes, seen, reads })
    }

    fn check_uses(&self) -> Result<(), WireError> {
        let mut used = vec![false; self.tables.len()];
        let by_rows = self.changes.iter().map(|change| change.table).chain(self.seen.iter().map(|row| row.table));
        by_rows.chain(self.reads.iter().map(|read| read.table)).for_each(|table| used[usize::from(table)] = true);
        match used.iter().position(|used| !used) {
            Some(unused) => {
                Err(WireError::new(format!("tables[{unused}]"), "is used by no change, no row seen and no read"))
            }
            None => Ok(()),
        }
    }
}

impl Change {
    fn read(reader: &mut Reader<'_>, tables: &[String]) -> Result<Self, WireError> {
        let table = read_table(reader, tables)?;
        let action = match reader.u8("op")? {
            b'I' => Action::Insert { row: read_row(reader, "row")? },
            b'U' => {
                let (before, key) = (reader.hash("before")?, read_row(reader, "pk")?);
                Action::Update { before, key, cells: read_cells(reader)? }
            }
            b'D' => Action::Delete { before: reader.hash("before")?, key: read_row(reader, "pk")? },
            op => return Err(WireError::new("op", format!("is {op}, want I, U or D"))),
        };
        Ok(Self { table, action })
    }

    fn check_values(&self) -> Result<(), WireError> {
        match &self.action {
            Action::Insert { row } => check_row("row", row),
            Action::Update { key, cells, .. } => {
                check_row("pk", key)?;
                cells.iter().try_for_each(|(ordinal, value)| check_cell(*ordinal, value))
            }
            Action::Delete { key, .. } => check_row("pk", key),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_be_bytes());
        match &self.action {
            Action::Insert { row } => {
                out.push(b'I');
                put_prefixed(out, row);
            }
            Action::Update { before, key, cells } => {
                out.push(b'U');
                out.extend_from_slice(before);
                put_prefixed(out, key);
                put_u16(out, cells.len());
                for (ordinal, value) in cells {
                    out.extend_from_slice(&ordinal.to_be_bytes());
                    out.extend_from_slice(value);
                }
            }
            Action::Delete { before, key } => {
                out.push(b'D');
                out.extend_from_slice(before);
                put_prefixed(out, key);
            }
        }
    }
}

impl SeenRow {
    fn read(reader: &mut Reader<'_>, tables: &[String]) -> Result<Self, WireError> {
        let table = read_table(reader, tables)?;
        let key = read_row(reader, "pk")?;
        let hash = match reader.u8("present")? {
            0 => None,
            1 => Some(reader.hash("hash")?),
            present => return Err(WireError::new("present", format!("is {present}, want 0 or 1"))),
        };
        Ok(Self { table, key, hash })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_be_bytes());
        put_prefixed(out, &self.key);
        out.push(u8::from(self.hash.is_some()));
        out.extend(self.hash.iter().flatten());
    }

    fn place(&self) -> (u16, &[u8]) {
        (self.table, &self.key)
    }
}

fn read_isolation(reader: &mut Reader<'_>) -> Result<Isolation, WireError> {
    match reader.u8("isolation")? {
        1 => Ok(Isolation::ReadCommitted),
        2 => Ok(Isolation::RepeatableRead),
        3 => Ok(Isolation::Serializable),
        level => Err(WireError::new("isolation", format!("is {level}, want 1 to 3"))),
    }
}

fn read_tables(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = usize::from(reader.u16("tables")?);
    if !(1..=TABLES_MAX).contains(&count) {
        return Err(WireError::new("tables", format!("{count}, want 1 to {TABLES_MAX}")));
    }
    check_count(reader, "tables", count, TABLE_BYTES_MIN)?;
    let mut tables: Vec<String> = Vec::with_capacity(count);
    for i in 0..count {
        let place = || format!("tables[{i}]");
        let name = std::str::from_utf8(reader.prefixed(&place())?);
        let name = name.map_err(|_| WireError::new(place(), "is not UTF-8"))?;
        check_table(&place(), name)?;
        if tables.last().is_some_and(|last| last.as_bytes() >= name.as_bytes()) {
            return Err(WireError::new(place(), "is not above the one before it"));
        }
        tables.push(name.to_owned());
    }
    Ok(tables)
}

fn read_seen(reader: &mut Reader<'_>, tables: &[String]) -> Result<Vec<SeenRow>, WireError> {
    let mut seen: Vec<SeenRow> = Vec::new();
    for i in 0..read_count(reader, "seen", SEEN_BYTES_MIN)? {
        let row = SeenRow::read(reader, tables).map_err(|error| error.within(&format!("seen[{i}]")))?;
        if seen.last().is_some_and(|last| last.place() >= row.place()) {
            return Err(WireError::new(format!("seen[{i}]"), "is not above the one before it"));
        }
        seen.push(row);
    }
    Ok(seen)
}

/// `lp(row)`, of at least one column.
fn read_row(reader: &mut Reader<'_>, field: &str) -> Result<Vec<u8>, WireError> {
    let row = reader.prefixed(field)?;
    let mut columns = Reader::new(row);
    let count = columns.u16(field)?;
    if count == 0 {
        return Err(WireError::new(field, "has no column"));
    }
    let mut last = 0;
    for _ in 0..count {
        last = read_ordinal(&mut columns, field, last)?;
        let value = columns.value(field)?;
        check_tag(field, value)?;
    }
    columns.end(field)?;
    Ok(row.to_vec())
}

fn read_cells(reader: &mut Reader<'_>) -> Result<Vec<(u16, Vec<u8>)>, WireError> {
    let count = usize::from(reader.u16("cells")?);
    if count == 0 {
        return Err(WireError::new("cells", "is empty"));
    }
    check_count(reader, "cells", count, CELL_BYTES_MIN)?;
    let mut cells = Vec::with_capacity(count);
    let mut last = 0;
    for _ in 0..count {
        last = read_ordinal(reader, "cells", last)?;
        let value = reader.value("cells")?;
        if value != NULL {
            check_tag("cells", value)?;
        }
        cells.push((last, value.to_vec()));
    }
    Ok(cells)
}

fn check_row(field: &str, row: &[u8]) -> Result<(), WireError> {
    decode_row(row).map(drop).map_err(|error| WireError::new(field, error.to_string()))
}

fn check_cell(ordinal: u16, value: &[u8]) -> Result<(), WireError> {
    if value == NULL {
        return Ok(());
    }
    decode_value(value).map(drop).map_err(|error| WireError::new("cells", format!("column {ordinal}: {error}")))
}
