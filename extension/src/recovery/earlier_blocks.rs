//! The scrubber of what is past: blocks whose history the checkpoints need no more are read again from time to time, and at once
//! when recovery left history behind that it could not show to be true. Blocks that are not as agreed are noted; the node
//! has another organisation tell them (recovery/take_over_block.rs).

use std::collections::BTreeMap;

use crate::ledger::checkpoints;
use crate::pg::base::spi::SpiClient;

use crate::block::half_committed;
use crate::ledger::{history, row_bytes, session};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::{settings, spi};
use crate::verify::ledger;

crate::sql_function!(chainify_audit, pg_finfo_chainify_audit, audit);

/// Blocks read in one step, however few changes they made.
const BLOCKS_MAX: i64 = 1_000;

/// `chainify_node.audit(changes_max)`; contract in spec/sql-api.md. Cost: reads the blocks with their transactions and history.
fn audit(call: &mut Call) -> Answer {
    let changes_max: i64 = call.required(0, "changes_max");
    row_bytes::forget();
    let audited = session::unrecorded(|| {
        if !checkpoints::maintain_bases() {
            return None;
        }
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let (from, to) = next_range(client, changes_max)?;
            let found = if from < to {
                false_blocks(client, from + 1, to)
            } else {
                BTreeMap::new()
            };
            note(to, &found, from == to);
            (from < to).then_some((to, found.len() as i64))
        })
    });
    let (block, findings) = audited.unzip();
    call.record(&[cell::<i64>(block), cell(findings.unwrap_or_default())])
}

/// Up to the newest base: recovery may have brought that of a single table forward, past history that is false.
///
/// The blocks to read next: after `from`, up to and with `to`; none between them at the end of a pass. `None` before the next
/// pass is due.
fn next_range(client: &SpiClient<'_>, changes_max: i64) -> Option<(i64, i64)> {
    let sql = "
        WITH base (block) AS (SELECT max(base_block) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL),
        done (block, due) AS (
            SELECT coalesce(max(block), 0), (max(at) + make_interval(secs => $2) < clock_timestamp()) IS NOT FALSE
            FROM chainify_ledger.audited)
        SELECT done.block, greatest(done.block, coalesce((
            SELECT max(b.number) FROM (
                SELECT number, sum(effects_count) OVER (ORDER BY number) AS changes FROM chainify_ledger.block
                WHERE number > done.block AND number <= least(base.block, done.block + $3)) b
            WHERE b.changes <= $1 OR b.number = done.block + 1), least(base.block, done.block + $3)))
        FROM base, done WHERE base.block IS NOT NULL AND (done.block > 0 OR done.due AND base.block > 0)";
    let pause = settings::scrub_interval().as_secs_f64();
    let arguments = [changes_max.into(), pause.into(), BLOCKS_MAX.into()];
    let mut rows = Cursor::open(client, Sees::Latest, sql, &arguments);
    let row = rows.next_row()?;
    row.bigint(1).zip(row.bigint(2))
}

/// The blocks that are not kept as agreed, each with what is wrong with it first.
fn false_blocks(client: &SpiClient<'_>, from: i64, to: i64) -> BTreeMap<i64, String> {
    let mut found = BTreeMap::new();
    let missing = "SELECT n FROM generate_series($1, $2) n WHERE NOT EXISTS (SELECT FROM chainify_ledger.block b WHERE b.number = n)";
    let mut rows = Cursor::open(client, Sees::Latest, missing, &[from.into(), to.into()]);
    while let Some(row) = rows.next_row() {
        found.extend(
            row.bigint(1)
                .map(|number| (number, "block missing".to_owned())),
        );
    }
    drop(rows);
    let tables = history::readable(client, &mut |_, _| ());
    ledger::check_blocks(
        client,
        Sees::Latest,
        &tables,
        from,
        to,
        &mut |block, finding| {
            found
                .entry(block)
                .or_insert_with(|| format!("{}: {}", finding.what, finding.detail));
        },
    );
    found
}

fn note(read: i64, found: &BTreeMap<i64, String>, pass_ends: bool) {
    spi::connected(|| {
        let sql = "INSERT INTO chainify_ledger.false_block (number, what) VALUES ($1, $2)
            ON CONFLICT (number) DO UPDATE SET what = excluded.what";
        for (number, what) in found {
            spi::query(sql, &[cell(*number), cell(what.clone())], |_| ());
        }
        let sql = "INSERT INTO chainify_ledger.audited AS a (block, at) VALUES ($1, NULL) ON CONFLICT (only_row) DO UPDATE
            SET block = CASE WHEN $2 THEN 0 ELSE excluded.block END, at = CASE WHEN $2 THEN clock_timestamp() ELSE a.at END";
        spi::query(sql, &[cell(read), cell(pass_ends)], |_| ());
    });
}

/// Has the blocks after `block` read at once: recovery left history behind that it did not show to be true.
pub fn read_again_after(block: i64) {
    let sql = "INSERT INTO chainify_ledger.audited AS a (block, at) VALUES ($1, NULL) ON CONFLICT (only_row) DO UPDATE
        SET block = CASE WHEN a.block = 0 THEN $1 ELSE least(a.block, $1) END, at = NULL";
    spi::connected(|| spi::query(sql, &[cell(block)], |_| ()));
}
