//! The checks before and after every step of recovery: they compare this database with the
//! certified state.
use chainify_codec::{state_root, State};
use chainify_ledger::audit::StoredBlock;

use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::live_state;
use crate::ledger::{definitions, ledger_tables, stored_blocks};
use crate::pg::base::cursor::Sees;
use crate::pg::base::error::PgError;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

pub fn beyond_repair(detail: String) -> PgError {
    PgError::new(
        b"CH002",
        "checkpoint and history do not give the certified state",
    )
    .detail(detail)
}

/// Every table on the ledger, readable and safe from others until the transaction ends.
pub fn locked(client: &SpiClient<'_>) -> Result<Vec<LedgerTable>, PgError> {
    let tables = ledger_tables::all(client, Sees::Latest);
    for table in &tables {
        if let Some(why) = table.unreadable() {
            return Err(beyond_repair(format!("Table {}: {why}.", table.name)));
        }
        let sql = format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
            table.live_name()
        );
        spi::connected(|| spi::execute(&sql, &[]));
    }
    Ok(tables)
}

/// The header of the block, once it hashes to what was certified.
pub fn certified_header(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<StoredBlock, PgError> {
    let chain_id = stored_blocks::chain_id(client, Sees::Latest);
    let kept = stored_blocks::block(client, Sees::Latest, number)
        .ok_or_else(|| beyond_repair(format!("Block {number} is gone.")))?;
    match kept.header(&chain_id) {
        Ok(header) if header.hash()[..] == *certified => Ok(kept),
        Ok(_) => Err(beyond_repair(format!(
            "The header kept of block {number} has another hash than the certified one."
        ))),
        Err(error) => Err(beyond_repair(format!(
            "The header kept of block {number} is malformed: {error}."
        ))),
    }
}

/// Whether these states of all tables hash to the certified state root.
pub fn are_certified<'s>(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    states: impl Iterator<Item = &'s State>,
    header: &StoredBlock,
) -> bool {
    let hashes = tables
        .iter()
        .zip(states)
        .map(|(table, state)| (table.name.as_str(), table.state_hash(state)));
    let definitions = definitions::entry(client, Sees::Latest);
    state_root(hashes.chain(definitions))[..] == header.state_root[..]
}

pub fn same(table: &LedgerTable, one: &State, other: &State) -> bool {
    table.state_hash(one) == table.state_hash(other)
}

pub fn not_certified_after(table: &LedgerTable) -> PgError {
    let message = format!(
        "table {} is not in the certified state after repair",
        table.name
    );
    PgError::new(b"XX000", message)
}

/// Raises an error when a table does not scan to `state`.
pub fn check_live(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    state: &State,
) -> Result<(), PgError> {
    match same(table, &live_state(client, table), state) {
        true => Ok(()),
        false => Err(not_certified_after(table)),
    }
}

/// Nor can a function or a right; the text kept says how it was.
pub fn check_definitions(client: &SpiClient<'_>) -> Result<(), PgError> {
    match definitions::defects(client, Sees::Latest).into_iter().next() {
        None => Ok(()),
        Some(defect) => Err(beyond_repair(format!(
            "The definition of {} is not the certified one.",
            defect.object
        ))
        .hint("Put it back as the view chainify.definitions has it, with SET chainify.guard = off as a superuser.")),
    }
}

/// A definition cannot be put right from rows; an operator has to.
pub fn check_schema(client: &SpiClient<'_>, table: &LedgerTable) -> Result<(), PgError> {
    match table.live_schema_hash(client, Sees::Latest) {
        Some(hash) if hash == table.schema_hash => Ok(()),
        _ => Err(beyond_repair(format!(
            "The definition of table {} is not the certified one.",
            table.name
        ))
        .hint("Put the definition back as it was, with SET chainify.guard = off as a superuser.")),
    }
}
