//! Circles and sealed columns (spec/private.md): rows of `chainify_ledger.circle` and
//! `chainify_ledger.sealed_column`, ledger tables of the ledger's own, and so part of the state
//! root. DEPLOY transactions make them.
//!
//! Which tables and views an organisation has for them is its own matter (sql/39_private.sql): they
//! follow, and decide no outcome.
use std::collections::BTreeSet;

use chainify_sqltext::{Sealed, TableName};
use pgrx::pg_sys::Oid;

use crate::ledger::outcome::Outcome;
use crate::ledger::own_tables::OwnTable;
use crate::ledger::place::At;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::{cell, Cell};
use crate::pg::base::spi::query;
use crate::pg::run::step::{enter, Step};
use crate::rules::agreeing::gateways;

/// Between the names of one row. No organisation's name has it.
const SEPARATOR: &str = ", ";

/// Runs `CREATE CIRCLE name OF organisations`.
pub fn create(name: &str, organisations: Vec<String>, at: At) -> Outcome {
    let organisations: BTreeSet<String> = organisations.into_iter().collect();
    attempt(|| {
        let known = gateways(at.block);
        if let Some(name) = organisations.iter().find(|name| !known.contains_key(*name)) {
            let message = format!("organisation \"{name}\" does not take part");
            PgError::new(b"42704", message).raise();
        }
        if circle(name).is_some() {
            PgError::new(b"42710", format!("circle \"{name}\" already exists")).raise();
        }
        let names: Vec<String> = organisations.into_iter().collect();
        let row = [cell(name.to_owned()), cell(names.join(SEPARATOR))];
        write(
            "circle",
            "INSERT INTO chainify_ledger.circle VALUES ($1, $2)",
            &row,
            at,
        );
    })?;
    Ok(1)
}

/// Runs `DROP CIRCLE name`.
pub fn unset(name: &str, at: At) -> Outcome {
    attempt(|| {
        want_circle(name);
        let mut used = None;
        OwnTable::read("sealed_column").rows(|row| {
            if row.must::<String>("circle") == name {
                used = Some(row.must::<String>("table_name"));
            }
        });
        if let Some(table) = used {
            let message = format!("circle \"{name}\" has a sealed column of table \"{table}\"");
            PgError::new(b"2BP01", message).raise();
        }
        let row = [cell(name.to_owned())];
        write(
            "circle",
            "DELETE FROM chainify_ledger.circle WHERE name = $1",
            &row,
            at,
        );
    })?;
    Ok(1)
}

/// Runs `ALTER TABLE table SEAL COLUMN column AS type FOR circle`.
pub fn seal(sealed: &Sealed, at: At) -> Outcome {
    attempt(|| {
        let table = relation(&sealed.table);
        want_circle(&sealed.circle);
        let mut of = String::new();
        let asked = [cell(sealed.of.to_owned())];
        query("SELECT chainify_ledger.sealed_type($1)", &asked, |row| {
            of = row.must(1)
        });
        let column = [cell(table), cell(sealed.column.clone())];
        query(
            "SELECT chainify_ledger.check_to_seal($1, $2)",
            &column,
            |_| (),
        );
        let row = [
            cell(sealed.table.to_string()),
            cell(sealed.column.clone()),
            cell(sealed.circle.clone()),
            cell(of),
        ];
        let sql = "INSERT INTO chainify_ledger.sealed_column VALUES ($1, $2, $3, $4)";
        write("sealed_column", sql, &row, at);
    })?;
    Ok(1)
}

/// The table itself; raises unless it is on the ledger, and not one of the ledger's own.
fn relation(of: &TableName) -> Oid {
    let found = catalog::relation_named(&of.schema, &of.table).filter(|relation| {
        of.schema != "chainify_ledger"
            && tables::owner(*relation).is_some_and(|owner| owner.name == of.to_string())
    });
    found.unwrap_or_else(|| {
        PgError::new(b"CH004", format!("table \"{of}\" is not on the ledger")).raise()
    })
}

fn circle(name: &str) -> Option<String> {
    let mut found = None;
    OwnTable::read("circle").rows(|row| {
        if row.must::<String>("name") == name {
            found = row.get("organisations");
        }
    });
    found
}

fn want_circle(name: &str) {
    if circle(name).is_none() {
        PgError::new(b"42704", format!("circle \"{name}\" does not exist")).raise();
    }
}

fn write(own: &str, sql: &str, row: &[Cell], at: At) {
    query(
        "SELECT chainify_ledger.attach_own($1, $2, $3)",
        &[cell(own.to_owned()), cell(at.block), cell(at.tx as i32)],
        |_| (),
    );
    enter(Step::Rows { tx: at.tx }, || query(sql, row, |_| ()));
    tables::announce_change();
}

/// The opened views are closed, for [`Before::follow`] when a DEPLOY transaction has run.
pub struct Before(());

/// To be called before a DEPLOY transaction runs: a view keeps the columns of its table as they
/// are.
pub fn before_deploy() -> Before {
    if OwnTable::read("sealed_column").has_rows() {
        query("SELECT chainify_ledger.close_tables()", &[], |_| ());
    }
    Before(())
}

impl Before {
    /// Makes private tables and opened views. Fails with CH004 when the transaction took a sealed
    /// column away, or changed its type.
    pub fn follow(self) -> Result<(), PgError> {
        attempt(|| {
            if !OwnTable::read("sealed_column").has_rows() {
                return;
            }
            let mut lost = None;
            query("SELECT chainify_ledger.lost_sealed()", &[], |row| {
                lost = row.get::<String>(1)
            });
            if let Some(lost) = lost {
                PgError::new(
                    b"CH004",
                    format!("{lost} is sealed, and has to stay as it is"),
                )
                .raise();
            }
            query("SELECT chainify_ledger.open_tables()", &[], |_| ());
        })
    }
}
