//! Recovery by executing again: the tables are reset to a checkpoint, and the blocks after it
//! executed from the transactions that the ledger keeps. It also repairs tables whose history was
//! changed, where comparing rows cannot help.
//!
//! Invariant R5: each block executed again must have the LedgerBlockHash to which the certified
//! headers lead back. Otherwise everything is undone, and the next older checkpoint is tried.

use chainify_codec::Hash;
use chainify_ledger::audit::StoredBlock;
use chainify_ledger::Transaction;

use crate::leader::execute_block;
use crate::ledger::checkpoints;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::stored_blocks;
use crate::ledger::table_scans::Scan;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::recovery::certified::{beyond_repair, certified_header, check_live, locked};
use crate::recovery::cured::Cured;
use crate::recovery::row_repair::put_right;
use crate::recovery::scrub;
use crate::running::request::Request;

/// A block with the hash that it must have again.
struct Wanted {
    kept: StoredBlock,
    hash: Hash,
    previous: Hash,
}

/// Resets the tables to a checkpoint and executes the blocks since again, from the newest
/// checkpoint from which they have their certified hashes; CH002 when there is none. Returns the
/// rows that differed. Cost: copies the tables once, and executes the blocks since.
pub fn replay(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Cured>, PgError> {
    certified_header(client, number, certified)?;
    let tables = locked(client)?;
    tables.iter().for_each(keep_found);
    let mut reasons = Vec::new();
    for from in candidates(client, number) {
        match subtransaction(|| from_checkpoint(client, from, number, certified)) {
            Ok(()) => {
                pgrx::log!(
                    "chainify: executed blocks {} to {number} again from checkpoint {from}",
                    from + 1
                );
                return Ok(tables
                    .iter()
                    .flat_map(|table| differed(client, table))
                    .collect());
            }
            Err(error) if error.sqlstate.as_str() == "CH002" => {
                let why = error.detail.unwrap_or(error.message);
                pgrx::log!("chainify: checkpoint {from} does not help: {why}");
                reasons.push(format!("Checkpoint {from}: {why}"));
            }
            Err(error) => return Err(error),
        }
    }
    if reasons.is_empty() {
        reasons.push("There is no checkpoint to execute blocks from again.".into());
    }
    Err(beyond_repair(reasons.join(" ")))
}

/// Checkpoints of all tables, newest first, after which the list of tables did not change. If
/// folding found false history after the base, only a checkpoint without history before it counts.
fn candidates(client: &SpiClient<'_>, number: i64) -> Vec<i64> {
    let sql = "
        SELECT c.block FROM chainify_ledger.checkpoint c JOIN chainify_ledger.ledger_table t ON t.id = c.table_id
        WHERE t.detached_at IS NULL AND c.block BETWEEN t.base_block AND $1
            AND c.block >= (SELECT max(greatest(attached_at, detached_at)) FROM chainify_ledger.ledger_table)
        GROUP BY c.block
        HAVING count(*) = (SELECT count(*) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL)
            AND (NOT $2 OR bool_and(c.block IN (t.base_block, t.attached_at)))
        ORDER BY c.block DESC";
    let arguments = [number.into(), scrub::history_is_false(client).into()];
    let mut blocks = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, sql, &arguments);
    while let Some(row) = rows.next_row() {
        blocks.extend(row.bigint(1));
    }
    blocks
}

fn from_checkpoint(
    client: &SpiClient<'_>,
    from: i64,
    number: i64,
    certified: &[u8],
) -> Result<(), PgError> {
    let wanted = wanted(client, from, number, certified)?;
    let tables = ledger_tables::all(client, Sees::Latest);
    tables
        .iter()
        .try_for_each(|table| reset(client, table, from))?;
    let mut kept = Kept::open(client, from, number);
    forget_after(&tables, from);
    for block in &wanted {
        execute_again(client, block, kept.take(block.kept.number))?;
    }
    drop(kept);
    for table in ledger_tables::all(client, Sees::Latest) {
        let running = table.running_state();
        let malformed = || beyond_repair(format!("Table {} has no running state.", table.name));
        check_live(client, &table, &running.ok_or_else(malformed)?)?;
    }
    Ok(())
}

/// The hashes of the blocks after `from`, followed back from the certified one through the stored
/// headers.
fn wanted(
    client: &SpiClient<'_>,
    from: i64,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Wanted>, PgError> {
    let chain_id = stored_blocks::chain_id(client, Sees::Latest);
    let malformed =
        |number| beyond_repair(format!("The header kept of block {number} was changed."));
    let mut hash = Hash::try_from(certified).map_err(|_| malformed(number))?;
    let mut blocks = stored_blocks::blocks(client, Sees::Latest, from + 1, number);
    let mut wanted = Vec::with_capacity(blocks.len());
    for number in (from + 1..=number).rev() {
        let kept = blocks.pop().filter(|kept| kept.number == number);
        let kept = kept.ok_or_else(|| malformed(number))?;
        let header = kept.header(&chain_id).map_err(|_| malformed(number))?;
        if header.hash() != hash {
            return Err(malformed(number));
        }
        let previous = header.previous;
        wanted.push(Wanted {
            kept,
            hash,
            previous,
        });
        hash = previous;
    }
    wanted.reverse();
    Ok(wanted)
}

/// Puts rows and running state of a table back to those of a checkpoint. The rows have to hash to
/// the checkpoint's state.
fn reset(client: &SpiClient<'_>, table: &LedgerTable, from: i64) -> Result<(), PgError> {
    let kept = checkpoints::of_table(client, Sees::Latest, table);
    let kept = kept.iter().find(|kept| kept.block == from);
    let told = Scan::told(client, table, from);
    let holds = |kept: &checkpoints::Checkpoint| {
        kept.schema_hash == table.schema_hash
            && kept.table_state[..] == table.state_hash(&told.state)[..]
    };
    if !kept.is_some_and(holds) {
        return Err(beyond_repair(format!(
            "The rows told of table {} are not those of the checkpoint.",
            table.name
        )));
    }
    put_right(client, table, from, &told).map(|_| ())
}

/// Deletes later blocks from the ledger.
fn forget_after(tables: &[LedgerTable], from: i64) {
    spi::connected(|| {
        for table in tables {
            let history = table.history.as_deref().unwrap_or_default();
            spi::execute(
                &format!("DELETE FROM {history} WHERE _block > $1"),
                &[cell(from)],
            );
        }
        for sql in [
            "DELETE FROM chainify_ledger.transaction WHERE block > $1",
            "DELETE FROM chainify_ledger.block WHERE number > $1",
            "DELETE FROM chainify_ledger.checkpoint WHERE block > $1",
        ] {
            spi::query(sql, &[cell(from)], |_| ());
        }
    });
}

fn execute_again(
    client: &SpiClient<'_>,
    wanted: &Wanted,
    (bodies, quarantined): (Vec<Vec<u8>>, Vec<i32>),
) -> Result<(), PgError> {
    let number = wanted.kept.number;
    let changed = |what: String| beyond_repair(format!("Block {number}: {what}."));
    let transactions = bodies
        .iter()
        .map(|body| Transaction::decode(body))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| changed(format!("a transaction is malformed: {error}")))?;
    let request = Request {
        chain_id: stored_blocks::chain_id(client, Sees::Latest),
        number,
        order_height: wanted.kept.order_height,
        block_time: wanted.kept.block_time,
        previous: wanted.previous,
        transactions,
        indices: (0..bodies.len() as u32).collect(),
        bodies: bodies.iter().map(Vec::as_slice).collect(),
        runs: Vec::new(),
        quarantined,
        refused: Vec::new(),
        quarantine_all: false,
        effect_hashes: false,
    };
    let request = request.with_runs();
    let block = spi::connected(|| execute_block::again(&request));
    match block.hash() == wanted.hash {
        true => Ok(()),
        false => Err(changed(
            "executed again, it has other effects than those certified".into(),
        )),
    }
}

/// Reads the stored transactions block by block, as of the moment when it was opened.
struct Kept<'c> {
    rows: Cursor<'c>,
    next: Option<(i64, KeptTransaction)>,
}

/// Its place in the block, its bytes as ordered, whether it was quarantined.
type KeptTransaction = (i32, Vec<u8>, bool);

impl<'c> Kept<'c> {
    fn open(client: &'c SpiClient<'c>, from: i64, number: i64) -> Self {
        // CH011: the node refused it, in a ledger of several engines.
        let sql = "SELECT block, index, body, (NOT succeeded AND sqlstate IN ('CH001', 'CH011')) IS TRUE
            FROM chainify_ledger.transaction WHERE block > $1 AND block <= $2 ORDER BY block, index";
        let rows = Cursor::open(client, Sees::Latest, sql, &[from.into(), number.into()]);
        let mut kept = Kept { rows, next: None };
        kept.advance();
        kept
    }

    fn advance(&mut self) -> Option<(i64, KeptTransaction)> {
        let next = self.rows.next_row().map(|row| {
            let transaction = (
                row.int(2).unwrap_or_default(),
                row.bytes(3).unwrap_or_default(),
                row.boolean(4).unwrap_or_default(),
            );
            (row.bigint(1).unwrap_or_default(), transaction)
        });
        std::mem::replace(&mut self.next, next)
    }

    /// Bodies of block `number`, in order, and the places of those that were quarantined. Blocks
    /// are taken in order.
    fn take(&mut self, number: i64) -> (Vec<Vec<u8>>, Vec<i32>) {
        let (mut bodies, mut quarantined) = (Vec::new(), Vec::new());
        while self
            .next
            .as_ref()
            .is_some_and(|(block, _)| *block <= number)
        {
            let Some((block, (index, body, was))) = self.advance() else {
                break;
            };
            if block == number {
                bodies.push(body);
                quarantined.extend(Some(index).filter(|_| was));
            }
        }
        (bodies, quarantined)
    }
}

/// The name of the table with the rows from before the reset, until the rows that differed are
/// known.
fn found_name(table: &LedgerTable) -> String {
    format!("pg_temp.chainify_found_{}", table.id)
}

fn keep_found(table: &LedgerTable) {
    let sql = format!(
        "CREATE TEMPORARY TABLE chainify_found_{} ON COMMIT DROP AS SELECT * FROM {}",
        table.id,
        table.live_name()
    );
    spi::connected(|| spi::execute(&sql, &[]));
}

fn differed(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<Cured> {
    let found = found_name(table);
    let cured = Cured::read(client, table, &table.differences_from(&found));
    spi::connected(|| spi::execute(&format!("DROP TABLE {found}"), &[]));
    cured
}
