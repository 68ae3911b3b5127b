//! Folding: brings the base of the checkpoints forward to the oldest checkpoint kept, whole blocks
//! at a time. It accepts only history that gives its block's effects root. (Elsewhere: compaction.)

use chainify_worker::steps::{fold_range, Range};

use crate::ledger::checkpoints::maintain_bases;
use crate::ledger::ledger_tables;
use crate::ledger::{row_bytes, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi::SpiClient;
use crate::pg::base::{settings, spi};
use crate::verify::ledger;

crate::pg::sql_function!(
    chainify_fold_history,
    pg_finfo_chainify_fold_history,
    fold_history
);

/// `chainify_node.fold_history(changes_max)`; contract in spec/sql-api.md. Cost: reads the history
/// of the blocks folded and looks up each row changed.
fn fold_history(call: &mut Call) -> Answer {
    let changes_max: i64 = call.required(0, "changes_max");
    row_bytes::forget();
    let folded = unrecorded(|| {
        if !maintain_bases() {
            return None;
        }
        spi::connect(|client| {
            let range = next_range(client, changes_max)?;
            check(client, range);
            Some((range.to, fold(client, range.to)))
        })
    });
    let (block, changes) = folded.unzip();
    call.record(&[cell::<i64>(block), cell(changes.unwrap_or_default() as i64)])
}

/// The blocks to fold next, up to the oldest checkpoint kept.
fn next_range(client: &SpiClient<'_>, changes_max: i64) -> Option<Range> {
    let sql = "
        WITH target (block) AS (
            SELECT block FROM (SELECT DISTINCT block FROM chainify_ledger.checkpoint ORDER BY block DESC LIMIT $1) c
            ORDER BY block LIMIT 1)
        SELECT min(base_block), min(target.block) FROM chainify_ledger.ledger_table, target
        WHERE detached_at IS NULL AND base_block < target.block";
    let kept = settings::checkpoints_kept();
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[kept.into()]);
    let row = rows.next_row()?;
    let (base, target) = row.bigint(1).zip(row.bigint(2))?;
    fold_range(base, target, changes_max, |range| {
        stored_blocks::changes(client, range)
    })
}

/// Raises CH002 when the ledger does not bear out the history of these blocks: the base must not
/// take it over.
fn check(client: &SpiClient<'_>, Range { after, to }: Range) {
    if let Some((block, finding)) = ledger::first_finding(client, Sees::Statement, after + 1, to) {
        PgError::new(b"CH002", format!("history of block {block} was changed"))
            .detail(format!("{}: {}.", finding.what, finding.detail))
            .hint("chainify.verify_ledger() names everything that does not fit its block.")
            .raise();
    }
}

/// Brings every base before block `to` forward to it; checkpoints that cannot be told any more go.
fn fold(client: &SpiClient<'_>, to: i64) -> u64 {
    let tables = ledger_tables::all(client, Sees::Latest);
    let mut changes = 0;
    for table in tables.iter().filter(|table| table.base_block < to) {
        if let Some(why) = table.unreadable() {
            let message = format!("base of table {} cannot be brought forward", table.name);
            PgError::new(b"CH002", message)
                .detail(format!("Table {}: {why}.", table.name))
                .raise();
        }
        spi::connected(|| {
            changes += spi::execute(&table.folding(to), &[]);
            let sql = "UPDATE chainify_ledger.ledger_table SET base_block = $2 WHERE id = $1";
            spi::query(sql, &[cell(table.id), cell(to)], |_| ());
        });
    }
    let sql = "DELETE FROM chainify_ledger.checkpoint c USING chainify_ledger.ledger_table t
        WHERE t.id = c.table_id AND t.detached_at IS NULL AND c.block < t.base_block";
    spi::connected(|| spi::query(sql, &[], |_| ()));
    changes
}
