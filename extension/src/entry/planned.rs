//! The functions by which users plan transactions for later, approve, cancel and execute them
//! (spec/sql-api.md, "For users").
use chainify_ledger::messages::{Kind, Plan, PlanAction};
use chainify_ledger::node_messages::{Outcome, Statement};
use chainify_ledger::planned::{PLANNED_BYTES_MAX, TIME_MAX};
use pgrx::datum::TimestampWithTimeZone;

use crate::entry::client::{outcome_row, transaction_id};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::variadic::variadic_from;
use crate::submission::sql_statement::sql_statement;
use crate::submission::submit::{failure, run_one};

crate::pg::sql_function!(chainify_plan, pg_finfo_chainify_plan, plan);
crate::pg::sql_function!(
    chainify_approve_planned,
    pg_finfo_chainify_approve_planned,
    approve_planned
);
crate::pg::sql_function!(
    chainify_cancel_planned,
    pg_finfo_chainify_cancel_planned,
    cancel_planned
);
crate::pg::sql_function!(
    chainify_execute_planned,
    pg_finfo_chainify_execute_planned,
    execute_planned
);

/// 1970-01-01 to 2000-01-01 in microseconds.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// `chainify.plan`: puts a statement on the ledger, to run later; returns its id. A failure raises.
fn plan(call: &mut Call) -> Answer {
    let mut statement = sql_statement(call.arg(0), variadic_from(call, 4)).or_raise();
    let values = &statement.parameters;
    let bytes: usize = values.iter().map(|p| p.r#type.len() + p.text.len()).sum();
    let bytes = bytes + statement.sql.len();
    if bytes > PLANNED_BYTES_MAX {
        let message = format!("statement and parameters have {bytes} bytes, at most {PLANNED_BYTES_MAX} are allowed in a planned transaction");
        PgError::new(b"54000", message).raise();
    }
    statement.kind = Kind::Plan as i32;
    statement.plan = Some(Plan {
        action: PlanAction::Plan as i32,
        not_before: micros(call, 1, "not_before"),
        approvals: call.arg::<String>(2).unwrap_or_default(),
        expires: micros(call, 3, "expires"),
        ..Plan::default()
    });
    call.value(succeeded(statement).id)
}

/// A time as the ledger counts it; 0 for NULL. Raises 22023 for one outside of its years.
fn micros(call: &Call, argument: usize, name: &str) -> i64 {
    let Some(time) = call.arg::<TimestampWithTimeZone>(argument) else {
        return 0;
    };
    let micros = time.into_inner().saturating_add(EPOCH_MICROS);
    if !(1..=TIME_MAX).contains(&micros) {
        let message = format!("{name} is not between the years 1970 and 9999");
        PgError::new(b"22023", message)
            .hint("Write NULL for no such time.")
            .raise();
    }
    micros
}

/// `chainify.approve_planned`: the caller's organisation approves; a failure raises.
fn approve_planned(call: &mut Call) -> Answer {
    succeeded(action(call, PlanAction::Approve));
    call.void()
}

/// `chainify.cancel_planned`: the plan will not run; a failure raises.
fn cancel_planned(call: &mut Call) -> Answer {
    succeeded(action(call, PlanAction::Cancel));
    call.void()
}

/// `chainify.execute_planned`: the row of `chainify.execute`, of the planned transaction: a plan
/// that ran and failed has outcome false.
fn execute_planned(call: &mut Call) -> Answer {
    let mut outcome = run_one(action(call, PlanAction::Execute)).or_raise();
    outcome.succeeded &= outcome.sqlstate.is_empty();
    call.rows(|row| row(&outcome_row(outcome)))
}

fn action(call: &Call, action: PlanAction) -> Statement {
    Statement {
        kind: Kind::Plan as i32,
        plan: Some(Plan {
            action: action as i32,
            planned: transaction_id(call, "plan").or_raise(),
            ..Plan::default()
        }),
        ..Statement::default()
    }
}

fn succeeded(statement: Statement) -> Outcome {
    let outcome = run_one(statement).or_raise();
    if !outcome.succeeded {
        failure(outcome).raise();
    }
    outcome
}
