//! Parts of tables that an organisation made behind the guard, alone: indexes and constraints that
//! refuse rows which the others take, triggers, policies, another storage of columns. They are
//! dropped before they can change a result: before a block runs, and before each step of recovery.
//!
//! Invariant R12: parts of a ledger table stay dropped only when its definition then hashes to the
//! value in the state root. Otherwise the steps of recovery follow.
use std::cell::Cell;

use pgrx::JsonB;
use serde_json::json;

use crate::ledger::checkpoints;
use crate::ledger::tables;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::generation::generation;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::recovery::cured::Cured;
use crate::recovery::definition_repair::{surplus, Repair};
use crate::recovery::deviations;
use crate::verify::finding::Finding;

thread_local! {
    /// The generation of definitions, and the mark of their parts, when nothing was surplus.
    static CLEAN: Cell<Option<(u64, i64)>> = const { Cell::new(None) };
}

/// Before block `number` runs: drops them and records that; whether there were any. Needs the turn
/// of the block. Cost: nothing while no definition of the database changes; a scan of some catalogs
/// when one did; the texts of all definitions when it is one of the ledger's.
pub fn before_block(number: i64) -> bool {
    let cured = drop_all();
    deviations::add_dropped(&cured, number);
    !cured.is_empty()
}

/// The same before a step of recovery, which records what it gets.
pub fn drop_all() -> Vec<Cured> {
    let seen = generation();
    let clean = CLEAN.get();
    if clean.is_some_and(|(clean, _)| clean == seen) || !tables::is_own() {
        return Vec::new();
    }
    spi::connect(|client| {
        let marked = mark(client);
        let cured = match clean.is_some_and(|(_, clean)| clean == marked) {
            true => Vec::new(),
            false => dropped(client),
        };
        if cured.is_empty() {
            CLEAN.set(Some((seen, marked)));
        }
        cured
    })
}

fn mark(client: &SpiClient<'_>) -> i64 {
    let sql = "SELECT chainify_ledger.parts_mark()";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    rows.next_row()
        .and_then(|row| row.bigint(1))
        .unwrap_or_default()
}

fn dropped(client: &SpiClient<'_>) -> Vec<Cured> {
    let mut cured = Vec::new();
    let repairs = surplus(client);
    let copies = of_copies(client);
    if repairs.is_empty() && copies.is_empty() {
        return cured;
    }
    checkpoints::lock_bases();
    for of_table in repairs.chunk_by(|a, b| a.of == b.of) {
        let table = of_table[0].of.clone();
        let done = subtransaction(|| {
            of_table.iter().try_for_each(Repair::run)?;
            match is_as_agreed(&table) {
                true => Ok(()),
                false => Err(PgError::new(
                    b"CH002",
                    "more of its definition is another one",
                )),
            }
        });
        match done {
            Ok(()) => {
                for repair in of_table {
                    pgrx::log!("chainify: not agreed on, so it went: {}", repair.statement);
                }
                cured.extend(of_table.iter().map(Repair::cured));
            }
            Err(error) => pgrx::log!(
                "chainify: left what is surplus in the definition of table {table}: {}",
                error.message
            ),
        }
    }
    for (table, found, statement) in copies {
        let done = subtransaction(|| {
            spi::connected(|| spi::execute(&statement, &[]));
            Ok(())
        });
        match done {
            Ok(()) => {
                pgrx::log!("chainify: not agreed on, so it went: {statement}");
                cured.push(of_copy(&table, found));
            }
            Err(error) => pgrx::log!("chainify: left {found} on {table}: {}", error.message),
        }
    }
    cured
}

fn is_as_agreed(table: &str) -> bool {
    let sql = "SELECT schema_hash = chainify_ledger.live_schema_hash(relation)
        FROM chainify_ledger.ledger_table WHERE name = $1 AND detached_at IS NULL";
    let mut same = false;
    spi::connected(|| {
        spi::query(sql, &[cell(table.to_owned())], |row| same = row.must(1));
    });
    same
}

/// Table, part and statement of what histories and checkpoints have beside.
fn of_copies(client: &SpiClient<'_>) -> Vec<(String, String, String)> {
    let sql = "SELECT tbl, found, statement FROM chainify_ledger.surplus_of_copies()";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    let mut copies = Vec::new();
    while let Some(row) = rows.next_row() {
        let text = |at| row.text(at).unwrap_or_default();
        copies.push((text(1), text(2), text(3)));
    }
    copies
}

fn of_copy(table: &str, found: String) -> Cured {
    let finding = Finding {
        what: "definition",
        key: Some(JsonB(json!({ "object": format!("table {table}") }))),
        expected: None,
        found: Some(JsonB(json!(found))),
    };
    Cured::of_finding(table, finding)
}
