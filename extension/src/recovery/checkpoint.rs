//! Checkpoints: made at the end of a block by a row per table, brought forward in the background.
//!
//! The rows of a checkpoint are those kept in `chainify_checkpoint` (the base) overlaid with the history up to its block, so
//! several of them cost one copy of the tables. Folding brings the base forward to the oldest checkpoint kept, whole blocks
//! at a time, and only history that still gives its block's effects root gets in.
//!
//! Invariant R3: the base of a table holds the rows at the end of its `base_block`, after every transaction.

use crate::pg::base::spi::SpiClient;

use chainify_worker::steps::{checkpoint_is_due, fold_range, Range};

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::states_told;
use crate::ledger::{row_bytes, session};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::{settings, spi};
use crate::recovery::deviations::Cured;
use crate::verify::{ledger, table};

crate::sql_function!(
    chainify_fold_history,
    pg_finfo_chainify_fold_history,
    fold_history
);

const MAKE: &str = "
    INSERT INTO chainify_ledger.checkpoint (block, table_id, row_count, schema_hash, table_state)
    SELECT $1, t.id, s.row_count, t.schema_hash,
        chainify_ledger.table_state_hash(t.name, t.schema_hash, s.row_count, s.lanes)
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.table_state s ON s.table_id = t.id
    WHERE t.detached_at IS NULL
    ON CONFLICT (block, table_id) DO UPDATE
    SET row_count = excluded.row_count, schema_hash = excluded.schema_hash, table_state = excluded.table_state";

/// Makes a checkpoint of the block being sealed when one is due. Cost: one SHA-256 over the lanes of each table.
pub fn at_seal(number: i64, deployed: bool) {
    if checkpoint_is_due(number, settings::checkpoint_interval(), deployed) {
        make(number);
    }
}

/// Makes a checkpoint of block `number`, whose states the tables have to be in.
pub fn make(number: i64) {
    spi::connected(|| spi::query(MAKE, &[cell(number)], |_| ()));
}

/// A checkpoint of one table.
pub struct Checkpoint {
    pub block: i64,
    pub schema_hash: Vec<u8>,
    pub table_state: Vec<u8>,
}

/// The checkpoints of a table whose rows can still be told, oldest first.
pub fn of_table(client: &SpiClient<'_>, sees: Sees, table: &LedgerTable) -> Vec<Checkpoint> {
    let sql = "SELECT block, schema_hash, table_state FROM chainify_ledger.checkpoint
        WHERE table_id = $1 AND block >= $2 ORDER BY block";
    let mut rows = Cursor::open(
        client,
        sees,
        sql,
        &[table.id.into(), table.base_block.into()],
    );
    let mut checkpoints = Vec::new();
    while let Some(row) = rows.next_row() {
        checkpoints.push(Checkpoint {
            block: row.bigint(1).unwrap_or_default(),
            schema_hash: row.bytes(2).unwrap_or_default(),
            table_state: row.bytes(3).unwrap_or_default(),
        });
    }
    checkpoints
}

/// Drops the checkpoints whose rows are no longer those kept with them, and makes a new one of the position, `number`, whose
/// tables the caller has shown to be as certified. Cost: a scan of base and history, and a sort.
pub fn drop_false(client: &SpiClient<'_>, number: i64) -> Vec<Cured> {
    let mut dropped = Vec::new();
    for table in ledger_tables::all(client, Sees::Latest) {
        let kept = of_table(client, Sees::Latest, &table);
        let blocks: Vec<_> = kept.iter().map(|kept| kept.block).collect();
        for (kept, state) in kept.iter().zip(states_told(client, &table, &blocks)) {
            let Some(finding) = table::checkpoint_finding(&table, kept, &state) else {
                continue;
            };
            let sql = "DELETE FROM chainify_ledger.checkpoint WHERE block = $1 AND table_id = $2";
            spi::connected(|| spi::query(sql, &[cell(kept.block), cell(table.id)], |_| ()));
            dropped.push(Cured::of_finding(&table.name, finding));
        }
    }
    if !dropped.is_empty() {
        make(number);
    }
    dropped
}

/// Keeps definitions, bases and history of all tables from changing but through the caller, until
/// its transaction ends (R11).
pub fn lock_bases() {
    own_lock::take(OwnLock::Definitions);
}

/// The same for maintenance. False, and nothing locked, while a block changes definitions or a
/// repair is at work: these go first.
pub fn maintain_bases() -> bool {
    if !own_lock::try_share(OwnLock::Definitions) {
        return false;
    }
    let sql = "SELECT FROM chainify_ledger.ledger_table WHERE detached_at IS NULL ORDER BY id FOR NO KEY UPDATE";
    spi::connected(|| spi::query(sql, &[], |_| ()));
    true
}

/// `chainify_node.fold_history(changes_max)`; contract in spec/sql-api.md. Cost: reads the history of the blocks folded and
/// looks up each row changed.
fn fold_history(call: &mut Call) -> Answer {
    let changes_max: i64 = call.required(0, "changes_max");
    row_bytes::forget();
    let folded = session::unrecorded(|| {
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
    fold_range(base, target, changes_max, |range| changes(client, range))
}

/// The blocks of a range that are there, each with how many changes it made.
pub fn changes(client: &SpiClient<'_>, range: Range) -> Vec<(i64, i64)> {
    let sql = "SELECT number, effects_count::bigint FROM chainify_ledger.block
        WHERE number > $1 AND number <= $2 ORDER BY number";
    let bounds = [range.after.into(), range.to.into()];
    let mut rows = Cursor::open(client, Sees::Latest, sql, &bounds);
    let mut blocks = Vec::new();
    while let Some(row) = rows.next_row() {
        blocks.extend(row.bigint(1).zip(row.bigint(2)));
    }
    blocks
}

/// Raises CH002 when the ledger does not bear out the history of these blocks: the base must not take it over.
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
            spi::execute(&table.summarising(), &[]);
            let sql = "UPDATE chainify_ledger.ledger_table SET base_block = $2 WHERE id = $1";
            spi::query(sql, &[cell(table.id), cell(to)], |_| ());
        });
    }
    let sql = "DELETE FROM chainify_ledger.checkpoint c USING chainify_ledger.ledger_table t
        WHERE t.id = c.table_id AND t.detached_at IS NULL AND c.block < t.base_block";
    spi::connected(|| spi::query(sql, &[], |_| ()));
    changes
}
