//! Reads rows of ledger tables at the end of a block for another organisation, whose own
//! checkpoints and history are lost. It asks for states, digests of ranges of keys, and rows. The
//! node asks within one REPEATABLE READ transaction, so that all answers are of one moment.

use std::collections::BTreeMap;

use chainify_codec::{key_hash, key_hash_range, row_hash, KeyRanges, RangeDigest, RANGE_BITS_MAX};
use chainify_ledger::cells;

use crate::block::half_committed;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::{Column, LedgerTable};
use crate::ledger::row_bytes;
use crate::ledger::stored_blocks;
use crate::ledger::table_scans::{state_before, texts_at};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

crate::pg::sql_function!(
    chainify_state_tables,
    pg_finfo_chainify_state_tables,
    state_tables
);
crate::pg::sql_function!(
    chainify_state_ranges,
    pg_finfo_chainify_state_ranges,
    state_ranges
);
crate::pg::sql_function!(
    chainify_state_rows,
    pg_finfo_chainify_state_rows,
    state_rows
);

/// Ranges told of by one call.
const RANGES_MAX: u64 = 65_536;

/// `chainify_node.state_tables(number, hash)`; contract in spec/sql-api.md. Cost: none at the
/// position; else as of [`state_before`] for each table.
fn state_tables(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let hash: Vec<u8> = call.required(1, "hash");
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            let position = check_block(client, number, &hash).or_raise();
            for table in ledger_tables::all(client, Sees::Statement) {
                let Some(state) = state_before(client, &table, number, position) else {
                    not_told(format!("Table {} has no running state.", table.name)).raise()
                };
                row(&[
                    cell(table.name.clone()),
                    cell(state.row_count as i64),
                    cell(table.state_hash(&state).to_vec()),
                ]);
            }
        })
    })
}

/// Returns the position, when the rows at the end of block `number` can be told.
pub fn check_block(client: &SpiClient<'_>, number: i64, hash: &[u8]) -> Result<i64, PgError> {
    half_committed::refuse(client, Sees::Statement);
    let position = stored_blocks::last_block(client, Sees::Statement).unwrap_or_default();
    let kept = stored_blocks::block(client, Sees::Statement, number);
    if kept.is_none_or(|kept| kept.hash[..] != *hash) {
        return Err(not_told(format!(
            "Block {number} of that hash is not here; the last block is {position}."
        )));
    }
    let sql = "SELECT max(greatest(attached_at, detached_at, CASE WHEN detached_at IS NULL THEN base_block END))
        FROM chainify_ledger.ledger_table";
    let oldest = Cursor::open(client, Sees::Statement, sql, &[])
        .next_row()
        .and_then(|row| row.bigint(1));
    match oldest {
        Some(oldest) if number < position && number < oldest => Err(not_told(format!(
            "What is kept reaches back to block {oldest} only."
        ))),
        _ => Ok(position),
    }
}

/// SQLSTATE 55000: another organisation may be able to tell.
pub fn not_told(detail: String) -> PgError {
    PgError::new(b"55000", "the rows at that block cannot be told").detail(detail)
}

/// `chainify_node.state_ranges(number, tbl, of_bits, of_ranges, bits)`; contract in
/// spec/sql-api.md. Cost: a scan of the table, or, before the position, of base and history with a
/// sort; a SHA-256 per key and per row.
fn state_ranges(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let name: String = call.required(1, "tbl");
    let of = key_ranges(call.required(2, "of_bits"), call.required(3, "of_ranges")).or_raise();
    let bits = range_bits(call.required(4, "bits")).or_raise();
    if bits < of.bits() {
        PgError::new(
            b"22023",
            format!(
                "ranges of {bits} bits are not within those of {}",
                of.bits()
            ),
        )
        .raise();
    }
    if (of.ranges().len() as u64) << (bits - of.bits()) > RANGES_MAX {
        PgError::new(b"22023", format!("more than {RANGES_MAX} ranges")).raise();
    }
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            let table = table(client, &name).or_raise();
            let sql = format!(
                "SELECT k, chainify_ledger.encoded_row({}, v) FROM ({}) r",
                table.id,
                rows_at(client, &table, number)
            );
            let mut digests: BTreeMap<u32, RangeDigest> = BTreeMap::new();
            let mut rows = Cursor::open(client, Sees::Statement, &sql, &[]);
            while let Some(row) = rows.next_row() {
                let key = key_hash(&row.bytes(1).unwrap_or_default());
                if of.have(&key) {
                    let range = key_hash_range(&key, bits);
                    let hash = row_hash(&table.name, &row.bytes(2).unwrap_or_default());
                    digests.entry(range).or_default().add(&hash);
                }
            }
            for (range, digest) in digests {
                row(&[
                    cell(range as i32),
                    cell(digest.rows as i64),
                    cell(digest.to_bytes().to_vec()),
                ]);
            }
        })
    })
}

/// `chainify_node.state_rows(number, tbl, bits, ranges)`; contract in spec/sql-api.md. Cost: a scan
/// as for the ranges.
fn state_rows(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let name: String = call.required(1, "tbl");
    let wanted = key_ranges(call.required(2, "bits"), call.required(3, "ranges")).or_raise();
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            let table = table(client, &name).or_raise();
            let columns = by_name(&table);
            let position = stored_blocks::last_block(client, Sees::Statement);
            let at = (number, position.unwrap_or_default().max(number));
            texts_at(client, &table, &columns, at, &wanted, &mut |key, texts| {
                let range = key_hash_range(key, wanted.bits()) as i32;
                row(&[cell(range), cell(cells::encode(texts))]);
            });
        })
    })
}

/// Raises 22023 when they are not ascending ranges of so many bits.
pub fn key_ranges(bits: i32, ranges: Vec<i32>) -> Result<KeyRanges, PgError> {
    let ranges = ranges.into_iter().map(|range| range as u32).collect();
    let malformed = || PgError::new(b"22023", format!("not ascending ranges of {bits} bits"));
    KeyRanges::new(range_bits(bits)?, ranges).ok_or_else(malformed)
}

/// A number of bits that ranges can have; raises 22023 for another.
pub fn range_bits(bits: i32) -> Result<u32, PgError> {
    let fits = u32::try_from(bits)
        .ok()
        .filter(|bits| *bits <= RANGE_BITS_MAX);
    fits.ok_or_else(|| {
        PgError::new(
            b"22023",
            format!("{bits} bits of a range, want 0 to {RANGE_BITS_MAX}"),
        )
    })
}

fn table(client: &SpiClient<'_>, name: &str) -> Result<LedgerTable, PgError> {
    let mut tables = ledger_tables::all(client, Sees::Statement).into_iter();
    let table = tables
        .find(|table| table.name == name)
        .ok_or_else(|| PgError::new(b"42P01", format!("table \"{name}\" is not on the ledger")))?;
    match table.unreadable() {
        None => Ok(table),
        Some(why) => Err(not_told(format!("Table {name}: {why}."))),
    }
}

/// Columns `k` and `v` of the rows at the end of block `number`, as for checkpoints.
fn rows_at(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> String {
    match stored_blocks::last_block(client, Sees::Statement) {
        Some(position) if position > number => table.expected_rows(number),
        _ => table.live_rows(),
    }
}

/// The order in which cells of a row travel: physical orders differ between databases.
pub fn by_name(table: &LedgerTable) -> Vec<&Column> {
    let mut columns: Vec<_> = table.columns.iter().collect();
    columns.sort_by(|one, other| one.name.cmp(&other.name));
    columns
}
