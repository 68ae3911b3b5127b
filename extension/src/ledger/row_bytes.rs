//! The canonical bytes of rows, as SQL functions. So queries over tables, history and checkpoints
//! can compare rows by the bytes that are hashed. Columns are found by name: a history row encodes
//! as the row of its table.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use chainify_codec::row_hash as hash_of_row;

use crate::pg::base::cursor::Row;
use crate::pg::base::encode::{LedgerColumn, RowEncoder};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::record::Record;
use crate::pg::base::relation::{Lock, Relation, Tuple};
use crate::pg::base::spi;

crate::pg::sql_function!(
    chainify_encoded_row,
    pg_finfo_chainify_encoded_row,
    encoded_row
);
crate::pg::sql_function!(
    chainify_encoded_key,
    pg_finfo_chainify_encoded_key,
    encoded_key
);
crate::pg::sql_function!(chainify_row_hash, pg_finfo_chainify_row_hash, row_hash);
crate::pg::sql_function!(chainify_row_as, pg_finfo_chainify_row_as, row_as);

thread_local! {
    /// By ledger table and row type. Emptied by [`forget`].
    static ENCODERS: RefCell<BTreeMap<(i32, u32), Rc<RowEncoder>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Forgets which columns tables have; every check starts with it, since a name may have moved to
/// another column.
pub fn forget() {
    ENCODERS.take();
}

/// `encoded_row(table_id, row)`: the canonical row; NULL for NULL.
fn encoded_row(call: &mut Call) -> Answer {
    encoded(call, RowEncoder::row)
}

/// `encoded_key(table_id, row)`: the row of the primary key's columns; NULL for NULL.
fn encoded_key(call: &mut Call) -> Answer {
    encoded(call, RowEncoder::key)
}

/// A row as the analytics worker reads it: `lp(canonical row)`, and behind it the ordinals of its
/// minus zeros (spec/analytics.md).
fn mirrored(encoder: &RowEncoder, row: &Tuple, out: &mut Vec<u8>) {
    with_length(out, |out| encoder.row(row, out));
    encoder.minus_zeros(row, out);
}

/// Appends what `write` does, behind its length. A row is below PostgreSQL's 1 GB.
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start) as u32 - 4;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends rows of one table as [`mirrored`] has them, each behind its length.
pub fn mirrored_rows(table_id: i32) -> impl FnMut(&Row<'_>, &mut Vec<u8>) {
    let mut opened = None;
    move |row, out| {
        with_length(out, |out| {
            append(table_id, &mut opened, row.record(1), out, mirrored)
        })
    }
}

/// The same of changes: of a column with the operation, and one with the row of the history. A row
/// that was deleted has its key alone.
pub fn mirrored_changes(table_id: i32) -> impl FnMut(&Row<'_>, &mut Vec<u8>) {
    let mut opened = None;
    move |row, out| {
        with_length(out, |out| {
            let op = row.char(1).unwrap_or_default();
            out.push(op);
            let write = if op == b'D' {
                RowEncoder::key
            } else {
                mirrored
            };
            append(table_id, &mut opened, row.record(2), out, write);
        })
    }
}

type Write = fn(&RowEncoder, &Tuple, &mut Vec<u8>);

fn append(
    table_id: i32,
    opened: &mut Option<Relation>,
    record: Record,
    out: &mut Vec<u8>,
    write: Write,
) {
    let table = opened.get_or_insert_with(|| record.table());
    let encoder = encoder(table_id, &record, table);
    record.read(table, |row| write(&encoder, row, out));
}

fn encoded(call: &Call, write: Write) -> Answer {
    let table_id: i32 = call.required(0, "table_id");
    let bytes = call.record_arg(1).map(|record| {
        let table = record.table();
        let encoder = encoder(table_id, &record, &table);
        let mut bytes = Vec::new();
        record.read(&table, |row| write(&encoder, row, &mut bytes));
        bytes
    });
    call.value::<Vec<u8>>(bytes)
}

/// `row_as(of, row)`: the row as one of the table whose row type `of` has. It evaluates no
/// condition of a domain: what is put back was there before, and may be older than the condition.
fn row_as(call: &mut Call) -> Answer {
    let Some(record) = call.record_arg(1) else {
        return call.value::<i32>(None);
    };
    let (from, to) = (
        record.table(),
        Relation::open(call.table_of_arg(0), Lock::AccessShare),
    );
    call.row_value(record.as_row_of(&to, &from))
}

/// `chainify.row_hash(row)`: the row hash of spec/formats.md of a row of a ledger table.
fn row_hash(call: &mut Call) -> Answer {
    let hash = call.record_arg(0).map(|record| {
        forget();
        let relation = record.table();
        let (id, name) = ledger_table_of(&relation);
        let mut bytes = Vec::new();
        let encoder = encoder(id, &record, &relation);
        record.read(&relation, |row| encoder.row(row, &mut bytes));
        hash_of_row(&name, &bytes).to_vec()
    });
    call.value::<Vec<u8>>(hash)
}

/// The ledger table that a relation is, or is the history of.
fn ledger_table_of(relation: &Relation) -> (i32, String) {
    let sql = "SELECT id, name FROM chainify_ledger.ledger_table WHERE relation = $1 OR history = $1 ORDER BY id DESC LIMIT 1";
    let mut found = None;
    spi::connected(|| {
        spi::query(sql, &[cell(relation.oid())], |row| {
            found = Some((row.must(1), row.must(2)))
        })
    });
    found.unwrap_or_else(|| PgError::new(b"42P01", "row is not of a table on the ledger").raise())
}

fn encoder(table_id: i32, record: &Record, table: &Relation) -> Rc<RowEncoder> {
    let key = (table_id, record.row_type().to_u32());
    if let Some(encoder) = ENCODERS.with_borrow(|kept| kept.get(&key).cloned()) {
        return encoder;
    }
    let encoder = Rc::new(RowEncoder::new(table, &columns(table_id)).or_raise());
    ENCODERS.with_borrow_mut(|kept| kept.insert(key, encoder.clone()));
    encoder
}

/// The columns the ledger knows of a table, by ordinal.
pub fn columns(table_id: i32) -> Vec<LedgerColumn> {
    let sql = "SELECT ordinal, name, key_part FROM chainify_ledger.ledger_column WHERE table_id = $1 ORDER BY ordinal";
    let mut columns = Vec::new();
    spi::connected(|| {
        spi::query(sql, &[cell(table_id)], |row| {
            let ordinal: i16 = row.must(1);
            columns.push(LedgerColumn {
                ordinal: ordinal as u16,
                name: row.must(2),
                key: row.get::<i16>(3).is_some(),
            });
        })
    });
    columns
}
