//! The functions of queries at a block (spec/analytics.md).
use pgrx::pg_sys::Oid;

use crate::analytics::ask::{about_itself, query, At};
use crate::analytics::mirrored::{last_block, translated, READER};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call, Cell};
use crate::pg::base::role::Role;
use crate::pg::base::text_rows::Sink;
use crate::pg::translate::analysed::Translated;
use crate::pg::translate::parameters::Parameters;

crate::pg::sql_function!(chainify_query_at, pg_finfo_chainify_query_at, query_at);
crate::pg::sql_function!(
    chainify_query_at_json,
    pg_finfo_chainify_query_at_json,
    query_at_json
);
crate::pg::sql_function!(
    chainify_translate_query,
    pg_finfo_chainify_translate_query,
    translate_query
);
crate::pg::sql_function!(
    chainify_worker_mirrors,
    pg_finfo_chainify_worker_mirrors,
    worker_mirrors
);
crate::pg::sql_function!(
    chainify_worker_snapshots,
    pg_finfo_chainify_worker_snapshots,
    worker_snapshots
);
crate::pg::sql_function!(
    chainify_tell_worker,
    pg_finfo_chainify_tell_worker,
    tell_worker
);
crate::pg::sql_function!(
    chainify_analytics_functions,
    pg_finfo_chainify_analytics_functions,
    functions
);

/// `chainify.query_at`: the rows of a query at a block, with the types that the caller lists.
fn query_at(call: &mut Call) -> Answer {
    let (at, translated) = asked(call).or_raise();
    let columns = translated.columns.clone();
    call.text_rows(&columns, |sink| answer(at, &translated, sink))
}

/// `chainify.query_at_json`: the same, each row as an object.
fn query_at_json(call: &mut Call) -> Answer {
    let (at, translated) = asked(call).or_raise();
    let columns = translated.columns.clone();
    call.json_rows(&columns, |sink| answer(at, &translated, sink))
}

/// The block and the query of a call.
fn asked(call: &Call) -> Result<(At, Translated), PgError> {
    let sql: String = call.required(1, "sql");
    let last = last_block();
    let at = match call.arg::<i64>(0) {
        None => At::Newest(last),
        Some(block) if !(0..=last).contains(&block) => {
            let message = format!("block {block} is not in this database");
            let error = PgError::new(b"22023", message);
            return Err(error.hint(format!("The last block is {last}. NULL stands for it.")));
        }
        Some(block) => {
            check_reader()?;
            At::Block(block)
        }
    };
    let parameters = Parameters::variadic_from(call, 2);
    Ok((at, translated(&sql, &parameters)?))
}

/// Earlier blocks are for readers, as `chainify.as_of` is.
fn check_reader() -> Result<(), PgError> {
    match Role::current().is_member_of(READER) {
        true => Ok(()),
        false => Err(
            PgError::new(b"42501", "permission denied for earlier blocks")
                .detail(format!("The role is no member of {READER}."))
                .hint("NULL in place of the block stands for the last one."),
        ),
    }
}

fn answer(at: At, translated: &Translated, sink: Sink) -> Result<(), PgError> {
    query(at, &translated.sql, |row| sink(row)).map(drop)
}

/// `chainify.translate_query`: what the worker is asked in place of a query.
fn translate_query(call: &mut Call) -> Answer {
    let sql: String = call.required(0, "query");
    let translated = translated(&sql, &Parameters::none()).or_raise();
    let columns = &translated.columns;
    call.record(&[
        cell(translated.sql.clone()),
        cell(columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>()),
        cell(columns.iter().map(|c| c.of).collect::<Vec<Oid>>()),
        cell(columns.iter().map(|c| c.typmod).collect::<Vec<i32>>()),
    ])
}

/// Rows of the view `chainify.mirrors`; one row with the error when the worker does not answer.
fn worker_mirrors(call: &mut Call) -> Answer {
    const ASKED: &str = "SELECT table_id, rows, bytes, chunks, chunks_shared, block, lag, digest_checked, state, error FROM chainify_worker.mirrors";
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let told = about_itself(ASKED, |told| {
        let fields = told.fields;
        let number = |at: usize| number(fields, at);
        let mut row = vec![cell::<i32>(number(0).and_then(|id| i32::try_from(id).ok()))];
        row.extend((1..8).map(|at| cell::<i64>(number(at))));
        row.extend([8, 9].map(|at| cell::<String>(text(fields, at))));
        rows.push(row);
        Ok(())
    });
    if let Err(error) = told {
        rows.clear();
        let mut row = vec![cell::<i32>(None)];
        row.extend((1..8).map(|_| cell::<i64>(None)));
        row.push(cell("no worker".to_owned()));
        row.push(cell(one_line(error)));
        rows.push(row);
    }
    call.rows(|put| rows.iter().for_each(|row| put(row)))
}

/// Rows of the view `chainify.snapshots`; none when the worker does not answer.
fn worker_snapshots(call: &mut Call) -> Answer {
    const ASKED: &str = "SELECT name, block, pinned, bytes, readers FROM chainify_worker.snapshots";
    let mut rows: Vec<[Cell; 5]> = Vec::new();
    let told = about_itself(ASKED, |told| {
        let fields = told.fields;
        rows.push([
            cell::<String>(text(fields, 0)),
            cell::<i64>(number(fields, 1)),
            cell::<bool>(text(fields, 2).map(|t| t == "t")),
            cell::<i64>(number(fields, 3)),
            cell::<i64>(number(fields, 4)),
        ]);
        Ok(())
    });
    if told.is_err() {
        rows.clear();
    }
    call.rows(|put| rows.iter().for_each(|row| put(row)))
}

/// Sends a command of `extension/sql/38_analytics.sql`: a pin or its end.
fn tell_worker(call: &mut Call) -> Answer {
    let command: String = call.required(0, "command");
    about_itself(&command, |_| Ok(())).or_raise();
    call.void()
}

/// The functions, operators and aggregates that the worker computes.
fn functions(call: &mut Call) -> Answer {
    call.rows(|row| {
        for (oid, name) in chainify_dialect::allowed::RULES
            .iter()
            .flat_map(|(_, of)| *of)
        {
            row(&[cell(Oid::from(*oid)), cell((*name).to_owned())]);
        }
    })
}

fn text(fields: &[Option<&str>], at: usize) -> Option<String> {
    fields.get(at).copied().flatten().map(str::to_owned)
}

fn number(fields: &[Option<&str>], at: usize) -> Option<i64> {
    fields.get(at).copied().flatten()?.parse().ok()
}

fn one_line(error: PgError) -> String {
    match error.detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message,
    }
}
