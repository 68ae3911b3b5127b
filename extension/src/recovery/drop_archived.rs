//! Drops transactions, certificates and history of the oldest blocks once the archive has them.
//! Each step drops a bounded number of rows, under no lock that a block waits for.
//!
//! Headers stay, and so does all from the oldest base of the checkpoints on: recovery needs it.

use chainify_worker::steps::{fold_range, Range};

use crate::block::half_committed;
use crate::ledger::checkpoints::maintain_bases;
use crate::ledger::{dropped, history, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

crate::pg::sql_function!(
    chainify_drop_archived,
    pg_finfo_chainify_drop_archived,
    drop_archived
);

/// `chainify_node.drop_archived(keep_blocks, rows_max)`; contract in spec/sql-api.md. Cost: deletes
/// at most so many rows, or those of one block.
fn drop_archived(call: &mut Call) -> Answer {
    let keep_blocks: i64 = call.required(0, "keep_blocks");
    let rows_max: i64 = call.required(1, "rows_max");
    if keep_blocks < 1 {
        PgError::new(b"22023", format!("{keep_blocks} blocks, want at least 1")).raise();
    }
    let gone = unrecorded(|| {
        if !maintain_bases() {
            return None;
        }
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let Range { after, to } = next_range(client, keep_blocks, rows_max)?;
            Some((to, delete(client, after, to)))
        })
    });
    let (block, rows) = gone.unzip();
    call.record(&[cell::<i64>(block), cell(rows.unwrap_or_default() as i64)])
}

/// The last block that nothing needs here any more. Nothing goes while something is not as agreed,
/// or while local changes wait for the outcome of a transaction (W4).
const LIMIT: &str = "
    SELECT least(a.block,
                 (SELECT max(b.number) FROM chainify_ledger.block b) - $1,
                 (SELECT min(t.base_block) FROM chainify_ledger.ledger_table t WHERE t.detached_at IS NULL),
                 (SELECT min(c.block) FROM chainify_ledger.checkpoint c),
                 (SELECT min(f.number) - 1 FROM chainify_ledger.false_block f))
    FROM chainify_ledger.archived a
    WHERE NOT EXISTS (SELECT FROM chainify_ledger.deviation d WHERE d.cured_by IS NULL)
      AND NOT EXISTS (SELECT FROM chainify_ledger.started_over)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts p
                      WHERE p.database = pg_catalog.current_database() AND p.gid ^@ 'chainify:'
                        AND p.prepared < pg_catalog.clock_timestamp() - interval '1 minute')";

fn next_range(client: &SpiClient<'_>, keep_blocks: i64, rows_max: i64) -> Option<Range> {
    let gone = dropped::read(client, Sees::Latest).block;
    let mut rows = Cursor::open(client, Sees::Latest, LIMIT, &[keep_blocks.into()]);
    let limit = rows.next_row().and_then(|row| row.bigint(1))?;
    drop(rows);
    fold_range(gone, limit, rows_max, |range| {
        stored_blocks::rows(client, range)
    })
}

/// Deletes what is kept of the blocks after `after` up to `to`; returns how many rows that were.
fn delete(client: &SpiClient<'_>, after: i64, to: i64) -> u64 {
    let mut relations: Vec<_> = history::readable(client, &mut |_, _| ())
        .into_iter()
        .map(|table| {
            format!(
                "DELETE FROM {} WHERE _block > $1 AND _block <= $2",
                table.relation
            )
        })
        .collect();
    relations.sort();
    relations.dedup();
    relations.extend([
        "DELETE FROM chainify_ledger.transaction WHERE block > $1 AND block <= $2".to_owned(),
        "DELETE FROM chainify_ledger.certificate WHERE number > $1 AND number <= $2".to_owned(),
    ]);
    spi::connected(|| {
        let bounds = [cell(after), cell(to)];
        let gone = relations.iter().map(|sql| spi::execute(sql, &bounds)).sum();
        spi::execute(
            "UPDATE chainify_ledger.archived SET dropped = $1",
            &[cell(to)],
        );
        gone
    })
}
