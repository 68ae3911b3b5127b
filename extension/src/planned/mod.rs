//! Transactions of kind PLAN: statements on the ledger that run in a later block
//! (spec/transactions.md, "Planned transactions").
//!
//! Plans and approvals are rows of `chainify_ledger.planned` and
//! `chainify_ledger.planned_approval`, ledger tables of the ledger's own, and so part of the state
//! root. PLAN transactions change them.
//!
//! Invariant C7: a planned transaction runs at most once, in a block whose time lies between its
//! times, with the approvals that it asks for. It runs as its planner. Policies count the planner's
//! organisation and those that approved, not the one that has it executed.
//!
//! Source: iterative Whatever-LedgerConsensus (Sharma, dissertation, section 4.6.2), with one round
//! for the plan and one for its effects.
pub mod planned_rows;

use std::cell::Cell;

use chainify_agreement::Policy;
use chainify_codec::Hash;
use chainify_ledger::messages::{Client, Plan};
use chainify_ledger::planned::{action, Action};
use chainify_ledger::Transaction;
use chainify_rules::planned::{may_plan, State, Times};

use crate::agreement::agreements;
use crate::agreement::role_organisations;
use crate::ledger::client_role;
use crate::ledger::outcome::{is_of_the_machine, Outcome};
use crate::ledger::place::At;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::raised;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::planner::block_settings::settings_undone;
use crate::pg::run::plpgsql;
use crate::planned::planned_rows::Row;
use crate::rules::agreeing::{gateways, Agreeing};
use crate::running::block_state::block;
use crate::running::request::Request;
use crate::sql::statements::{self, told_whole};

/// Begins a block: no PLAN transaction ran.
pub fn start() {
    block(|block| {
        block.spent.take();
        block.attached_own.set(false);
    });
}

/// Whether a PLAN transaction of this block put tables on the ledger.
pub fn attached() -> bool {
    block(|block| block.attached_own.get())
}

/// The reason that is kept of an outcome: that of a failure, or of the planned transaction that a
/// transaction executed and that failed.
pub fn reason(outcome: &Outcome, index: u32) -> Option<PgError> {
    match outcome {
        Err(error) => Some(error.clone()),
        Ok(_) => block(|block| block.spent.borrow().get(&index).cloned()),
    }
}

/// Runs a PLAN transaction, as changes of transaction `index`. Needs a subtransaction that is
/// undone after an Err.
pub fn run(request: &Request, transaction: &Transaction, index: u32) -> Outcome {
    let at = At {
        block: request.number,
        tx: index,
    };
    let client = transaction.client();
    let malformed = |error| PgError::new(b"22023", format!("{error}"));
    match action(&transaction.proposal).map_err(malformed)? {
        Action::Plan(plan) => make(request, transaction, plan, at),
        Action::Approve(id) => approve(client, &id, request.block_time, at),
        Action::Cancel(id) => cancel(client, &id, request.block_time, at),
        Action::Execute(id) => execute(request, client, &id, at),
    }
}

/// Checks the statements as for `chainify.execute`, and keeps them.
fn make(request: &Request, transaction: &Transaction, plan: &Plan, at: At) -> Outcome {
    let client = transaction.client();
    let role = statements::role_of(client)?;
    let now = request.block_time;
    let times = Times::of_new(plan.not_before, plan.expires, now)?;
    let approvals = policy(&plan.approvals, request.number)?;
    attempt(|| planned_rows::attach(at))?;
    let (of_role, of_organisation) = attempt(|| planned_rows::open(client, now))?;
    may_plan(of_role, of_organisation)?;
    subtransaction(|| settings_undone(|| statements::check(role, &transaction.proposal, at.tx)))?;
    let approvals = approvals.map(|policy| policy.to_string());
    attempt(|| planned_rows::insert(transaction, times, approvals, at))?;
    Ok(1)
}

/// The approvals that a plan asks for. Errors: 42601 for no policy, 42704 for an organisation that
/// does not take part.
fn policy(text: &str, number: i64) -> Result<Option<Policy>, PgError> {
    if text.is_empty() {
        return Ok(None);
    }
    let malformed = |error| PgError::new(b"42601", format!("approvals: {error}"));
    let policy = Policy::parse(text).map_err(malformed)?;
    if let Some(column) = policy.columns().first() {
        let message = format!("approvals name column \"{column}\", and a plan has no row");
        return Err(PgError::new(b"42601", message).hint("Name organisations."));
    }
    let known = attempt(|| gateways(number))?;
    let unknown = |name: &&str| !known.contains_key(*name);
    match policy.organisations().into_iter().find(unknown) {
        Some(name) => Err(PgError::new(
            b"42704",
            format!("organisation \"{name}\" of the approvals does not take part"),
        )),
        None => Ok(Some(policy)),
    }
}

/// The approval of the client's organisation, for which an admin of it speaks.
fn approve(client: &Client, id: &Hash, now: i64, at: At) -> Outcome {
    role_organisations::check(client)?;
    client_role::of_admin(&client.role)?;
    let found = find(id)?;
    let approved = attempt(|| planned_rows::approvals(id))?;
    found
        .plan
        .may_approve(approved.contains(&client.organisation), now)?;
    attempt(|| planned_rows::insert_approval(id, client, at))?;
    Ok(1)
}

fn cancel(client: &Client, id: &Hash, now: i64, at: At) -> Outcome {
    statements::role_of(client)?;
    let found = find(id)?;
    let is_admin_there = client.organisation == found.planner.organisation
        && client_role::of_admin(&client.role).is_ok();
    found
        .plan
        .may_cancel(found.is_planner(client), is_admin_there, now)?;
    attempt(|| planned_rows::end(id, State::Cancelled, at))?;
    Ok(1)
}

/// Runs a plan that is due, and notes that it ran. Its failure spends it, and is no failure of the
/// transaction that executes it. A planner's own right to plan is looked at with the plan, which
/// fails without it.
fn execute(request: &Request, client: &Client, id: &Hash, at: At) -> Outcome {
    let found = find(id);
    let own = found.as_ref().is_ok_and(|found| found.is_planner(client));
    if !own {
        statements::role_of(client)?;
    }
    let found = found?;
    let members = attempt(|| gateways(request.number))?;
    let mut agreeing = attempt(|| planned_rows::approvals(id))?;
    agreeing.retain(|organisation| members.contains_key(organisation));
    let missing = found.missing(&agreeing);
    found
        .plan
        .may_execute(missing.as_deref(), request.block_time)?;
    let takes_part = members.contains_key(&found.planner.organisation);
    agreeing.insert(found.planner.organisation.clone());
    let outcome = as_planner(&found, id, at.tx, takes_part, Agreeing::of_names(agreeing))?;
    let state = match &outcome {
        Ok(_) => State::Executed,
        Err(_) => State::Failed,
    };
    attempt(|| planned_rows::end(id, state, at))?;
    Ok(outcome.unwrap_or_else(|error| {
        block(|block| block.spent.borrow_mut().insert(at.tx, error));
        0
    }))
}

/// Runs the statements of a plan as its planner, undone alone when they fail. Err: an error of the
/// machine, which spends nothing (X4).
fn as_planner(
    found: &Row,
    id: &Hash,
    index: u32,
    takes_part: bool,
    agreeing: Agreeing,
) -> Result<Outcome, PgError> {
    let as_written = Cell::new(false);
    let run = || {
        plpgsql::within(|| {
            settings_undone(|| {
                if !takes_part {
                    let planner = &found.planner.organisation;
                    let message = format!(
                        "organisation \"{planner}\", which planned it, does not take part any more"
                    );
                    return Err(PgError::new(b"42501", message));
                }
                let role = statements::role_of(&found.planner)?;
                let rows = statements::run(role, &found.proposal, id, index, &as_written)?;
                agreements::check(index, || &agreeing)?;
                Ok(rows)
            })
        })
    };
    let outcome = match run() {
        Err(_) if as_written.get() => run(),
        outcome => outcome,
    };
    match outcome {
        Err(error) if is_of_the_machine(&error) && !raised::by_statement_alone() => Err(error),
        outcome => Ok(outcome.map_err(told_whole)),
    }
}

fn find(id: &Hash) -> Result<Row, PgError> {
    attempt(|| planned_rows::find(id))?.ok_or_else(|| {
        PgError::new(b"42704", "planned transaction does not exist")
            .hint("The view chainify.planned shows those that do.")
    })
}
