//! Resumes joining where an earlier attempt ended: received rows are kept outside of the joining
//! transaction. They are checked like rows that arrive anew.

use std::collections::BTreeMap;

use chainify_ledger::block_buffer;

use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::row_bytes;
use crate::ledger::table_scans::places_in;
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::OrRaise;
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::memory::Context;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::join::{clear, is_false, joining};
use crate::recovery::repair_from_peer::{by_column, insert, types};
use crate::recovery::row_repair::{by_owner, parts, take_away};
use crate::recovery::tell_rows::key_ranges;

crate::pg::sql_function!(
    chainify_join_received,
    pg_finfo_chainify_join_received,
    join_received
);
crate::pg::sql_function!(
    chainify_join_without,
    pg_finfo_chainify_join_without,
    join_without
);

/// Rows whose places are found by one read of a table, and taken away.
const PLACES_MAX: usize = 1_000_000;

/// Rows that one statement takes away.
const DELETED_AT_ONCE: usize = 10_000;

/// `chainify_node.join_received(tbl, most)`; contract in spec/sql-api.md. Of two rows with one key
/// the later one counts, so the last ones go in first. Rights as of `join_rows`.
fn join_received(call: &mut Call) -> Answer {
    let name: String = call.required(0, "tbl");
    let most: i64 = call.required(1, "most");
    row_bytes::forget();
    let mut rows = 0;
    unrecorded(|| {
        spi::connect(|client| {
            let table = joining(client, &name).or_raise();
            clear(client, &table);
            let types = types(client, &table);
            let pieces = pieces(client, &name);
            let all = pieces.iter().map(|(_, count)| count).sum();
            if all > most {
                return;
            }
            let memory = Context::child(c"chainify rows received");
            for (place, _) in pieces {
                memory.enter(|| put_piece(client, &table, &types, place));
                memory.reset();
            }
            rows = all;
        })
    });
    call.value(rows)
}

/// The pieces that are kept of a table, the last one first: place and number of rows.
fn pieces(client: &SpiClient<'_>, name: &str) -> Vec<(i64, i64)> {
    let sql = "SELECT place, rows FROM chainify_ledger.received WHERE tbl = $1 ORDER BY place DESC";
    let mut pieces = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[name.into()]);
    while let Some(row) = rows.next_row() {
        pieces.extend(row.bigint(1).zip(row.bigint(2)));
    }
    pieces
}

/// Puts the rows of a piece into the table, where no row has their keys.
fn put_piece(client: &SpiClient<'_>, table: &LedgerTable, types: &[String], place: i64) {
    let sql = "SELECT cells FROM chainify_ledger.received WHERE tbl = $1 AND place = $2";
    let piece = [table.name.as_str().into(), place.into()];
    let mut rows = Cursor::open(client, Sees::Latest, sql, &piece);
    let row = rows.next_row();
    let cells = row.and_then(|row| row.bytes(1)).unwrap_or_default();
    drop(rows);
    let received = block_buffer::split(&cells).map_err(is_false).or_raise();
    let columns = by_column(table, &received).or_raise();
    let into = (table.live_name(), " ON CONFLICT DO NOTHING");
    by_owner(client, table.relation, table.live_name(), || {
        insert(table, into, true, types, columns)
    });
}

/// `chainify_node.join_without(tbl, bits, ranges)`; contract in spec/sql-api.md. Cost: a read of
/// the table for each [`PLACES_MAX`] rows that go.
fn join_without(call: &mut Call) -> Answer {
    let name: String = call.required(0, "tbl");
    let ranges = key_ranges(call.required(1, "bits"), call.required(2, "ranges")).or_raise();
    row_bytes::forget();
    unrecorded(|| {
        spi::connect(|client| {
            let table = joining(client, &name).or_raise();
            let mut first = None;
            loop {
                let places = places_in(client, &table, &ranges, PLACES_MAX);
                if places.is_empty() || places.first() == first.as_ref() {
                    return; // a row that resists stays, and the table fails its scan
                }
                first = places.first().copied();
                let mut by_leaf: BTreeMap<u32, Vec<String>> = BTreeMap::new();
                for (leaf, (block, number)) in &places {
                    let of_leaf = by_leaf.entry(leaf.to_u32()).or_default();
                    of_leaf.push(format!("({block},{number})"));
                }
                for (leaf, places) in &by_leaf {
                    for (relation, name) in parts(client, &leaf.to_string()) {
                        for some in places.chunks(DELETED_AT_ONCE) {
                            take_away(client, relation, &name, some);
                        }
                    }
                }
                if places.len() < PLACES_MAX {
                    return;
                }
            }
        })
    });
    call.void()
}
