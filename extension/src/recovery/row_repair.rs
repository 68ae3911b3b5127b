//! The step *rows*: repairs each row that differs from checkpoint and history. It also restores the
//! other state of a table: definition, triggers and indexes.
//!
//! It writes rows with the rights of the table's owner, because constraints and index expressions
//! may call functions that the owner wrote. Foreign keys do not fire (`session_replication_role`,
//! set for the SQL function), so the order of rows and tables does not matter.
use std::collections::{BTreeSet, HashSet};

use chainify_codec::{hex, State};
use pgrx::prelude::*;
use serde_json::{json, Value};

use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::Scan;
use crate::ledger::{damaged_rows, table_scans, triggers};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::relation::quoted;
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::planner::block_settings::under_path;
use crate::recovery::certified::{
    are_certified, beyond_repair, certified_header, check_definitions, check_schema, locked,
    not_certified_after, same,
};
use crate::recovery::cured::Cured;
use crate::recovery::scrub;

/// The differing rows of the table in repair, out of reach of other sessions. Dropped before the
/// next table.
const STAGE: &str = "pg_temp.chainify_repair";

/// The step *rows*: every table from checkpoint and history.
pub fn repair_tables(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Cured>, PgError> {
    let header = certified_header(client, number, certified)?;
    let tables = locked(client)?;
    if scrub::history_is_false(client) {
        // Later changes of the same rows hide it: rows come out right, and the base could never be
        // brought past it.
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

/// Brings a table to what base and history tell of the end of block `number`, which has to be
/// `state`.
pub fn put_right(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    number: i64,
    told: &Scan,
) -> Result<Vec<Cured>, PgError> {
    put_right_from(client, table, &table.expected_rows(number), told)
}

/// Brings a table to `rows` (as [`LedgerTable::expected_rows`] gives them), in which a scan found
/// `told`. It compares row by row only ranges of keys in which a scan of the table differs, and
/// scans these again at the end: nobody else writes meanwhile.
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
    take_damaged_away(client, table);
    let differences = table.differences_in(&ranges, rows);
    let doubles = table.doubles_in(&ranges, rows);
    let differences = format!("({differences}) UNION ALL {doubles}");
    let cured = repair_rows(client, table, &differences, true);
    match told.agrees_in(client, table, &ranges) {
        true => Ok(cured),
        false => Err(not_certified_after(table)),
    }
}

/// Takes rows away that cannot be read, and so cannot be compared: those that should be there are
/// missing then. A row that resists stays, and the comparison fails at it.
fn take_damaged_away(client: &SpiClient<'_>, table: &LedgerTable) {
    let mut first = None;
    loop {
        let damaged = damaged_rows::of_table(client, Sees::Latest, table);
        let now = damaged.first().map(|row| (row.part, row.place.clone()));
        if now.is_none() || now == first {
            return;
        }
        first = now;
        let oids: BTreeSet<_> = damaged
            .iter()
            .map(|row| row.part.to_u32().to_string())
            .collect();
        let oids: Vec<_> = oids.into_iter().collect();
        for (part, name) in parts(client, &oids.join(", ")) {
            let rows = damaged.iter().filter(|row| row.part == part);
            let places: Vec<_> = rows.map(|row| row.place.clone()).collect();
            take_away(client, part, &name, &places);
        }
    }
}

/// Deletes the rows at these places, `(block,number)`, of a table or partition, as its owner.
pub fn take_away(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str, places: &[String]) {
    let places: Vec<_> = places.iter().map(|place| format!("\"{place}\"")).collect();
    let sql = format!(
        "DELETE FROM ONLY {name} WHERE ctid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.tid[])",
        places.join(",")
    );
    as_owner(client, relation, name, &sql);
}

/// The definition of a table.
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

/// Puts the state in place of the one kept while blocks ran.
pub fn repair_running_state(table: &LedgerTable, expected: &State) -> Option<Cured> {
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

/// Puts the rows right that a query names, as [`LedgerTable::differences`] gives them. Triggers and
/// foreign keys must be off. With `twice` a right row may be there beside a false one of its key.
/// So this does not rely on an index that says no, and reads the table for it.
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
    for (part, name) in parts(client, &format!("SELECT part::oid FROM {STAGE}")) {
        let part_number = part.to_u32();
        let taken = format!(
            "DELETE FROM ONLY {name} WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(
                SELECT place FROM {STAGE} WHERE part OPERATOR(pg_catalog.=) {part_number}))"
        );
        as_owner_with_stage(client, part, &name, &taken);
    }
    if twice {
        keep_right_ones(client, table);
    }
    put_expected(client, table);
    let cured = Cured::read(client, table, &format!("SELECT * FROM {STAGE} d"));
    spi::connected(|| spi::execute(&format!("DROP TABLE {STAGE}"), &[]));
    cured
}

/// Rows that are still there under a key that is to be put in are right: all that differed are
/// gone.
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

/// As [`as_owner`], who may read the stage.
fn as_owner_with_stage(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str, sql: &str) {
    let owner = Role::owner_of(relation);
    let grant = format!("GRANT SELECT ON {STAGE} TO {}", quoted(&owner.name()));
    spi::connected(|| spi::execute(&grant, &[]));
    as_owner(client, relation, name, sql);
}

/// Changes a table or partition as its owner, who is bound by no policy meanwhile. A partition may
/// have another owner than its table. Conditions and expressions of indexes are evaluated as in a
/// block.
pub fn as_owner(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str, sql: &str) {
    by_owner(client, relation, name, || {
        spi::connected(|| under_path(|| spi::as_caller(sql, &[], |_| ())))
    });
}

/// Runs `f` as the owner of a table, who is bound by no policy of it meanwhile.
pub fn by_owner(client: &SpiClient<'_>, relation: pg_sys::Oid, name: &str, f: impl FnOnce()) {
    let owner = Role::owner_of(relation);
    let forced = lift_forced_policies(client, relation, name);
    owner.run(f);
    if forced {
        let sql = format!("ALTER TABLE {name} FORCE ROW LEVEL SECURITY");
        spi::connected(|| spi::execute(&sql, &[]));
    }
}

/// Puts in the rows that should be there. Partitions of other owners get theirs one by one: their
/// conditions are evaluated as their own owners.
fn put_expected(client: &SpiClient<'_>, table: &LedgerTable) {
    let leaves = table.leaves(client, Sees::Latest);
    let owner = Role::owner_of(table.relation);
    if leaves.iter().all(|leaf| Role::owner_of(*leaf) == owner) {
        let (relation, name) = (table.relation, table.live_name());
        return as_owner_with_stage(
            client,
            relation,
            name,
            &insert_expected(table, name, "true"),
        );
    }
    let oids: Vec<_> = leaves.iter().map(|o| o.to_u32().to_string()).collect();
    for (part, name) in parts(client, &oids.join(", ")) {
        let sql = "SELECT pg_get_partition_constraintdef($1)";
        let condition = Cursor::open(client, Sees::Latest, sql, &[part.into()])
            .next_row()
            .and_then(|row| row.text(1));
        let condition = condition.unwrap_or_else(|| "true".into());
        as_owner_with_stage(
            client,
            part,
            &name,
            &insert_expected(table, &name, &condition),
        );
    }
}

fn insert_expected(table: &LedgerTable, into: &str, condition: &str) -> String {
    let written: Vec<_> = table
        .columns
        .iter()
        .filter(|column| !column.generated)
        .map(|column| column.quoted.as_str())
        .collect();
    let written = written.join(", ");
    format!(
        "INSERT INTO {into} ({written}) OVERRIDING SYSTEM VALUE SELECT {written} FROM (
            SELECT (put).* FROM (SELECT DISTINCT ON (k) k, put FROM {STAGE} WHERE expected IS NOT NULL ORDER BY k) e) r
        WHERE {condition}"
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

/// The relations of these ids, a list or a query: a table or its partitions, with their quoted
/// names.
pub fn parts(client: &SpiClient<'_>, ids: &str) -> Vec<(pg_sys::Oid, String)> {
    let sql = format!(
        "SELECT c.oid::int8, format('%I.%I', n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid IN ({ids}) ORDER BY 1"
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
