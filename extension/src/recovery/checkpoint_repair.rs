//! Recovery of checkpoints from tables. When neither base and history nor blocks executed again
//! give the certified state, but the tables do, the checkpoints were changed. The tables then
//! become their base.

use chainify_codec::{hex, State};
use serde_json::json;

use crate::ledger::checkpoints;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::{live_state, states_told, Scan};
use crate::pg::base::cursor::Sees;
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::certified::{
    are_certified, beyond_repair, certified_header, check_definitions, locked, same,
};
use crate::recovery::cured::Cured;
use crate::recovery::row_repair::repair_definition;
use crate::recovery::{earlier_blocks, scrub};
use crate::verify::table;

/// Takes the tables as the new base of their checkpoints once they are shown to be as certified
/// (R1); CH002 when they are not. A history that was changed stays so: verification names it. Cost:
/// two scans of each table, one of base and history, a copy of tables whose base is no longer
/// theirs.
pub fn rebase(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Cured>, PgError> {
    let header = certified_header(client, number, certified)?;
    let tables = locked(client)?;
    let live: Vec<_> = tables
        .iter()
        .map(|table| live_state(client, table))
        .collect();
    if !are_certified(client, &tables, live.iter(), &header) {
        return Err(beyond_repair(format!(
            "The tables give another state root than block {number} has."
        )));
    }
    check_definitions(client)?;
    let mut cured = Vec::new();
    for (table, live) in tables.iter().zip(&live) {
        cured.extend(repair_definition(client, table, live)?);
    }
    cured.extend(take_bases(client, number, &tables)?);
    Ok(cured)
}

/// Makes the tables, shown to be as certified, the base of their checkpoints where these tell other
/// rows, or history after the base was changed.
pub fn take_bases(
    client: &SpiClient<'_>,
    number: i64,
    tables: &[LedgerTable],
) -> Result<Vec<Cured>, PgError> {
    let false_history = scrub::history_is_false(client);
    let mut cured = Vec::new();
    for table in tables {
        let live = live_state(client, table);
        let told = Scan::told(client, table, number).state;
        if false_history || !same(table, &told, &live) {
            cured.push(take_base(table, number, &told, &live));
        }
    }
    if !cured.is_empty() {
        checkpoints::make(number);
        earlier_blocks::read_again_after(0); // nothing has shown the history before to be true
    }
    Ok(cured)
}

fn take_base(table: &LedgerTable, number: i64, told: &State, live: &State) -> Cured {
    make_base(table, number);
    let shown = |state: &State| json!({ "checkpoint": { "rows": state.row_count, "state": hex(&table.state_hash(state)) } });
    Cured::of_table(table, shown(live), shown(told))
}

/// Makes the table, shown to be as certified at block `number`, the base of its checkpoints. Cost:
/// a copy of the table.
pub fn make_base(table: &LedgerTable, number: i64) {
    let base = table.checkpoint.as_deref().unwrap_or_default();
    let columns = table.listed("");
    let rows = format!(
        "INSERT INTO {base} ({columns}) SELECT {columns} FROM {}",
        table.live_name()
    );
    spi::connected(|| {
        spi::execute(&format!("DELETE FROM {base}"), &[]);
        spi::execute(&rows, &[]);
        let sql = "WITH gone AS (DELETE FROM chainify_ledger.checkpoint WHERE table_id = $1)
            UPDATE chainify_ledger.ledger_table SET base_block = $2 WHERE id = $1";
        spi::query(sql, &[cell(table.id), cell(number)], |_| ());
    });
}

/// Drops the checkpoints whose rows are no longer those kept with them, and makes a new one of the
/// position, `number`, whose tables the caller has shown to be as certified. Cost: a scan of base
/// and history, and a sort.
pub fn drop_false(client: &SpiClient<'_>, number: i64) -> Vec<Cured> {
    let mut dropped = Vec::new();
    for table in ledger_tables::all(client, Sees::Latest) {
        let kept = checkpoints::of_table(client, Sees::Latest, &table);
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
        checkpoints::make(number);
    }
    dropped
}
