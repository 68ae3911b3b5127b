//! Puts tables on the ledger and takes them off: transactions of kind DEPLOY.
//!
//! The checks and the DDL are in `chainify_ledger.attach_tables` and `detach_tables`
//! (extension/sql/35_attach.sql).
use chainify_codec::Lanes;
use chainify_sqltext::{Procedure, TableName};
use pgrx::pg_sys::Oid;

use crate::definitions::deploy_checks;
use crate::ledger::outcome::Outcome;
use crate::ledger::place::At;
use crate::ledger::procedures;
use crate::ledger::shared_schema;
use crate::ledger::tables;
use crate::pg::base::encode::{LedgerColumn, RowEncoder};
use crate::pg::base::error::{attempt, OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::query;
use crate::pg::describe::view_text;
use crate::rules::relations;

crate::pg::sql_function!(
    chainify_scan_state,
    pg_finfo_chainify_scan_state,
    scan_state
);
crate::pg::sql_function!(
    chainify_announce_tables,
    pg_finfo_chainify_announce_tables,
    announce
);
crate::pg::sql_function!(
    chainify_schema_hash,
    pg_finfo_chainify_schema_hash,
    schema_hash
);
crate::pg::sql_function!(chainify_settled, pg_finfo_chainify_settled, settled);
crate::pg::sql_function!(
    chainify_view_text,
    pg_finfo_chainify_view_text,
    text_of_view
);

/// The reason is in the detail; an outcome keeps the message alone.
fn with_reason(mut error: PgError) -> PgError {
    if let Some(detail) = error.detail.take_if(|_| error.sqlstate.as_str() == "CH005") {
        error.message = format!("{}: {detail}", error.message);
    }
    error
}

/// Runs `ATTACH TABLE a.b, …`. Errors: CH005, CH006.
pub fn attach(tables: Vec<TableName>, at: At) -> Outcome {
    let count = run("attach_tables($1, $2, $3, $4, false)", tables, at)?;
    attempt(|| checked(at))??;
    Ok(count)
}

/// Runs `ATTACH TABLE a.b, … ENCODING 2`: the ledger is one of several engines from then on.
/// Errors: CH005, CH006; 0A000 for a table that schema text 2 cannot describe.
pub fn attach_shared(tables: Vec<TableName>, at: At) -> Outcome {
    if let Some(why) = attempt(|| shared_schema::obstacle(at.block))? {
        return Err(PgError::new(
            b"0A000",
            format!("the ledger takes no table with ENCODING 2: {why}"),
        ));
    }
    let count = run("attach_tables($1, $2, $3, $4, true)", tables, at)?;
    attempt(|| checked(at))??;
    Ok(count)
}

/// A ledger of several engines takes no DEPLOY transaction beside ATTACH TABLE … ENCODING 2 and
/// DETACH TABLE. Errors: 0A000.
pub fn refuse_where_shared() -> Result<(), PgError> {
    match attempt(tables::is_shared)? {
        false => Ok(()),
        true => Err(PgError::new(
            b"0A000",
            "a ledger with tables of ENCODING 2 takes no other DEPLOY transaction than ATTACH … ENCODING 2 and DETACH of tables and procedures",
        )),
    }
}

/// Procedures are on ledgers of several engines alone. Errors: 0A000.
pub fn want_shared() -> Result<(), PgError> {
    match attempt(tables::is_shared)? {
        true => Ok(()),
        false => Err(PgError::new(
            b"0A000",
            "a ledger without tables of ENCODING 2 takes no procedure",
        )
        .hint("Attach tables with ENCODING 2 first. In a ledger of PostgreSQL alone, make the procedure with a DEPLOY transaction.")),
    }
}

/// Runs `ATTACH PROCEDURE …`. Errors: CH005.
pub fn attach_procedure(procedure: Procedure, at: At) -> Outcome {
    attempt(|| procedures::attach(procedure, at.block, at.tx)).map_err(with_reason)?;
    Ok(1)
}

/// Runs `DETACH PROCEDURE …`. Errors: 42883.
pub fn detach_procedure(name: String, at: At) -> Outcome {
    attempt(|| procedures::detach(name, at.block, at.tx))?;
    Ok(1)
}

/// Judges what the tables attached just now, and their partitions, check and compute unseen.
fn checked(at: At) -> Result<(), PgError> {
    let mut relations: Vec<(String, Oid)> = Vec::new();
    let sql = "SELECT t.name, r.oid FROM chainify_ledger.ledger_table t,
            LATERAL (SELECT t.relation::oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(t.relation)) r (oid)
        WHERE t.attached_at = $1 AND t.attached_tx = $2 ORDER BY t.id, r.oid";
    query(sql, &[cell(at.block), cell(at.tx as i32)], |row| {
        relations.push((row.must(1), row.must(2)))
    });
    for (name, relation) in relations {
        deploy_checks::attached(relation).map_err(|mut error| {
            error.message = format!(
                "table \"{name}\" cannot be put on the ledger: {}",
                error.message
            );
            error
        })?;
    }
    Ok(())
}

/// Runs `DETACH TABLE a.b, …`.
pub fn detach(tables: Vec<TableName>, at: At) -> Outcome {
    refuse_own(&tables)?;
    run("detach_tables($1, $2, $3, $4)", tables, at)
}

/// The ledger's own tables come on it with their first row, and stay.
fn refuse_own(tables: &[TableName]) -> Result<(), PgError> {
    let is_own = |of: &&TableName| relations::OWN_SCHEMAS.contains(&of.schema.as_str());
    match tables.iter().find(is_own) {
        None => Ok(()),
        Some(own) => Err(PgError::new(
            b"CH004",
            format!("table \"{own}\" belongs to the ledger"),
        )),
    }
}

fn run(call: &str, tables: Vec<TableName>, at: At) -> Outcome {
    let names = tables.into_iter().map(|of| (of.schema, of.table));
    let (schemas, names): (Vec<_>, Vec<_>) = names.unzip();
    let count = names.len() as u64;
    let args = [
        cell(schemas),
        cell(names),
        cell(at.block),
        cell(at.tx as i32),
    ];
    let sql = format!("SELECT chainify_ledger.{call}");
    attempt(|| query(&sql, &args, |_| ())).map_err(with_reason)?;
    Ok(count)
}

/// `scan_state(relations oid[], name text, columns text[], ordinals smallint[])`: row count and
/// lanes of a full scan of the relations that hold the table's rows.
fn scan_state(call: &mut Call) -> Answer {
    let (relations, name): (Vec<Oid>, String) =
        (call.required(0, "relations"), call.required(1, "name"));
    let (names, ordinals): (Vec<String>, Vec<i16>) =
        (call.required(2, "columns"), call.required(3, "ordinals"));
    let columns: Vec<_> = names
        .into_iter()
        .zip(ordinals)
        .map(|(name, o)| LedgerColumn {
            ordinal: o as u16,
            name,
            key: false,
        })
        .collect();
    let hasher = chainify_codec::LaneHasher::new(&name);
    let (mut lanes, mut rows, mut row) = (Lanes::zero(), 0i64, Vec::new());
    for relation in relations {
        let relation = Relation::open(relation, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &columns).or_raise();
        relation.scan(|tuple| {
            row.clear();
            encoder.row(tuple, &mut row);
            hasher.add(&mut lanes, &row);
            rows += 1;
        });
    }
    call.record(&[cell(rows), cell(&lanes.to_bytes()[..])])
}

/// `announce_tables()`: the list of ledger tables changed.
fn announce(call: &mut Call) -> Answer {
    tables::announce_change();
    call.void()
}

/// `settled(text)` of the text of a definition: the same before and after pg_restore.
fn settled(call: &mut Call) -> Answer {
    let text: String = call.required(0, "text");
    call.value(chainify_sqltext::settled(&text))
}

/// `view_text(view)`: its query.
fn text_of_view(call: &mut Call) -> Answer {
    let view: Oid = call.required(0, "view");
    call.value(view_text::of_view(view))
}

/// `schema_hash(text)` of a schema text.
fn schema_hash(call: &mut Call) -> Answer {
    let text: String = call.required(0, "schema text");
    call.value(&chainify_codec::schema_hash(&text)[..])
}
