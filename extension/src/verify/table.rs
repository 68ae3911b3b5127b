//! `chainify.verify_table`: one table against the state that organisations agreed on, by a full
//! rescan, and row by row against checkpoint and history.

use chainify_codec::{hex, state_root, Hash, State};
use pgrx::{pg_sys, JsonB};
use serde_json::{json, Value};

use crate::block::half_committed;
use crate::ledger::checkpoints;
use crate::ledger::checkpoints::Checkpoint;
use crate::ledger::damaged_rows::DamagedRow;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::stored_blocks;
use crate::ledger::table_scans::Compared;
use crate::ledger::{damaged_rows, definitions, definitions_lock, row_bytes, triggers};
use crate::pg::base::catalog::is_partitioned;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::shared::progress::{Phase, Progress};
use crate::verify::finding::Finding;
use crate::verify::indexes;

crate::pg::sql_function!(
    chainify_verify_table,
    pg_finfo_chainify_verify_table,
    verify_table
);

/// Rows named; a table that differs in more says so in one further finding.
const ROWS_MAX: usize = 10_000;

/// `chainify.verify_table(tbl)`: one row per finding. Cost: one read of table, base and the history
/// since (ledger/table_scans.rs), a sort of that, and where they differ a join of them.
fn verify_table(call: &mut Call) -> Answer {
    let relation: pg_sys::Oid = call.required(0, "tbl");
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let tables = ledger_tables::all(client, Sees::Statement);
            let Some(table) = tables.iter().find(|table| table.relation == relation) else {
                PgError::new(b"42P01", "table is not on the ledger").raise()
            };
            let progress = Progress::start(relation);
            check(client, &tables, table, &progress, &mut |finding| {
                row(&[
                    cell(table.name.clone()),
                    cell(finding.what.to_owned()),
                    cell::<JsonB>(finding.key),
                    cell::<JsonB>(finding.expected),
                    cell::<JsonB>(finding.found),
                ]);
            });
        })
    })
}

fn check(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    table: &LedgerTable,
    progress: &Progress,
    report: &mut dyn FnMut(Finding),
) {
    progress.phase(Phase::Definition, 0);
    let defects = definitions_lock::seen_twice(|client| definition_findings(client, table.id));
    defects
        .unwrap_or_else(|| definitions_lock::refusal().raise())
        .into_iter()
        .for_each(&mut *report);
    if table.unreadable().is_some() {
        return;
    }
    let Some(number) = stored_blocks::last_block(client, Sees::Statement) else {
        return report(Finding::of_table(
            "state root",
            json!("a block"),
            Value::Null,
        ));
    };
    let checkpoints = checkpoints::of_table(client, Sees::Statement, table);
    let mut blocks: Vec<_> = checkpoints.iter().map(|kept| kept.block).collect();
    blocks.push(number);
    progress.phase(Phase::Hashing, 2 * table.row_count.max(0));
    let mut compared = Compared::of(client, table, &blocks, &mut |rows| progress.done(rows));
    let told = compared.told.pop();
    for (kept, state) in checkpoints.iter().zip(&compared.told) {
        checkpoint_finding(table, kept, state)
            .into_iter()
            .for_each(&mut *report);
    }
    let certified = check_states(client, tables, table, &compared.live, number, report);
    let same = told.is_some_and(|told| table.state_hash(&told) == table.state_hash(&compared.live));
    let mut rows = Vec::new();
    let mut readable = true;
    if !same {
        progress.phase(Phase::Rows, 0);
        readable = check_rows(client, table, number, certified, &mut |row| rows.push(row));
    }
    if readable {
        check_indexes(client, table, progress, report);
    }
    rows.into_iter().for_each(report);
}

/// Compares the indexes with what they are of: the table, the base of its checkpoints, and its
/// history.
fn check_indexes(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    progress: &Progress,
    report: &mut dyn FnMut(Finding),
) {
    progress.phase(Phase::Indexes, 0);
    let mut relations = indexes::read_by_index(client, Sees::Statement, table);
    relations.push(table.history_relation);
    indexes::defects(client, Sees::Statement, &relations, &mut || ())
        .into_iter()
        .for_each(|defect| report(defect.finding()));
}

/// Where triggers and definition of this version of a table are not what they should be; nothing
/// when it has ended.
pub fn definition_findings(client: &SpiClient<'_>, id: i32) -> Vec<Finding> {
    let tables = ledger_tables::all(client, Sees::Latest);
    let mut findings = Vec::new();
    if let Some(table) = tables.iter().find(|table| table.id == id) {
        check_definition(client, Sees::Latest, table, &mut |finding| {
            findings.push(finding)
        });
    }
    findings
}

fn check_definition(
    client: &SpiClient<'_>,
    sees: Sees,
    table: &LedgerTable,
    report: &mut dyn FnMut(Finding),
) {
    // The table before its partitions, as every session locks them: what follows locks both.
    let _held = is_partitioned(table.relation)
        .then(|| Relation::try_open(table.relation, Lock::AccessShare));
    for defect in triggers::defects(client, sees, table) {
        report(Finding::of_table(
            "trigger",
            json!(defect.expected),
            json!(defect.found),
        ));
    }
    let schema_hash = table.live_schema_hash(client, sees);
    if schema_hash.as_ref() != Some(&table.schema_hash) {
        let found = schema_hash.map(|hash| hex(&hash));
        report(Finding::of_table(
            "schema",
            json!(hex(&table.schema_hash)),
            json!(found),
        ));
    }
    if let Some(why) = table.unreadable() {
        report(Finding::of_table("schema", Value::Null, json!(why)));
    }
}

/// The faults of a checkpoint whose rows give `state`.
pub fn checkpoint_finding(
    table: &LedgerTable,
    kept: &Checkpoint,
    state: &State,
) -> Option<Finding> {
    let found = table.state_hash_by(&kept.schema_hash, state);
    (kept.table_state[..] != found[..]).then(|| {
        Finding::of_table(
            "checkpoint",
            json!({ "block": kept.block, "state": hex(&kept.table_state) }),
            json!({ "rows": state.row_count, "state": hex(&found) }),
        )
    })
}

/// Compares scan, running state and the last block's header; returns whether the scan gives the
/// certified state.
pub fn check_states(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    table: &LedgerTable,
    live: &State,
    number: i64,
    report: &mut dyn FnMut(Finding),
) -> bool {
    let kept = stored_blocks::block(client, Sees::Statement, number)
        .map(|block| block.state_root)
        .unwrap_or_default();
    let definitions = definitions::entry(client, Sees::Statement);
    let root = |own: Option<&State>| {
        let states = tables.iter().map(|other| {
            let running = other.running_state();
            let state = if other.id == table.id {
                own
            } else {
                running.as_ref()
            };
            (
                other.name.as_str(),
                state.map_or(Hash::default(), |state| other.state_hash(state)),
            )
        });
        state_root(states.chain(definitions))[..] == kept[..]
    };
    let running = table.running_state();
    let shown =
        |state: &State| json!({ "rows": state.row_count, "state": hex(&table.state_hash(state)) });
    let running_shown = running.as_ref().map_or(Value::Null, shown);
    let (live_certified, running_certified) = (root(Some(live)), root(running.as_ref()));
    let same = running
        .as_ref()
        .is_some_and(|running| table.state_hash(running) == table.state_hash(live));
    if !live_certified && !running_certified {
        let detail = json!(format!(
            "the running states give another root than block {number} has"
        ));
        report(Finding::of_table("state root", json!(hex(&kept)), detail));
    }
    match (same, live_certified) {
        (true, _) => {}
        (false, true) => report(Finding::of_table(
            "running state",
            shown(live),
            running_shown,
        )),
        (false, false) => report(Finding::of_table("state", running_shown, shown(live))),
    }
    live_certified
}

/// Names the rows. Where the scan gave the certified state, it is the checkpoint or the history
/// that is wrong. False: there are rows that cannot be read. These alone are named then, and what
/// reads the table by SQL, or its indexes, would meet them.
pub fn check_rows(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    number: i64,
    certified: bool,
    report: &mut dyn FnMut(Finding),
) -> bool {
    let damaged = damaged_rows::of_table(client, Sees::Statement, table);
    if !damaged.is_empty() {
        damaged.into_iter().map(of_damaged).for_each(report);
        return false;
    }
    let mut rows = Cursor::open(client, Sees::Statement, &table.differences(number), &[]);
    let mut named = 0;
    while let Some(row) = rows.next_row() {
        if named == ROWS_MAX {
            let more = json!(format!("more than {ROWS_MAX} rows differ"));
            report(Finding::of_table("more rows", Value::Null, more));
            return true;
        }
        named += 1;
        let (expected, found) = (row.json(2), row.json(3));
        let what = match (certified, &expected, &found) {
            (true, ..) => "history",
            (_, None, _) => "row unexpected",
            (_, _, None) => "row missing",
            _ => "row changed",
        };
        report(Finding {
            what,
            key: row.json(1),
            expected,
            found,
        });
    }
    true
}

fn of_damaged(row: DamagedRow) -> Finding {
    Finding {
        what: "row unreadable",
        key: row.key,
        expected: None,
        found: Some(JsonB(json!({ "unreadable": row.why }))),
    }
}
