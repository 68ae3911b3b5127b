//! Runs one transaction of a block as its client's role, undone alone when it fails.
use std::cell::Cell;

use chainify_ledger::messages::Kind;
use chainify_ledger::Transaction;

use super::analyze::seed_uuid;
use super::attach;
use super::determinism;
use super::execute::Request;
use super::plans;
use super::session::{self, Mode};
use crate::pg::block_settings::{seed_random, settings_undone};
use crate::pg::error::PgError;
use crate::pg::role::Role;
use crate::pg::subtransaction::subtransaction;

/// Rows returned or changed, or why the transaction failed.
pub type Outcome = Result<u64, PgError>;

/// Runs transaction `index`; its changes are recorded under that index.
pub fn run(request: &Request, index: u32) -> Outcome {
    let transaction = &request.transactions[index as usize];
    let as_written = Cell::new(false);
    let attempt = || {
        subtransaction(|| settings_undone(|| dispatch(request, transaction, index, &as_written)))
    };
    match attempt() {
        Err(error) if as_written.get() && !is_of_the_machine(&error) => attempt(),
        outcome => outcome,
    }
}

fn dispatch(
    request: &Request,
    transaction: &Transaction,
    index: u32,
    as_written: &Cell<bool>,
) -> Outcome {
    let proposal = &transaction.proposal;
    if proposal.chain_id != request.chain_id {
        return Err(PgError::new(
            b"22023",
            format!("transaction is for chain \"{}\"", proposal.chain_id),
        ));
    }
    let name = proposal.client.as_ref().map_or("", |c| c.role.as_str());
    match transaction.kind() {
        Kind::Sql => {
            let role = client_role(name, "chainify_client")?;
            seed_random(&transaction.id);
            seed_uuid(&transaction.id);
            determinism::before_transaction();
            role.run(|| {
                session::with(Mode::Client { tx: index }, || {
                    plans::run(role, proposal, as_written)
                })
            })
        }
        Kind::Deploy => {
            client_role(name, "chainify_admin")?;
            attach::deploy(&proposal.sql, request.number)
        }
        _ => Err(PgError::new(
            b"0A000",
            "transactions of this kind are reserved",
        )),
    }
}

/// The role of a client, which must be what submitting asks for in every organisation.
fn client_role(name: &str, group: &str) -> Result<Role, PgError> {
    let Some(role) = Role::find(name) else {
        return Err(PgError::new(
            b"28000",
            format!("role \"{name}\" does not exist"),
        ));
    };
    if role.is_superuser() {
        return Err(PgError::new(
            b"42501",
            format!("role \"{name}\" is a superuser and cannot run ledger transactions"),
        ));
    }
    if !role.is_member_of(group) {
        return Err(PgError::new(
            b"42501",
            format!("role \"{name}\" is not a member of {group}"),
        ));
    }
    Ok(role)
}

/// Whether an error says something about this machine at this moment, not about the statement: such a one must never
/// become an outcome, since other organisations would not see it.
pub fn is_of_the_machine(error: &PgError) -> bool {
    let state = error.sqlstate.as_str();
    let class = &state[..2];
    matches!(class, "40" | "53" | "57" | "58" | "F0")
        || matches!(state, "55P03" | "XX001" | "XX002")
}
