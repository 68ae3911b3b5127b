//! The rows of planned transactions and their approvals, read and written. Functions raise; they
//! are for PLAN transactions alone, in their place of the order.
use std::collections::BTreeSet;

use chainify_agreement::Policy;
use chainify_codec::Hash;
use chainify_ledger::messages::{Client, Parameter, Proposal};
use chainify_ledger::Transaction;
use chainify_rules::planned::{Plan, State, Times};
use pgrx::JsonB;

use crate::ledger::place::At;
use crate::ledger::tables;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Cell};
use crate::pg::base::spi::query;
use crate::pg::run::executor_cache;
use crate::pg::run::step::{enter, Step};
use crate::running::block_state::block;

const TABLES: [&str; 2] = ["planned", "planned_approval"];

/// A row of `chainify_ledger.planned`.
pub struct Row {
    /// The client that planned.
    pub planner: Client,
    /// Text and parameters.
    pub proposal: Proposal,
    /// Where it stands.
    pub plan: Plan,
    approvals: Option<Policy>,
}

impl Row {
    /// Whether a client is the one that planned it.
    pub fn is_planner(&self, client: &Client) -> bool {
        (&client.organisation, &client.role) == (&self.planner.organisation, &self.planner.role)
    }

    /// The approvals that it lacks, as a policy.
    pub fn missing(&self, approved: &BTreeSet<String>) -> Option<String> {
        let agrees = |organisation: &str| approved.contains(organisation);
        let need = self.approvals.as_ref()?.need(&|_| None, &agrees)?;
        Some(need.to_string())
    }
}

/// Puts the tables on the ledger, before the first plan.
pub fn attach(at: At) {
    for own in TABLES {
        if tables::named(&format!("chainify_ledger.{own}")).is_some() {
            continue;
        }
        executor_cache::forget();
        let args = [cell(own.to_owned()), cell(at.block), cell(at.tx as i32)];
        query(
            "SELECT chainify_ledger.attach_own($1, $2, $3)",
            &args,
            |_| (),
        );
        block(|block| block.attached_own.set(true));
    }
}

/// How many plans of the client, and of its organisation, are open.
pub fn open(client: &Client, now: i64) -> (u64, u64) {
    let mut found = (0, 0);
    let sql = "SELECT count(*) FILTER (WHERE role = $2), count(*) FROM chainify_ledger.planned
        WHERE state = 'waiting' AND organisation = $1 AND expires > $3";
    let args = [
        cell(client.organisation.clone()),
        cell(client.role.clone()),
        cell(now),
    ];
    query(sql, &args, |row| {
        found = (row.must::<i64>(1) as u64, row.must::<i64>(2) as u64)
    });
    found
}

/// Keeps a plan.
pub fn insert(transaction: &Transaction, times: Times, approvals: Option<String>, at: At) {
    let client = transaction.client();
    let proposal = &transaction.proposal;
    let parameters = proposal.parameters.iter().map(parameter_json).collect();
    let sql = "INSERT INTO chainify_ledger.planned (id, organisation, role, sql, parameters, not_before, expires, approvals, planned_at, state)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    write(
        at,
        sql,
        &[
            cell(&transaction.id[..]),
            cell(client.organisation.clone()),
            cell(client.role.clone()),
            cell(proposal.sql.clone()),
            cell(JsonB(parameters)),
            cell(times.not_before),
            cell(times.expires),
            cell::<String>(approvals),
            cell(at.block),
            cell(State::Waiting.word()),
        ],
    );
}

/// Keeps the approval of the client's organisation.
pub fn insert_approval(id: &Hash, client: &Client, at: At) {
    let args = [
        cell(&id[..]),
        cell(client.organisation.clone()),
        cell(client.role.clone()),
        cell(at.block),
    ];
    let sql = "INSERT INTO chainify_ledger.planned_approval VALUES ($1, $2, $3, $4)";
    write(at, sql, &args);
}

/// Notes the end of a plan.
pub fn end(id: &Hash, state: State, at: At) {
    let args = [
        cell(&id[..]),
        cell(state.word()),
        cell(at.block),
        cell(at.tx as i32),
    ];
    let sql =
        "UPDATE chainify_ledger.planned SET state = $2, ended_at = $3, ended_by = $4 WHERE id = $1";
    write(at, sql, &args);
}

fn write(at: At, sql: &str, args: &[Cell]) {
    enter(Step::Own { tx: at.tx }, || query(sql, args, |_| ()));
}

/// The organisations that approved.
pub fn approvals(id: &Hash) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let sql = "SELECT organisation FROM chainify_ledger.planned_approval WHERE plan = $1";
    query(sql, &[cell(&id[..])], |row| {
        found.insert(row.must::<String>(1));
    });
    found
}

/// The plan of this id. Raises XX001 for what somebody wrote behind the ledger's back.
pub fn find(id: &Hash) -> Option<Row> {
    let mut found = None;
    let sql = "SELECT organisation, role, sql, parameters, not_before, expires, approvals, state
        FROM chainify_ledger.planned WHERE id = $1";
    query(sql, &[cell(&id[..])], |row| {
        let parameters: JsonB = row.must(4);
        let (state, approvals) = (row.must::<String>(8), row.get::<String>(7));
        found = Some(Row {
            planner: Client {
                organisation: row.must(1),
                role: row.must(2),
                ..Client::default()
            },
            proposal: Proposal {
                sql: row.must(3),
                parameters: parameters_of(&parameters.0),
                ..Proposal::default()
            },
            plan: Plan {
                state: State::parse(&state).unwrap_or_else(|| tampered("state")),
                times: Times {
                    not_before: row.must(5),
                    expires: row.must(6),
                },
            },
            approvals: approvals.map(|text| policy(&text)),
        });
    });
    found
}

fn policy(text: &str) -> Policy {
    let malformed = |error| {
        PgError::new(
            b"XX001",
            format!("approvals of a plan are malformed: {error}"),
        )
    };
    Policy::parse(text).map_err(malformed).or_raise()
}

fn tampered(what: &str) -> ! {
    PgError::new(b"XX001", format!("{what} of a plan is malformed")).raise()
}

/// A parameter as the view `chainify.transactions` shows it.
pub fn parameter_json(parameter: &Parameter) -> serde_json::Value {
    let text = (!parameter.null).then_some(&parameter.text);
    let type_name = Some(&parameter.r#type).filter(|name| !name.is_empty());
    serde_json::json!({ "type": type_name, "value": text })
}

fn parameters_of(all: &serde_json::Value) -> Vec<Parameter> {
    let all = all.as_array().unwrap_or_else(|| tampered("parameters"));
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    all.iter()
        .map(|one| Parameter {
            r#type: text(&one["type"]).unwrap_or_default(),
            null: one["value"].is_null(),
            text: text(&one["value"]).unwrap_or_default(),
        })
        .collect()
}
