//! `chainify_node.repair`: brings the ledger tables back to the certified state at the end of a block, from checkpoint and
//! history (ChainifyDB's recovery, row by row instead of table by table).
//!
//! Invariant R1: nothing changes before checkpoint and history have been shown to give the certified state root.
//! Invariant R2: afterwards every table scans to its certified state, or everything is undone by an error.
//! Rows are written with the rights of the table's owner, because constraints and index expressions may call functions
//! that the owner wrote; foreign keys do not fire (`session_replication_role`, set for the SQL function), so the order
//! of rows and tables does not matter.

use chainify_codec::state_root;
use chainify_ledger::audit::StoredBlock;
use pgrx::prelude::*;
use pgrx::spi::SpiClient;
use pgrx::JsonB;
use serde_json::{json, Value};

use crate::api::ledger_tables::{self, LedgerTable, State};
use crate::api::verify_table::last_block;
use crate::api::{checkpoint, definitions, half, rows, scrub, session, triggers, verify};
use crate::pg::cursor::{Cursor, Sees};
use crate::pg::error::{OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call, Cell};
use crate::pg::role::Role;
use crate::pg::spi;

crate::sql_function!(chainify_repair, pg_finfo_chainify_repair, repair);
crate::sql_function!(
    chainify_record_deviation,
    pg_finfo_chainify_record_deviation,
    record_deviation
);

/// Rows recorded and returned of one table; more are put right all the same, and one further row says how many.
const ROWS_RECORDED_MAX: i64 = 10_000;

/// The differing rows of the table being repaired, out of reach of other sessions. Dropped before the next table.
const STAGE: &str = "pg_temp.chainify_repair";

/// One thing that was put right.
struct Cured {
    table: String,
    key: Option<JsonB>,
    expected: Option<JsonB>,
    found: Option<JsonB>,
    /// How many it stands for.
    rows: i64,
}

impl Cured {
    fn rows(&self) -> i64 {
        self.rows
    }

    fn of_table(table: &LedgerTable, expected: Value, found: Value) -> Self {
        Cured {
            table: table.name.clone(),
            key: None,
            expected: Some(JsonB(expected)),
            found: Some(JsonB(found)),
            rows: 1,
        }
    }

    fn cells(&self) -> [Cell; 4] {
        let json =
            |value: &Option<JsonB>| cell::<JsonB>(value.as_ref().map(|json| JsonB(json.0.clone())));
        [
            cell(self.table.clone()),
            json(&self.key),
            json(&self.expected),
            json(&self.found),
        ]
    }
}

/// `chainify_node.repair(number, certified_hash, deviating_block, found_hash)`; contract in spec/sql-api.md. No rows when
/// nothing differed. Cost: for each table two scans of table and history, and two sorts.
fn repair(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let certified: Vec<u8> = call.required(1, "certified_hash");
    let deviating: i64 = call.required(2, "deviating_block");
    let found: Option<Vec<u8>> = call.arg(3);
    rows::forget();
    let mut cured = Vec::new();
    session::unrecorded(|| {
        checkpoint::lock_bases();
        Spi::connect(|client| {
            check_position(client, number).or_raise();
            half::take_back(number);
            if number > 0 {
                cured = repair_tables(client, number, &certified).or_raise();
            }
        });
        record(&cured, number, deviating, found);
    });
    call.rows(|row| cured.iter().for_each(|cured| row(&cured.cells())))
}

fn check_position(client: &SpiClient<'_>, number: i64) -> Result<(), PgError> {
    match last_block(client, Sees::Latest).unwrap_or(0) {
        position if position == number => Ok(()),
        position => Err(PgError::new(
            b"55000",
            format!("repair of block {number}, but the last block is {position}"),
        )),
    }
}

fn beyond_repair(detail: String) -> PgError {
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
    let tables = ledger_tables::all(client, Sees::Latest);
    for table in &tables {
        if let Some(why) = table.unreadable() {
            return Err(beyond_repair(format!("Table {}: {why}.", table.name)));
        }
        spi::connected(|| {
            spi::execute(
                &format!(
                    "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
                    table.live_name()
                ),
                &[],
            )
        });
    }
    let expected = expected_states(client, &tables, number, &header)?;
    check_definitions(client)?;
    let mut cured = Vec::new();
    for (table, expected) in tables.iter().zip(&expected) {
        cured.extend(repair_triggers(client, table));
        check_schema(client, table)?;
        cured.extend(repair_running_state(table, expected));
        if !same(table, &table.live_state(client, Sees::Latest), expected) {
            cured.extend(repair_rows(client, table, number));
            if !same(table, &table.live_state(client, Sees::Latest), expected) {
                return Err(PgError::new(
                    b"XX000",
                    format!(
                        "table {} is not in the certified state after repair",
                        table.name
                    ),
                ));
            }
        }
    }
    Ok(cured)
}

fn same(table: &LedgerTable, one: &State, other: &State) -> bool {
    table.state_hash(one) == table.state_hash(other)
}

/// The header of the block, once it hashes to what was certified.
fn certified_header(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<StoredBlock, PgError> {
    let chain_id = verify::chain_id(client, Sees::Latest);
    let kept = verify::block(client, Sees::Latest, number)
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

/// What every table has to hold; shown to hash to the certified state root.
fn expected_states(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    number: i64,
    header: &StoredBlock,
) -> Result<Vec<State>, PgError> {
    let states: Vec<_> = tables
        .iter()
        .map(|table| table.expected_state(client, Sees::Latest, number))
        .collect();
    let hashes = tables
        .iter()
        .zip(&states)
        .map(|(table, state)| (table.name.as_str(), table.state_hash(state)));
    let definitions = definitions::entry(client, Sees::Latest);
    match state_root(hashes.chain(definitions))[..] == header.state_root[..] {
        true => Ok(states),
        false => {
            let detail = format!("The rows of checkpoint and history give another state root than block {number} has.");
            Err(beyond_repair(detail)
                .hint("chainify.verify_ledger() names the blocks whose history was changed."))
        }
    }
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
fn check_definitions(client: &SpiClient<'_>) -> Result<(), PgError> {
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
fn check_schema(client: &SpiClient<'_>, table: &LedgerTable) -> Result<(), PgError> {
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

fn repair_rows(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> Vec<Cured> {
    let owner = Role::owner_of(table.relation);
    spi::connected(|| {
        spi::execute(
            &format!(
                "CREATE TEMPORARY TABLE chainify_repair ON COMMIT DROP AS {}",
                table.differences(number)
            ),
            &[],
        );
        spi::execute(
            &format!("GRANT SELECT ON {STAGE} TO {}", quoted(&owner.name())),
            &[],
        );
    });
    let forced = lift_forced_policies(client, table);
    let parts = parts(client);
    owner.run(|| {
        spi::connected(|| {
            for (oid, name) in parts {
                let places = format!("SELECT place FROM {STAGE} WHERE part = {oid}");
                spi::execute(
                    &format!("DELETE FROM ONLY {name} WHERE ctid = ANY (ARRAY({places}))"),
                    &[],
                );
            }
            spi::execute(&insert_expected(table), &[]);
        })
    });
    if forced {
        spi::connected(|| {
            spi::execute(
                &format!("ALTER TABLE {} FORCE ROW LEVEL SECURITY", table.live_name()),
                &[],
            )
        });
    }
    let cured = staged_rows(client, table);
    spi::connected(|| spi::execute(&format!("DROP TABLE {STAGE}"), &[]));
    cured
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
        .map(|column| format!("(v).{column}"))
        .collect();
    format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM (SELECT DISTINCT ON (k) k, v FROM {STAGE} WHERE expected IS NOT NULL ORDER BY k) e",
        table.live_name(),
        written.join(", "),
        values.join(", "),
    )
}

/// Policies that bind even the owner would hide rows from the repair; returns whether there were.
fn lift_forced_policies(client: &SpiClient<'_>, table: &LedgerTable) -> bool {
    let sql = "SELECT relforcerowsecurity FROM pg_catalog.pg_class WHERE oid = $1";
    let forced = Cursor::open(client, Sees::Latest, sql, &[table.relation.into()])
        .next_row()
        .and_then(|row| row.boolean(1));
    let forced = forced.unwrap_or_default();
    if forced {
        spi::connected(|| {
            spi::execute(
                &format!(
                    "ALTER TABLE {} NO FORCE ROW LEVEL SECURITY",
                    table.live_name()
                ),
                &[],
            )
        });
    }
    forced
}

/// The relations that hold rows to be taken away: the table or its partitions, with their quoted names.
fn parts(client: &SpiClient<'_>) -> Vec<(i64, String)> {
    let sql = format!(
        "SELECT c.oid::int8, format('%I.%I', n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid IN (SELECT part::oid FROM {STAGE}) ORDER BY 1"
    );
    let mut parts = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    while let Some(row) = rows.next_row() {
        parts.push((
            row.bigint(1).unwrap_or_default(),
            row.text(2).unwrap_or_default(),
        ));
    }
    parts
}

fn staged_rows(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<Cured> {
    let sql = format!("SELECT key, expected, found, count(*) OVER () FROM {STAGE} ORDER BY k, place LIMIT {ROWS_RECORDED_MAX}");
    let (mut cured, mut total) = (Vec::new(), 0);
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    while let Some(row) = rows.next_row() {
        total = row.bigint(4).unwrap_or_default();
        cured.push(Cured {
            table: table.name.clone(),
            key: row.json(1),
            expected: row.json(2),
            found: row.json(3),
            rows: 1,
        });
    }
    if total > ROWS_RECORDED_MAX {
        let rest = json!({ "rows_not_recorded": total - ROWS_RECORDED_MAX });
        let mut rest = Cured::of_table(table, Value::Null, rest);
        rest.rows = total - ROWS_RECORDED_MAX;
        cured.push(rest);
    }
    cured
}

/// Opens a record of the deviation, or takes over that of the scrubber; `record_deviation` closes it when the block has
/// been executed again. With no block waiting for the repair, `deviating` being the position, it is closed at once.
fn record(cured: &[Cured], number: i64, deviating: i64, found: Option<Vec<u8>>) {
    let mut tables: Vec<_> = cured.iter().map(|cured| cured.table.as_str()).collect();
    tables.dedup();
    let since = Spi::connect(|client| scrub::since(client, &tables));
    spi::connected(|| {
        let mut id = None;
        let total: i64 = cured.iter().map(Cured::rows).sum();
        if !cured.is_empty() {
            let sql = "WITH known AS (
                    UPDATE chainify_ledger.deviation SET block = $1, found_hash = $2, rows_total = $4
                    WHERE id = (SELECT id FROM chainify_ledger.deviation WHERE cured_by IS NULL AND found_by = 'scrubber' ORDER BY id LIMIT 1)
                    RETURNING id),
                forgotten AS (DELETE FROM chainify_ledger.deviation_row r USING known k WHERE r.deviation = k.id),
                new AS (
                    INSERT INTO chainify_ledger.deviation (block, found_hash, since_block, rows_total, found_by)
                    SELECT $1, $2, $3, $4, CASE WHEN $5 THEN 'scrubber' ELSE 'block' END WHERE NOT EXISTS (SELECT FROM known) RETURNING id)
                SELECT id FROM known UNION ALL SELECT id FROM new";
            let arguments = [
                cell(deviating),
                cell::<Vec<u8>>(found),
                cell::<i64>(since),
                cell(total),
                cell(deviating == number),
            ];
            spi::query(sql, &arguments, |row| id = row.get::<i64>(1));
        }
        let sql = "INSERT INTO chainify_ledger.deviation_row (deviation, tbl, key, expected, found) VALUES ($1, $2, $3, $4, $5)";
        for cured in cured {
            let [table, key, expected, found] = cured.cells();
            spi::query(sql, &[cell::<i64>(id), table, key, expected, found], |_| ());
        }
        if deviating == number {
            let sql = "UPDATE chainify_ledger.deviation SET cured_by = 'repair', took = clock_timestamp() - started_at
                WHERE cured_by IS NULL AND found_by = 'scrubber'";
            spi::query(sql, &[], |_| ());
        }
    });
}

/// `chainify_node.record_deviation`: closes the open record of the block, or adds one without rows.
fn record_deviation(call: &mut Call) -> Answer {
    let block: i64 = call.required(0, "deviating_block");
    let (expected, found): (Option<Vec<u8>>, Option<Vec<u8>>) = (call.arg(1), call.arg(2));
    let cured_by: String = call.required(3, "cured_by");
    let took: Option<Interval> = call.arg(4);
    let sql = "WITH open AS (
            UPDATE chainify_ledger.deviation
            SET expected_hash = $2, found_hash = coalesce($3, found_hash), cured_by = $4, took = $5
            WHERE block = $1 AND cured_by IS NULL RETURNING id)
        INSERT INTO chainify_ledger.deviation (block, expected_hash, found_hash, cured_by, took, found_by)
        SELECT $1, $2, $3, $4, $5, 'block' WHERE NOT EXISTS (SELECT FROM open)";
    let arguments = [
        cell(block),
        cell::<Vec<u8>>(expected),
        cell::<Vec<u8>>(found),
        cell(cured_by),
        cell::<Interval>(took),
    ];
    spi::connected(|| spi::query(sql, &arguments, |_| ()));
    call.void()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
