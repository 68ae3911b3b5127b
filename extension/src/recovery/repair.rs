//! `chainify_node.repair`: brings the ledger tables back to the certified state at the end of a block, from checkpoint and
//! history (ChainifyDB's recovery, row by row instead of table by table).
//!
//! Invariant R1: nothing changes before checkpoint and history have been shown to give the certified state root.
//! Invariant R2: afterwards every table scans to its certified state, or everything is undone by an error.
//! Rows are written with the rights of the table's owner, because constraints and index expressions may call functions
//! that the owner wrote; foreign keys do not fire (`session_replication_role`, set for the SQL function), so the order
//! of rows and tables does not matter.

use std::collections::HashSet;

use crate::pg::base::spi::SpiClient;
use chainify_codec::{state_root, State};
use chainify_ledger::audit::StoredBlock;
use pgrx::prelude::*;
use serde_json::{json, Value};

use crate::block::{half_committed, lock_conflicts};
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans;
use crate::ledger::table_scans::{live_state, Scan};
use crate::ledger::{definitions, row_bytes, session, triggers};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::run::block_settings::under_path;
use crate::recovery::deviations;
use crate::recovery::deviations::{Cured, Kind};
use crate::recovery::{
    checkpoint, checkpoint_repair, definition_repair, replay, scrub, start_over,
};
use crate::verify::table::last_block;
use crate::verify::{indexes, ledger};

crate::sql_function!(chainify_repair, pg_finfo_chainify_repair, repair);

/// The differing rows of the table being repaired, out of reach of other sessions. Dropped before the next table.
const STAGE: &str = "pg_temp.chainify_repair";

/// `chainify_node.repair(number, certified_hash, deviating_block, found_hash, step)`; contract in spec/sql-api.md. No rows
/// when nothing differed. Cost of rows: for each table a scan of base and history and one of the table (ledger/table_scans.rs); where they
/// differ, a second scan of both and a third of the table that read keys alone but for the ranges that do. Of the others see there.
fn repair(call: &mut Call) -> Answer {
    let recovery = Recovery::of(call);
    let step: String = call.required(4, "step");
    let (by, cured_by): (Step, _) = match step.as_str() {
        "rows" => (repair_tables, "repair"),
        "replay" => (replay::replay, "replay"),
        "rebase" => (checkpoint_repair::rebase, "rebase"),
        "full" => return recovery.start_over(call),
        "definitions" => {
            return recovery.run_part(
                call,
                "definitions",
                Kind::Definitions,
                definition_repair::put_back,
            )
        }
        "reindex" => {
            let waiting = recovery.deviating != recovery.number;
            return recovery.run_part(
                call,
                "reindex",
                Kind::Indexes,
                |client, number, certified| indexes::reindex(client, number, certified, waiting),
            );
        }
        _ => PgError::new(b"22023", format!("there is no step \"{step}\" of recovery"))
            .hint("Steps are definitions, reindex, rows, replay, rebase and full.")
            .raise(),
    };
    recovery.run(call, cured_by, by)
}

/// What every way of repairing is asked: the position, its certified hash, the block that deviates, the hash it had.
pub struct Recovery {
    number: i64,
    certified: Vec<u8>,
    deviating: i64,
    found: Option<Vec<u8>>,
}

impl Recovery {
    /// The first four arguments of a call.
    pub fn of(call: &Call) -> Self {
        Recovery {
            number: call.required(0, "number"),
            certified: call.required(1, "certified_hash"),
            deviating: call.required(2, "deviating_block"),
            found: call.arg(3),
        }
    }

    /// Takes the ledger back to before its first block. The record of it stays open until the node has executed the blocks again.
    fn start_over(self, call: &mut Call) -> Answer {
        row_bytes::forget();
        session::unrecorded(|| {
            checkpoint::lock_bases();
            lock_conflicts::before_locals(self.deviating, || {
                spi::connect(|client| {
                    check_position(client, self.number).or_raise();
                    start_over::start_over(client, self.deviating, self.found).or_raise();
                })
            })
        });
        call.rows(|_| ())
    }

    /// Puts one kind of thing right and records it: what else differs is left to the steps after it.
    fn run_part(
        self,
        call: &mut Call,
        cured_by: &str,
        kind: Kind,
        by: impl FnOnce(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>,
    ) -> Answer {
        let (number, deviating) = (self.number, self.deviating);
        row_bytes::forget();
        let mut cured = Vec::new();
        session::unrecorded(|| {
            checkpoint::lock_bases();
            // Definitions and indexes take locks that readers are in the way of.
            lock_conflicts::before_locals(deviating, || {
                spi::connect(|client| {
                    check_position(client, number).or_raise();
                    half_committed::take_back(number);
                    if number > 0 {
                        cured = by(client, number, &self.certified).or_raise();
                    }
                })
            });
            deviations::record_part(&cured, kind, number, deviating, self.found, cured_by);
        });
        call.rows(|row| cured.iter().for_each(|cured| row(&cured.cells())))
    }

    /// Repairs by one way and records what differed.
    pub fn run(
        self,
        call: &mut Call,
        cured_by: &str,
        by: impl FnOnce(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>,
    ) -> Answer {
        let (number, deviating) = (self.number, self.deviating);
        row_bytes::forget();
        let mut cured = Vec::new();
        session::unrecorded(|| {
            checkpoint::lock_bases();
            spi::connect(|client| {
                check_position(client, number).or_raise();
                half_committed::take_back(number);
                if number > 0 {
                    cured = by(client, number, &self.certified).or_raise();
                    if deviating == number {
                        cured.extend(checkpoint::drop_false(client, number));
                    }
                }
            });
            deviations::record(&cured, number, deviating, self.found, cured_by);
        });
        call.rows(|row| cured.iter().for_each(|cured| row(&cured.cells())))
    }
}

/// One way of repairing: the position, its certified hash.
type Step = fn(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>;

fn check_position(client: &SpiClient<'_>, number: i64) -> Result<(), PgError> {
    match last_block(client, Sees::Latest).unwrap_or(0) {
        position if position == number => Ok(()),
        position => Err(PgError::new(
            b"55000",
            format!("repair of block {number}, but the last block is {position}"),
        )),
    }
}

pub fn beyond_repair(detail: String) -> PgError {
    PgError::new(
        b"CH002",
        "checkpoint and history do not give the certified state",
    )
    .detail(detail)
}

fn repair_tables(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Cured>, PgError> {
    let header = certified_header(client, number, certified)?;
    let tables = locked(client)?;
    if scrub::history_is_false(client) {
        // Later changes of the same rows hide it: rows come out right, and the base could never be brought past it.
        return Err(beyond_repair(
            "The history of a block after the base of the checkpoints was changed.".into(),
        ));
    }
    let told: Vec<_> = tables
        .iter()
        .map(|table| Scan::told(client, table, number))
        .collect();
    let states = told.iter().map(|told| &told.state);
    if !are_certified(client, &tables, states, &header) {
        return Err(beyond_repair(format!(
            "The rows of checkpoint and history give another state root than block {number} has."
        ))
        .hint("chainify.verify_ledger() names the blocks whose history was changed."));
    }
    check_definitions(client)?;
    let mut cured = Vec::new();
    for (table, told) in tables.iter().zip(&told) {
        cured.extend(put_right(client, table, number, told)?);
    }
    Ok(cured)
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

/// Brings a table to what base and history tell of the end of block `number`, which has to be `state`.
pub fn put_right(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    number: i64,
    told: &Scan,
) -> Result<Vec<Cured>, PgError> {
    put_right_from(client, table, &table.expected_rows(number), told)
}

/// Brings a table to `rows` (as [`LedgerTable::expected_rows`] gives them), in which a scan found `told`. Only ranges of keys in
/// which a scan of the table differs are compared row by row, and scanned again at the end: nobody else writes meanwhile.
pub fn put_right_from(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    rows: &str,
    told: &Scan,
) -> Result<Vec<Cured>, PgError> {
    let mut cured = repair_definition(client, table, &told.state)?;
    cured.extend(put_rows_right(client, table, rows, told)?);
    Ok(cured)
}

/// The same without a look at what the table is beside its rows.
pub fn put_rows_right(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    rows: &str,
    told: &Scan,
) -> Result<Vec<Cured>, PgError> {
    let ranges = told.differing(client, table);
    if ranges.ranges().is_empty() {
        return Ok(Vec::new());
    }
    let differences = table.differences_in(&ranges, rows);
    let doubles = table.doubles_in(&ranges, rows);
    let differences = format!("({differences}) UNION ALL {doubles}");
    let cured = repair_rows(client, table, &differences, true);
    match told.agrees_in(client, table, &ranges) {
        true => Ok(cured),
        false => Err(not_certified_after(table)),
    }
}

fn not_certified_after(table: &LedgerTable) -> PgError {
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

/// What a table is beside its rows.
pub fn repair_definition(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    state: &State,
) -> Result<Vec<Cured>, PgError> {
    let mut cured = repair_triggers(client, table);
    check_schema(client, table)?;
    cured.extend(repair_running_state(table, state));
    Ok(cured)
}

pub fn same(table: &LedgerTable, one: &State, other: &State) -> bool {
    table.state_hash(one) == table.state_hash(other)
}

/// The header of the block, once it hashes to what was certified.
pub fn certified_header(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<StoredBlock, PgError> {
    let chain_id = ledger::chain_id(client, Sees::Latest);
    let kept = ledger::block(client, Sees::Latest, number)
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

fn repair_triggers(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<Cured> {
    let defects = triggers::defects(client, Sees::Latest, table);
    if !defects.is_empty() {
        triggers::restore(table);
    }
    defects
        .into_iter()
        .map(|defect| Cured::of_table(table, json!(defect.expected), json!(defect.found)))
        .collect()
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

fn repair_running_state(table: &LedgerTable, expected: &State) -> Option<Cured> {
    let running = table.running_state();
    if running
        .as_ref()
        .is_some_and(|running| same(table, running, expected))
    {
        return None;
    }
    let sql = "INSERT INTO chainify_ledger.table_state (table_id, row_count, lanes) VALUES ($1, $2, $3)
        ON CONFLICT (table_id) DO UPDATE SET row_count = excluded.row_count, lanes = excluded.lanes";
    let lanes = expected.lanes.to_bytes().to_vec();
    spi::connected(|| {
        spi::query(
            sql,
            &[cell(table.id), cell(expected.row_count as i64), cell(lanes)],
            |_| (),
        )
    });
    let shown = |state: &State| json!({ "running_state": { "rows": state.row_count, "state": hex(&table.state_hash(state)) } });
    Some(Cured::of_table(
        table,
        shown(expected),
        running.as_ref().map_or(Value::Null, shown),
    ))
}

/// Puts the rows right that a query names, as [`LedgerTable::differences`] gives them. Triggers and foreign keys must be off. With `twice` a row
/// may be there that is right, beside a false one of its key: an index that says no is not relied on, the table is read for it.
pub fn repair_rows(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    differences: &str,
    twice: bool,
) -> Vec<Cured> {
    let stage = format!(
        "CREATE TEMPORARY TABLE chainify_repair ON COMMIT DROP AS
         SELECT d.*, CASE WHEN d.expected IS NOT NULL THEN chainify_ledger.row_as(NULL::{}, d.v) END AS put FROM ({differences}) d",
        table.live_name()
    );
    spi::connected(|| spi::execute(&stage, &[]));
    for (part, name) in parts(client) {
        let part_number = part.to_u32();
        let taken = format!(
            "DELETE FROM ONLY {name} WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(
                SELECT place FROM {STAGE} WHERE part OPERATOR(pg_catalog.=) {part_number}))"
        );
        as_owner(client, part, &name, &taken);
    }
    if twice {
        keep_right_ones(client, table);
    }
    as_owner(
        client,
        table.relation,
        table.live_name(),
        &insert_expected(table),
    );
    let cured = Cured::read(client, table, &format!("SELECT * FROM {STAGE} d"));
    spi::connected(|| spi::execute(&format!("DROP TABLE {STAGE}"), &[]));
    cured
}

/// Rows that are still there under a key that is to be put in are right: all that differed are gone.
fn keep_right_ones(client: &SpiClient<'_>, table: &LedgerTable) {
    let sql = format!("SELECT k FROM {STAGE} WHERE expected IS NOT NULL");
    let mut keys = HashSet::new();
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    while let Some(row) = rows.next_row() {
        keys.extend(row.bytes(1));
    }
    drop(rows);
    let there = table_scans::keys_there(client, table, &keys);
    let sql = format!("UPDATE {STAGE} SET expected = NULL, v = NULL WHERE k = $1");
    for key in there {
        spi::connected(|| spi::query(&sql, &[cell(key)], |_| ()));
    }
}

/// Changes a table or partition as its owner, who may read the stage and is bound by no policy meanwhile. A partition may
/// have another owner than its table. Conditions and expressions of indexes are evaluated as in a block.
fn as_owner(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str, sql: &str) {
    let owner = Role::owner_of(relation);
    let grant = format!("GRANT SELECT ON {STAGE} TO {}", quoted(&owner.name()));
    spi::connected(|| spi::execute(&grant, &[]));
    let forced = lift_forced_policies(client, relation, name);
    owner.run(|| spi::connected(|| under_path(|| spi::as_caller(sql, &[], |_| ()))));
    if forced {
        let sql = format!("ALTER TABLE {name} FORCE ROW LEVEL SECURITY");
        spi::connected(|| spi::execute(&sql, &[]));
    }
}

fn insert_expected(table: &LedgerTable) -> String {
    let written: Vec<_> = table
        .columns
        .iter()
        .filter(|column| !column.generated)
        .map(|column| column.quoted.as_str())
        .collect();
    let values: Vec<_> = written
        .iter()
        .map(|column| format!("(put).{column}"))
        .collect();
    format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM (SELECT DISTINCT ON (k) k, put FROM {STAGE} WHERE expected IS NOT NULL ORDER BY k) e",
        table.live_name(),
        written.join(", "),
        values.join(", "),
    )
}

/// Policies that bind even the owner would hide rows from the repair; returns whether there were.
fn lift_forced_policies(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str) -> bool {
    let sql = "SELECT relforcerowsecurity FROM pg_catalog.pg_class WHERE oid = $1";
    let forced = Cursor::open(client, Sees::Latest, sql, &[relation.into()])
        .next_row()
        .and_then(|row| row.boolean(1))
        .unwrap_or_default();
    if forced {
        let sql = format!("ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY");
        spi::connected(|| spi::execute(&sql, &[]));
    }
    forced
}

/// The relations that hold rows to be taken away: the table or its partitions, with their quoted names.
fn parts(client: &SpiClient<'_>) -> Vec<(pg_sys::Oid, String)> {
    let sql = format!(
        "SELECT c.oid::int8, format('%I.%I', n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid IN (SELECT part::oid FROM {STAGE}) ORDER BY 1"
    );
    let mut parts = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    while let Some(row) = rows.next_row() {
        parts.push((
            pg_sys::Oid::from(row.bigint(1).unwrap_or_default() as u32),
            row.text(2).unwrap_or_default(),
        ));
    }
    parts
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
