//! The scrubber of earlier blocks: verifies stored blocks that no checkpoint needs any more. It
//! runs from time to time, and at once when recovery left history that it could not prove. It notes
//! damaged blocks, and the node gets them from another organisation (recovery/take_over_block.rs).

use std::collections::BTreeMap;
use std::time::Duration;

use chainify_worker::steps::{audit_range, Past, Range};

use crate::block::half_committed;
use crate::ledger::checkpoints;
use crate::ledger::dropped;
use crate::ledger::{history, row_bytes, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi::SpiClient;
use crate::pg::base::{settings, spi};
use crate::verify::ledger;

crate::pg::sql_function!(chainify_audit, pg_finfo_chainify_audit, audit);

/// `chainify_node.audit(changes_max)`; contract in spec/sql-api.md. Cost: reads the blocks with
/// their transactions and history.
fn audit(call: &mut Call) -> Answer {
    let changes_max: i64 = call.required(0, "changes_max");
    row_bytes::forget();
    let audited = unrecorded(|| {
        if !checkpoints::maintain_bases() {
            return None;
        }
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let Range { after, to } = next_range(client, changes_max)?;
            let found = if after < to {
                let gone = dropped::read(client, Sees::Latest).block;
                false_blocks(client, after.max(gone) + 1, to)
            } else {
                BTreeMap::new()
            };
            note(to, &found, after == to);
            (after < to).then_some((to, found.len() as i64))
        })
    });
    let (block, findings) = audited.unzip();
    call.record(&[cell::<i64>(block), cell(findings.unwrap_or_default())])
}

/// The blocks to read next; None before the next pass is due.
fn next_range(client: &SpiClient<'_>, changes_max: i64) -> Option<Range> {
    let sql = "
        SELECT coalesce(max(a.block), 0), (extract(epoch FROM clock_timestamp() - max(a.at)) * 1000000)::bigint,
            (SELECT max(base_block) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL)
        FROM chainify_ledger.audited a";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    let row = rows.next_row()?;
    let (read, newest_base) = row.bigint(1).zip(row.bigint(3))?;
    let past = Past {
        read,
        ago: row.bigint(2).map(micros),
    };
    let blocks = |range| stored_blocks::changes(client, range);
    let interval = settings::scrub_interval();
    audit_range(past, newest_base, interval, changes_max, blocks)
}

/// A time that has passed by the database's clock, which may have been set back.
pub fn micros(passed: i64) -> Duration {
    Duration::from_micros(u64::try_from(passed).unwrap_or(0))
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

/// Has the blocks after `block` read at once: recovery left history behind that it did not show to
/// be true.
pub fn read_again_after(block: i64) {
    let sql = "INSERT INTO chainify_ledger.audited AS a (block, at) VALUES ($1, NULL) ON CONFLICT (only_row) DO UPDATE
        SET block = CASE WHEN a.block = 0 THEN $1 ELSE least(a.block, $1) END, at = NULL";
    spi::connected(|| spi::query(sql, &[cell(block)], |_| ()));
}
