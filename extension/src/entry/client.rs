//! The functions that users call to have their statements ordered, executed by every organisation,
//! and agreed on (spec/sql-api.md, "For users"). A submitted transaction is not part of the
//! caller's own: rolling that back does not take it back.

use std::time::{Duration, Instant};

use chainify_ledger::messages::Kind;
use chainify_ledger::node_messages::{
    Outcome, RejoinRequest, RequestBody, ResponseBody, Statement, StatusResponse,
};
use pgrx::prelude::*;

use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call, Cell};
use crate::pg::base::relation::quoted;
use crate::pg::base::variadic::variadic_from;
use crate::pg::base::{settings, spi};
use crate::submission::connection::ask;
use crate::submission::sql_statement::sql_statement;
use crate::submission::submit::{
    ask_status, deadline, failure, run_one, submit, unexpected_answer, wait, ANSWER_GRACE,
};

const ID_BYTES: usize = 32;

/// The longest wait; a client that wants to wait longer asks again.
const WAIT_MAX: Duration = Duration::from_secs(86_400);
/// How long a view may take to say that the node does not answer.
const STATUS_WAIT: Duration = Duration::from_secs(2);

crate::pg::sql_function!(chainify_execute, pg_finfo_chainify_execute, execute);
crate::pg::sql_function!(chainify_submit, pg_finfo_chainify_submit, submit_one);
crate::pg::sql_function!(
    chainify_submit_batch,
    pg_finfo_chainify_submit_batch,
    submit_batch
);
crate::pg::sql_function!(chainify_wait, pg_finfo_chainify_wait, wait_for);
crate::pg::sql_function!(chainify_attach, pg_finfo_chainify_attach, attach);
crate::pg::sql_function!(chainify_detach, pg_finfo_chainify_detach, detach);
crate::pg::sql_function!(chainify_deploy, pg_finfo_chainify_deploy, deploy);
crate::pg::sql_function!(
    chainify_set_policy,
    pg_finfo_chainify_set_policy,
    set_policy
);
crate::pg::sql_function!(
    chainify_set_role_organisations,
    pg_finfo_chainify_set_role_organisations,
    set_role_organisations
);
crate::pg::sql_function!(chainify_rejoin, pg_finfo_chainify_rejoin, rejoin);
crate::pg::sql_function!(
    chainify_node_status,
    pg_finfo_chainify_node_status,
    node_status
);

/// `chainify.execute`: submits one transaction and waits for its outcome, at most
/// `chainify.wait_timeout`. A failure of the transaction itself is a row; what keeps it from having
/// an outcome raises.
fn execute(call: &mut Call) -> Answer {
    let outcome = run_one(sql_statement_of(call).or_raise()).or_raise();
    call.rows(|row| row(&outcome_row(outcome)))
}

/// `chainify.submit`: returns the transaction id once the node has queued it.
fn submit_one(call: &mut Call) -> Answer {
    let statement = sql_statement_of(call).or_raise();
    call.value(submit(vec![statement], deadline()).or_raise().remove(0))
}

/// `chainify.submit_batch`: each statement is a transaction of its own; all are queued or none.
fn submit_batch(call: &mut Call) -> Answer {
    let statements: Vec<Option<String>> = call.required(0, "statements");
    if statements.is_empty() {
        return call.value(Vec::<Vec<u8>>::new());
    }
    let statements = statements
        .into_iter()
        .map(|sql| sql_statement(sql, Vec::new()))
        .collect::<Result<_, _>>();
    call.value(submit(statements.or_raise(), deadline()).or_raise())
}

/// `chainify.wait`: the row of `execute`, or none when there is no outcome in time.
fn wait_for(call: &mut Call) -> Answer {
    let timeout: Interval = call.required(1, "timeout");
    let id = transaction_id(call, "id").or_raise();
    let outcome = wait(&id, Instant::now() + length_of(&timeout)).or_raise();
    call.rows(|row| {
        if let Some(outcome) = outcome {
            row(&outcome_row(outcome));
        }
    })
}

/// The transaction id that is the first argument. Errors: 22023.
pub fn transaction_id(call: &Call, name: &str) -> Result<Vec<u8>, PgError> {
    let id: Vec<u8> = call.required(0, name);
    if id.len() != ID_BYTES {
        let message = format!("a transaction id has {ID_BYTES} bytes, not {}", id.len());
        return Err(PgError::new(b"22023", message));
    }
    Ok(id)
}

/// `chainify.attach`: puts tables on the ledger, together.
fn attach(call: &mut Call) -> Answer {
    of_tables(call, "ATTACH TABLE")
}

/// `chainify.detach`: takes tables off the ledger.
fn detach(call: &mut Call) -> Answer {
    of_tables(call, "DETACH TABLE")
}

fn of_tables(call: &mut Call, verb: &str) -> Answer {
    let tables: Vec<Option<String>> = call.required(0, "table");
    let sql = format!("{verb} {}", qualified_names(tables).or_raise());
    deployed(call, sql)
}

/// `chainify.deploy`: changes definitions in every organisation; a failure raises.
fn deploy(call: &mut Call) -> Answer {
    let statement = sql_statement(call.arg(0), Vec::new()).or_raise();
    deployed(call, statement.sql)
}

/// `chainify.set_policy`: sets the agreement policy of a table; a failure raises.
fn set_policy(call: &mut Call) -> Answer {
    let table = qualified_names(vec![call.arg(0)]).or_raise();
    let sql = match call.arg::<String>(1) {
        Some(policy) => format!("SET AGREEMENT POLICY {table} TO {policy}"),
        None => format!("DROP AGREEMENT POLICY {table}"),
    };
    deployed(call, sql)
}

/// `chainify.set_role_organisations`: whose clients may act as a role; a failure raises.
fn set_role_organisations(call: &mut Call) -> Answer {
    let role = quoted(&call.required::<String>(0, "role"));
    let sql = match call.arg::<Vec<Option<String>>>(1) {
        None => format!("DROP ORGANISATIONS OF ROLE {role}"),
        Some(names) => {
            let names: Option<Vec<String>> =
                names.into_iter().map(|name| Some(quoted(&name?))).collect();
            let names = names.filter(|names| !names.is_empty()).ok_or_else(|| {
                PgError::new(b"22004", "organisation must not be null, and one is needed")
                    .hint("Write NULL instead of the array to let clients of every organisation act as the role.")
            });
            let names = names.or_raise();
            format!("SET ORGANISATIONS OF ROLE {role} TO {}", names.join(", "))
        }
    };
    deployed(call, sql)
}

fn deployed(call: &mut Call, sql: String) -> Answer {
    let outcome = run_one(Statement {
        kind: Kind::Deploy as i32,
        sql,
        ..Statement::default()
    })
    .or_raise();
    if !outcome.succeeded {
        failure(outcome).raise();
    }
    call.rows(|row| row(&outcome_row(outcome)))
}

/// The tables as the caller's `search_path` finds them, quoted and with their schemas.
fn qualified_names(tables: Vec<Option<String>>) -> Result<String, PgError> {
    let names: Option<Vec<String>> = tables.into_iter().collect();
    let names = names
        .filter(|names| !names.is_empty())
        .ok_or_else(|| PgError::new(b"22004", "table must not be null"))?;
    let sql = "SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', n.nspname, c.relname), ', ' ORDER BY t.place)
        FROM pg_catalog.unnest($1) WITH ORDINALITY AS t (name, place)
        JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.name::pg_catalog.regclass
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace";
    let mut qualified = None;
    spi::connected(|| spi::as_caller(sql, &[cell(names)], |row| qualified = row.get(1)));
    qualified.ok_or_else(|| PgError::new(b"42P01", "table does not exist"))
}

/// `chainify.rejoin()`: contract in spec/sql-api.md. Raises 55000 when the organisation is not
/// excluded.
fn rejoin(call: &mut Call) -> Answer {
    let body = RequestBody::Rejoin(RejoinRequest {});
    match ask(
        &settings::node_socket(),
        body,
        Instant::now() + ANSWER_GRACE,
    )
    .or_raise()
    {
        ResponseBody::Rejoin(_) => call.void(),
        _ => unexpected_answer("rejoin").raise(),
    }
}

/// The fields of `chainify.status` about the node: its answer, or why there is none. Raises only
/// when interrupted.
fn node_status(call: &mut Call) -> Answer {
    call.rows(|row| row(&status_row(ask_status(STATUS_WAIT))))
}

/// The statement of the first argument with the parameters after it.
fn sql_statement_of(call: &Call) -> Result<Statement, PgError> {
    sql_statement(call.arg(0), variadic_from(call, 1))
}

/// A month counts 30 days; a negative length is none.
fn length_of(interval: &Interval) -> Duration {
    let days = i64::from(interval.months()) * 30 + i64::from(interval.days());
    let micros = days
        .saturating_mul(86_400_000_000)
        .saturating_add(interval.micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0)).min(WAIT_MAX)
}

pub fn outcome_row(outcome: Outcome) -> [Cell; 7] {
    let executed = outcome.block != 0; // otherwise the order refused it
    [
        cell::<Vec<u8>>(outcome.id),
        cell::<i64>(executed.then_some(outcome.block as i64)),
        cell::<i32>(executed.then_some(outcome.index as i32)),
        cell::<bool>(outcome.succeeded),
        cell::<i64>(outcome.rows),
        cell::<String>(non_empty(outcome.sqlstate)),
        cell::<String>(non_empty(outcome.message)),
    ]
}

fn status_row(answer: Result<StatusResponse, PgError>) -> [Cell; 10] {
    let (status, error) = match answer {
        Ok(status) => (Some(status), None),
        Err(error) => (None, Some(one_line(error))),
    };
    let get = |field: fn(&StatusResponse) -> i64| status.as_ref().map(field);
    let error = error.or_else(|| non_empty(status.as_ref()?.reason.clone()));
    [
        cell::<String>(status.as_ref().map(|s| s.state.clone())),
        cell::<String>(status.as_ref().map(|s| s.version.clone())),
        cell::<i64>(get(|s| s.height)),
        cell::<i64>(get(|s| s.last_ordered as i64)),
        cell::<i64>(get(|s| s.last_certified as i64)),
        cell::<i64>(get(|s| s.last_committed as i64)),
        cell::<i64>(get(|s| s.peers.into())),
        cell::<i64>(get(|s| s.organisations.into())),
        cell::<i64>(get(|s| s.consent.into())),
        cell::<String>(error),
    ]
}

fn one_line(error: PgError) -> String {
    match error.detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message,
    }
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
