//! Checkpoints: a row per table at the end of a block.
//!
//! The rows of a checkpoint are those kept in `chainify_checkpoint` (the base) overlaid with the
//! history up to its block, so several of them cost one copy of the tables.
//!
//! Invariant R3: the base of a table holds the rows at the end of its `base_block`, after every
//! transaction.

use chainify_worker::steps::checkpoint_is_due;

use crate::ledger::ledger_tables::LedgerTable;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::cell;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::{settings, spi};

const MAKE: &str = "
    INSERT INTO chainify_ledger.checkpoint (block, table_id, row_count, schema_hash, table_state)
    SELECT $1, t.id, s.row_count, t.schema_hash,
        chainify_ledger.table_state_hash(t.name, t.schema_hash, s.row_count, s.lanes)
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.table_state s ON s.table_id = t.id
    WHERE t.detached_at IS NULL
    ON CONFLICT (block, table_id) DO UPDATE
    SET row_count = excluded.row_count, schema_hash = excluded.schema_hash, table_state = excluded.table_state";

/// Makes a checkpoint of the block being sealed when one is due. Cost: one SHA-256 over the lanes
/// of each table.
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
