//! Encodes the history of whole blocks for the archive (spec/archive.md), in the order of the
//! leaves of their Merkle trees.

use crate::block::half_committed;
use crate::ledger::history;
use crate::ledger::{dropped, row_bytes};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;

crate::pg::sql_function!(
    chainify_archive_changes,
    pg_finfo_chainify_archive_changes,
    archive_changes
);

/// `chainify_node.archive_changes(from_block, to_block)`; contract in spec/sql-api.md. Cost: reads
/// and sorts the history of these blocks.
fn archive_changes(call: &mut Call) -> Answer {
    let from: i64 = call.required(0, "from_block");
    let to: i64 = call.required(1, "to_block");
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            dropped::read(client, Sees::Statement).refuse(from);
            let mut tables = history::readable(client, &mut |_, _| ());
            tables.sort_by(|a, b| a.name.cmp(&b.name));
            let sql = history::in_order_of_leaves(&tables);
            let mut changes =
                Cursor::open(client, Sees::Statement, &sql, &[from.into(), to.into()]);
            while let Some(change) = changes.next_row() {
                let block = change.bigint(1);
                let kept = history::kept_change(&change);
                row(&[
                    cell::<i64>(block),
                    cell(tables[kept.table].name.clone()),
                    cell(kept.key),
                    cell(kept.serial),
                    cell(kept.tx),
                    cell((kept.op as char).to_string()),
                    cell(kept.row),
                ]);
            }
        })
    })
}
