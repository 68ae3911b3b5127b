//! The statements of a client, run as its role in a transaction of a block, or checked for one that
//! runs later.
use std::cell::Cell;

use chainify_codec::Hash;
use chainify_ledger::messages::{Client, Proposal};
use chainify_sched::template::Access;
use pgrx::pg_sys::Oid;

use crate::agreement::role_organisations;
use crate::ledger::client_role;
use crate::ledger::outcome::{is_of_the_machine, Outcome};
use crate::pg::base::catalog;
use crate::pg::base::error::{PgError, SqlState};
use crate::pg::base::role::Role;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::hooks;
use crate::pg::planner::block_settings::seed_random;
use crate::pg::run::statement::Prepared;
use crate::pg::run::step::{enter, Step};
use crate::rules::{determinism, relations};
use crate::running::conflict::CONFLICT;
use crate::running::declared;
use crate::running::uuids::seed_uuid;
use crate::sequences;
use crate::sql::plans;

/// The role that a client's statements run as, by the client's name and organisation (C5).
pub fn role_of(client: &Client) -> Result<Role, PgError> {
    role_organisations::check(client)?;
    client_role::of_client(&client.role)
}

/// Runs the statements of a proposal as `role`, as changes of transaction `index`. Random numbers
/// and UUIDs follow from `seed`.
pub fn run(
    role: Role,
    proposal: &Proposal,
    seed: &Hash,
    index: u32,
    as_written: &Cell<bool>,
) -> Outcome {
    seed_random(seed);
    seed_uuid(seed);
    determinism::before_transaction();
    sequences::before_transaction();
    let client = Step::Client {
        role,
        tx: index,
        declared: declared::of(index),
    };
    let rows = enter(client, || plans::run(role, proposal, as_written))?;
    sequences::after_transaction(index);
    Ok(rows)
}

/// Checks the statements of a proposal as [`run`] would find them now, and runs none: their
/// analysis, their parameters, what the rules say of them, and the tables that they name. Needs a
/// subtransaction that is undone after an Err. Cost: one analysis.
pub fn check(role: Role, proposal: &Proposal, index: u32) -> Result<(), PgError> {
    let types: Vec<&str> = proposal
        .parameters
        .iter()
        .map(|p| p.r#type.as_str())
        .collect();
    determinism::before_transaction();
    let client = Step::Client {
        role,
        tx: index,
        declared: None,
    };
    enter(client, || {
        let prepared = Prepared::new(&proposal.sql, &types)?;
        prepared.bind(plans::parameters(proposal))?;
        determinism::refuse(&prepared.levels()?, false, |_| true)?;
        check_relations(&prepared)
    })
}

/// The relations that the analysis tells of: one that fails tells of none.
fn check_relations(prepared: &Prepared) -> Result<(), PgError> {
    match subtransaction(|| Ok(prepared.template()?.accesses().to_vec())) {
        Ok(accesses) => accesses.iter().find_map(refusal).map_or(Ok(()), Err),
        Err(error) if is_of_the_machine(&error) => Err(error),
        Err(_) => Ok(()),
    }
}

/// Why a ledger transaction may not access this; None when it may.
pub fn refusal(access: &Access) -> Option<PgError> {
    let relation = Oid::from(access.target.relation());
    match (catalog::is_sequence(relation), access.write) {
        (true, _) => sequences::refusal(relation),
        (false, true) => relations::refusal(relation, hooks::Access::Write),
        (false, false) => relations::refusal(relation, hooks::Access::Read),
    }
}

/// An outcome keeps the message alone. So why the ledger refuses goes there, and what to write
/// instead. A conflict gets the SQLSTATE that clients know.
pub fn told_whole(mut error: PgError) -> PgError {
    if error.sqlstate == SqlState::new(CONFLICT) {
        error.sqlstate = SqlState::new(b"40001");
    }
    let ours = matches!(
        error.sqlstate.as_str(),
        "CH003" | "CH004" | "CH005" | "CH006"
    );
    if ours {
        let parts = [error.detail.take(), error.hint.take()];
        let why: Vec<String> = parts.into_iter().flatten().collect();
        if !why.is_empty() {
            let colon = if error.message.ends_with('.') {
                ""
            } else {
                ":"
            }; // it has its reason already
            error.message = format!("{}{colon} {}", error.message, why.join(" "));
        }
    }
    error
}
