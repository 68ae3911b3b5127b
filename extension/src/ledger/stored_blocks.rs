//! Reads blocks and transactions from the ledger's tables, without verifying them.
use chainify_ledger::audit::{StoredBlock, StoredTransaction};
use chainify_worker::steps::Range;

use crate::pg::base::cursor::{Cursor, Row, Sees};
use crate::pg::base::spi::SpiClient;

/// The position: the last committed block.
pub fn last_block(client: &SpiClient<'_>, sees: Sees) -> Option<i64> {
    let sql = "SELECT max(number) FROM chainify_ledger.block";
    Cursor::open(client, sees, sql, &[])
        .next_row()
        .and_then(|row| row.bigint(1))
}

/// Headers of blocks `$1` to `$2`, for [`stored_block`].
pub const BLOCKS: &str = "
    SELECT number, order_height, block_time, tx_root, tx_count, outcomes, effects_root, effects_count, state_root,
        previous_hash, hash
    FROM chainify_ledger.block WHERE number BETWEEN $1 AND $2 ORDER BY number";

pub fn stored_block(row: &Row<'_>) -> StoredBlock {
    let bytes = |column| row.bytes(column).unwrap_or_default();
    StoredBlock {
        number: row.bigint(1).unwrap_or_default(),
        order_height: row.bigint(2).unwrap_or_default(),
        block_time: row.bigint(3).unwrap_or_default(),
        tx_root: bytes(4),
        tx_count: row.int(5).unwrap_or_default(),
        outcomes: bytes(6),
        effects_root: bytes(7),
        effects_count: row.int(8).unwrap_or_default(),
        state_root: bytes(9),
        previous_hash: bytes(10),
        hash: bytes(11),
    }
}

/// The headers of these blocks as stored, by number.
pub fn blocks(client: &SpiClient<'_>, sees: Sees, from: i64, to: i64) -> Vec<StoredBlock> {
    let mut blocks = Vec::new();
    let mut rows = Cursor::open(client, sees, BLOCKS, &[from.into(), to.into()]);
    while let Some(row) = rows.next_row() {
        blocks.push(stored_block(&row));
    }
    blocks
}

/// The header of block `number` as stored.
pub fn block(client: &SpiClient<'_>, sees: Sees, number: i64) -> Option<StoredBlock> {
    let arguments = [number.into(), number.into()];
    Cursor::open(client, sees, BLOCKS, &arguments)
        .next_row()
        .map(|row| stored_block(&row))
}

/// The chain this database belongs to; empty before `chainify_node.init`.
pub fn chain_id(client: &SpiClient<'_>, sees: Sees) -> String {
    let mut chain = Cursor::open(
        client,
        sees,
        "SELECT chain_id FROM chainify_ledger.chain",
        &[],
    );
    let chain_id = chain.next_row().and_then(|row| row.text(1));
    chain_id.unwrap_or_default()
}

/// Transactions of blocks `$1` to `$2`, for [`stored_transaction`].
pub const TRANSACTIONS: &str = "
    SELECT block, index, id, body, succeeded
    FROM chainify_ledger.transaction WHERE block BETWEEN $1 AND $2 ORDER BY block, index";

pub fn stored_transaction(row: &Row<'_>) -> StoredTransaction {
    StoredTransaction {
        index: row.int(2).unwrap_or_default(),
        id: row.bytes(3).unwrap_or_default(),
        body: row.bytes(4).unwrap_or_default(),
        succeeded: row.boolean(5).unwrap_or_default(),
    }
}

/// The transactions of block `number` as stored, by index.
pub fn transactions(client: &SpiClient<'_>, sees: Sees, number: i64) -> Vec<StoredTransaction> {
    let mut transactions = Vec::new();
    let arguments = [number.into(), number.into()];
    let mut rows = Cursor::open(client, sees, TRANSACTIONS, &arguments);
    while let Some(row) = rows.next_row() {
        transactions.push(stored_transaction(&row));
    }
    transactions
}

/// The blocks of a range that are there, each with how many changes it made.
pub fn changes(client: &SpiClient<'_>, range: Range) -> Vec<(i64, i64)> {
    let sql = "SELECT number, effects_count::bigint FROM chainify_ledger.block
        WHERE number > $1 AND number <= $2 ORDER BY number";
    counted(client, sql, range)
}

/// The blocks of a range that are there, each with how many rows are kept of it.
pub fn rows(client: &SpiClient<'_>, range: Range) -> Vec<(i64, i64)> {
    let sql = "SELECT number, effects_count::bigint + tx_count + 1 FROM chainify_ledger.block
        WHERE number > $1 AND number <= $2 ORDER BY number";
    counted(client, sql, range)
}

fn counted(client: &SpiClient<'_>, sql: &str, range: Range) -> Vec<(i64, i64)> {
    let bounds = [range.after.into(), range.to.into()];
    let mut rows = Cursor::open(client, Sees::Latest, sql, &bounds);
    let mut blocks = Vec::new();
    while let Some(row) = rows.next_row() {
        blocks.extend(row.bigint(1).zip(row.bigint(2)));
    }
    blocks
}
