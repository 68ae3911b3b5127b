//! Submits transactions to the node, and waits for their outcome.
use std::time::{Duration, Instant};

use chainify_ledger::messages::{Kind, Plan, PlanAction};
use chainify_ledger::node_messages::{
    Outcome, RequestBody, ResponseBody, Statement, StatusRequest, StatusResponse, SubmitRequest,
    SubmitResponse, WaitRequest,
};

use crate::ledger::tables;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::PgError;
use crate::pg::base::interrupts::without_cancels;
use crate::pg::base::role::Role;
use crate::pg::base::{settings, version};
use crate::pg::session_transaction;
use crate::pg::shared::conflict_memory::waiting;
use crate::session::plain_sql;
use crate::submission::connection::ask;

/// Transactions of one request: those of a bundle (spec/formats.md).
const STATEMENTS_MAX: usize = 10_000;

/// A wait is asked for in slices, so that a node that hangs is noticed within a slice and its
/// grace.
const WAIT_SLICE: Duration = Duration::from_secs(20);

/// The longest wait for an outcome in the answer of a submission.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The time that a node has for its answer.
pub const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// Which role a request needs.
#[derive(Clone, Copy, PartialEq)]
pub enum Need {
    Client,
    Admin,
}

/// The current role's name, when every organisation may run transactions as it.
pub fn submitting_role(need: Need) -> Result<String, PgError> {
    version::check()?;
    if tables::is_superseded() {
        return Err(PgError::new(
            b"55000",
            "the organisation's node follows another server than this one",
        )
        .detail("This server was the primary. Its rows may be older than those agreed on.")
        .hint("Connect to the present primary. docs/operator/failover.md says how this server follows it."));
    }
    let role = Role::current();
    let name = role.name();
    let group = if need == Need::Admin {
        "chainify_admin"
    } else {
        "chainify_client"
    };
    if role.is_superuser() {
        return Err(PgError::new(b"42501", format!("role \"{name}\" is a superuser and cannot submit transactions"))
            .detail("Every organisation runs a transaction as the role that submitted it, and its rights are the consortium's access control.")
            .hint(format!("Create a role in every organisation, for example CREATE ROLE app LOGIN IN ROLE {group}, and submit as that role.")));
    }
    if !role.is_member_of(group) {
        return Err(PgError::new(
            b"42501",
            format!("role \"{name}\" is not a member of {group}"),
        )
        .hint(format!(
            "GRANT {group} TO {name} in every organisation; the role must exist there."
        )));
    }
    Ok(name)
}

/// Waiting ends here; `chainify.wait_timeout` of 0 still leaves a node the time to answer.
pub fn deadline() -> Instant {
    Instant::now() + Duration::from_millis(settings::wait_timeout_ms().unsigned_abs().into())
}

/// Submits as the current role, for a function that the session called: what has called it does not
/// run again. Returns the ids, in the order of the statements, of which there is at least one.
pub fn submit(statements: Vec<Statement>, until: Instant) -> Result<Vec<Vec<u8>>, PgError> {
    session_transaction::runs_once();
    submit_of_session(statements, until)
}

/// The same for the session's statement itself.
fn submit_of_session(statements: Vec<Statement>, until: Instant) -> Result<Vec<Vec<u8>>, PgError> {
    match phase() {
        Phase::Outside => (),
        Phase::Plain if !plain_sql::has_changes() => (),
        Phase::Plain => {
            return Err(PgError::new(
                b"25001",
                "the session's own transaction has changed ledger tables",
            )
            .detail(
                "Another transaction would wait for its locks, and it is ordered when it commits.",
            )
            .hint("COMMIT it first."));
        }
        _ => {
            return Err(PgError::new(b"CH004", "a ledger transaction cannot submit another")
                .detail("Every organisation would submit it, and the block would wait for a block after it."));
        }
    }
    let need = match statements.iter().any(is_of_admin) {
        true => Need::Admin,
        false => Need::Client,
    };
    submit_as(submitting_role(need)?, statements, until)
}

/// Whether only an admin may ask for it.
fn is_of_admin(statement: &Statement) -> bool {
    let action = statement.plan.as_ref().map(Plan::action);
    statement.kind == Kind::Deploy as i32 || action == Some(PlanAction::Approve)
}

/// The same as a role that was found to be one of a client. Needs no transaction in progress.
fn submit_as(
    role: String,
    statements: Vec<Statement>,
    until: Instant,
) -> Result<Vec<Vec<u8>>, PgError> {
    if statements.len() > STATEMENTS_MAX {
        return Err(PgError::new(
            b"54000",
            format!(
                "{} statements, at most {STATEMENTS_MAX} are allowed",
                statements.len()
            ),
        ));
    }
    Ok(send(role, statements, 0, until)?.ids)
}

/// The same with one transaction. Its outcome follows when it is there soon, so that one request
/// takes the place of two. A cancel is met after the answer: before it, the id is not known.
pub fn submit_and_wait(
    role: String,
    statement: Statement,
    until: Instant,
) -> Result<(Vec<u8>, Option<Outcome>), PgError> {
    let wait = FIRST_WAIT.min(until.saturating_duration_since(Instant::now()));
    let wait_ms = u32::try_from(wait.as_millis()).expect("it is short");
    let mut answer =
        without_cancels(|| waiting(|| send(role, vec![statement], wait_ms, until + wait)))?;
    let id = answer.ids.remove(0);
    match answer.outcomes.pop() {
        Some(outcome) if outcome.id != id => Err(unexpected_answer("submit")),
        outcome => Ok((id, outcome)),
    }
}

fn send(
    role: String,
    statements: Vec<Statement>,
    wait_ms: u32,
    until: Instant,
) -> Result<SubmitResponse, PgError> {
    let count = statements.len();
    let body = RequestBody::Submit(SubmitRequest {
        role,
        statements,
        wait_ms,
    });
    match ask(&settings::node_socket(), body, until + ANSWER_GRACE).map_err(submission_unknown)? {
        ResponseBody::Submit(answer) if answer.ids.len() == count => Ok(answer),
        _ => Err(unexpected_answer("submit")),
    }
}

/// How the node stands. Waits at most so long.
pub fn ask_status(time: Duration) -> Result<StatusResponse, PgError> {
    let body = RequestBody::Status(StatusRequest {});
    match ask(&settings::node_socket(), body, Instant::now() + time)? {
        ResponseBody::Status(status) => Ok(status),
        _ => Err(unexpected_answer("status")),
    }
}

/// Submits one transaction as the current role, for a function that the session called, and waits
/// for its outcome.
pub fn run_one(statement: Statement) -> Result<Outcome, PgError> {
    session_transaction::runs_once();
    run_of_session(statement)
}

/// The same for the session's statement itself.
pub fn run_of_session(statement: Statement) -> Result<Outcome, PgError> {
    let until = deadline();
    let id = submit_of_session(vec![statement], until)?.remove(0);
    outcome(&id, until)
}

/// Waits for an outcome; 57P03 when there is none in time. Needs no transaction in progress.
pub fn outcome(id: &[u8], until: Instant) -> Result<Outcome, PgError> {
    wait(id, until)?.ok_or_else(|| {
        PgError::new(b"57P03", "no consensus on the transaction in time")
            .detail(format!(
                "Transaction {} was submitted and may still be executed.",
                bytea(id)
            ))
            .hint(how_to_wait(id))
    })
}

/// Asks in slices until there is an outcome or the time is over; at least once.
pub fn wait(id: &[u8], until: Instant) -> Result<Option<Outcome>, PgError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let slice = left.min(WAIT_SLICE);
        let timeout_ms = u32::try_from(slice.as_millis()).expect("a slice is short");
        let body = RequestBody::Wait(WaitRequest {
            ids: vec![id.to_vec()],
            timeout_ms,
        });
        let deadline = Instant::now() + slice + ANSWER_GRACE;
        let answer = waiting(|| ask(&settings::node_socket(), body, deadline));
        match answer.map_err(|failure| outcome_unknown(failure, id))? {
            ResponseBody::Wait(answer) => match answer.outcomes.into_iter().next() {
                Some(outcome) if outcome.id == id => return Ok(Some(outcome)),
                Some(_) => return Err(unexpected_answer("wait")),
                None if slice == left => return Ok(None),
                None => {}
            },
            _ => return Err(unexpected_answer("wait")),
        }
    }
}

fn submission_unknown(error: PgError) -> PgError {
    if error.sqlstate.as_str() != "08006" {
        return error;
    }
    let why = error.detail.clone().unwrap_or_default();
    error
        .detail(format!("{why} Whether the transaction was queued is unknown."))
        .hint("Look for its effects, or in the view chainify.transactions, before submitting it again.")
}

fn outcome_unknown(error: PgError, id: &[u8]) -> PgError {
    if !matches!(error.sqlstate.as_str(), "08006" | "08001") {
        return error;
    }
    PgError::new(
        b"08006",
        "connection to the chainify node was lost, the outcome of the transaction is unknown",
    )
    .detail(format!(
        "{} Transaction {}.",
        error.detail.unwrap_or_default(),
        bytea(id)
    ))
    .hint(how_to_wait(id))
}

pub fn how_to_wait(id: &[u8]) -> String {
    format!(
        "Ask for its outcome with SELECT * FROM chainify.wait('{}').",
        bytea(id)
    )
}

/// The node answered another request than it was asked.
pub fn unexpected_answer(asked: &str) -> PgError {
    PgError::new(
        b"08P01",
        format!("chainify node did not answer a {asked} request as it should"),
    )
    .hint("Node and extension should be of the same version.")
}

/// The error of a transaction that failed.
pub fn failure(outcome: Outcome) -> PgError {
    let place = match outcome.block {
        0 => "was refused by the order".to_owned(),
        block => format!("failed in block {block}"),
    };
    let detail = format!("Transaction {} {place}.", bytea(&outcome.id));
    PgError::told(&outcome.sqlstate, outcome.message).detail(detail)
}

/// As bytea prints it.
pub fn bytea(bytes: &[u8]) -> String {
    format!("\\x{}", chainify_codec::hex(bytes))
}
