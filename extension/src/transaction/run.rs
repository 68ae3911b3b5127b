//! Runs one transaction of a block as its client's role, undone alone when it fails.
use std::cell::Cell;
use std::time::Instant;

use chainify_ledger::messages::Kind;
use chainify_ledger::Transaction;
use chainify_rules::errors::{is_of_a_name, may_be_of_a_name};
use chainify_sched::cost::Cost;
use chainify_sqltext::{command, Command, Malformed};

use crate::agreement::agreement_policies;
use crate::agreement::agreements;
use crate::agreement::circles;
use crate::agreement::role_organisations;
use crate::certification::write_sets;
use crate::definitions::attach;
use crate::definitions::deploy;
use crate::ledger::client_role;
use crate::ledger::outcome::{is_of_the_machine, may_be_of_the_machine, Outcome};
use crate::ledger::place::At;
use crate::pg::base::error::PgError;
use crate::pg::base::raised::{Raised, Wanted};
use crate::pg::base::role::Role;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::planner::block_settings::seed_random;
use crate::pg::run::executor_cache;
use crate::pg::run::plpgsql;
use crate::pg::run::step::{self, Undone};
use crate::planned;
use crate::rules::agreed_settings;
use crate::rules::agreeing::Agreeing;
use crate::rules::determinism;
use crate::running::request::Request;
use crate::running::uuids::seed_uuid;
use crate::sequences;
use crate::sql::statements::{self, told_whole};

const WATCHED: Wanted = Wanted {
    state: |state| may_be_of_the_machine(state) || may_be_of_a_name(state.as_str()),
    error: is_of_the_machine,
    name: |error| is_of_a_name(error.sqlstate.as_str(), &error.message),
};

/// Runs the transaction of `request` at `at`; its changes are recorded under its index in the
/// block. Err: an error of the machine, which is no outcome.
pub fn run(request: &Request, at: usize) -> Result<Outcome, PgError> {
    let (transaction, index) = (&request.transactions[at], request.indices[at]);
    let as_written = Cell::new(false);
    let attempt = || {
        let (outcome, raised) = step::transaction(Undone::Alone, WATCHED, || {
            dispatch(request, transaction, index, &as_written)
        });
        unless_of_the_machine(outcome, raised)
    };
    let mut outcome = attempt()?;
    if outcome.is_err() && as_written.get() {
        outcome = attempt()?;
    }
    if plpgsql::must_run_again() {
        outcome = attempt()?;
    }
    Ok(outcome)
}

/// Runs several transactions in one subtransaction, `each` around every one of them. None: one
/// failed, nothing of them is left, and each has to run by itself. Err: an error of the machine in
/// the transaction at the position named, which is no outcome.
pub fn run_together(
    request: &Request,
    positions: &[usize],
    each: impl Fn(usize, &mut dyn FnMut()),
) -> Result<Option<Vec<Outcome>>, (usize, PgError)> {
    let stopped = Cell::new(None);
    let one = |at: &usize| {
        let (transaction, index) = (&request.transactions[*at], request.indices[*at]);
        let mut result = Ok(0);
        each(*at, &mut || {
            let as_written = Cell::new(false);
            let (outcome, raised) = step::transaction(Undone::WithOthers, WATCHED, || {
                dispatch(request, transaction, index, &as_written)
            });
            result = unless_of_the_machine(outcome, raised).unwrap_or_else(|error| {
                stopped.set(Some((*at, error.clone())));
                Err(error)
            });
        });
        result
    };
    let outcomes = subtransaction(|| positions.iter().map(one).collect::<Result<Vec<_>, _>>());
    match (stopped.take(), outcomes) {
        (Some(stopped), _) => Err(stopped),
        (None, Ok(rows)) => Ok(Some(rows.into_iter().map(Ok).collect())),
        (None, Err(_)) => Ok(None),
    }
}

/// Invariant X4: an error of the machine that a function caught has steered the transaction all the
/// same. One that RAISE made up is the transaction's own doing, the same in every organisation.
fn unless_of_the_machine(outcome: Outcome, raised: Raised) -> Result<Outcome, PgError> {
    if let Some(error) = raised.first {
        return Err(error);
    }
    match outcome {
        Err(error) if is_of_the_machine(&error) && !raised.by_statement => Err(error),
        outcome => Ok(outcome.map_err(told_whole)),
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
    let agreeing = || Agreeing::of(transaction, &request.chain_id, request.number);
    match transaction.kind() {
        Kind::Sql => {
            let rows = statements_of(transaction, index, as_written)?;
            agreements::check(index, agreeing)?;
            Ok(rows)
        }
        Kind::Deploy => {
            let client = transaction.client();
            role_organisations::check(client)?;
            let role = client_role::of_admin(&client.role)?;
            executor_cache::forget();
            seed_random(&transaction.id);
            seed_uuid(&transaction.id);
            let at = At {
                block: request.number,
                tx: index,
            };
            let policies = agreement_policies::before_deploy();
            let organisations = role_organisations::before_deploy();
            let deploys = agreed_settings::before_deploy();
            let sealed = circles::before_deploy();
            let rows = deploy_text(role, &proposal.sql, at)?;
            policies.check(request.number, agreeing)?;
            organisations.check(request.number, agreeing)?;
            deploys.check(request.number, agreeing)?;
            sealed.follow()?;
            Ok(rows)
        }
        Kind::Effects => {
            let rows = effects(transaction, index)?;
            agreements::check(index, agreeing)?;
            Ok(rows)
        }
        Kind::Plan => planned::run(request, transaction, index),
        _ => Err(PgError::new(
            b"0A000",
            "transactions of this kind are reserved",
        )),
    }
}

/// Runs the statements of a SQL transaction.
fn statements_of(transaction: &Transaction, index: u32, as_written: &Cell<bool>) -> Outcome {
    let role = statements::role_of(transaction.client())?;
    statements::run(
        role,
        &transaction.proposal,
        &transaction.id,
        index,
        as_written,
    )
}

/// Makes the changes of an EFFECTS transaction.
fn effects(transaction: &Transaction, index: u32) -> Outcome {
    let role = statements::role_of(transaction.client())?;
    determinism::before_transaction();
    sequences::before_transaction();
    let started = CHANGE_COST.with(Cost::is_due).then(Instant::now);
    let rows = write_sets::apply(role, &transaction.proposal.effects, index)?;
    if let Some(started) = started {
        let each = started.elapsed().as_nanos() as u64 / rows.max(1);
        CHANGE_COST.with(|cost| cost.add(each));
    }
    sequences::after_transaction(index);
    Ok(rows)
}

thread_local! {
    /// The time that one change of a write set takes; learnt from earlier ones.
    static CHANGE_COST: Cost = Cost::default();
}

/// The time that a write set with so many changes is expected to take, in nanoseconds.
pub fn cost_of_effects(changes: u64) -> Option<u64> {
    let each = CHANGE_COST.with(Cost::expected)?;
    Some(each.saturating_mul(changes.max(1)))
}

/// Runs a SQL or EFFECTS transaction, shows what it did, as changes of transaction 0, and
/// undoes it. Err: they fail.
pub fn rehearse<T>(transaction: &Transaction, show: impl Fn() -> T) -> Result<T, PgError> {
    let as_written = Cell::new(false);
    let attempt = || {
        let mut shown = None;
        let undone = subtransaction(|| {
            let (outcome, _) =
                step::transaction(Undone::WithOthers, WATCHED, || match transaction.kind() {
                    Kind::Effects => effects(transaction, 0),
                    _ => statements_of(transaction, 0, &as_written),
                });
            outcome?;
            shown = Some(show());
            Err::<(), _>(PgError::new(b"00000", "undone"))
        });
        shown.ok_or_else(|| undone.unwrap_err())
    };
    let mut result = attempt();
    if result.is_err() && as_written.get() {
        result = attempt();
    }
    if plpgsql::must_run_again() {
        result = attempt();
    }
    result.map_err(told_whole)
}

/// Runs what a DEPLOY transaction says.
fn deploy_text(role: Role, sql: &str, at: At) -> Outcome {
    let command = command(sql).transpose().map_err(no_command)?;
    match command {
        Some(Command::AttachShared(_) | Command::Detach(_)) => {}
        Some(Command::AttachProcedure(_) | Command::DetachProcedure(_)) => attach::want_shared()?,
        _ => attach::refuse_where_shared()?,
    }
    match command {
        Some(Command::SetDeterminism(value)) => agreed_settings::set_determinism(value, at),
        Some(Command::SetDeploys(value)) => agreed_settings::set_deploys(value, at),
        Some(Command::SetPolicy(table, policy)) => agreement_policies::set(&table, policy, at),
        Some(Command::DropPolicy(table)) => agreement_policies::unset(&table, at),
        Some(Command::SetRoleOrganisations(role, organisations)) => {
            role_organisations::set(&role, organisations, at)
        }
        Some(Command::DropRoleOrganisations(role)) => role_organisations::unset(&role, at),
        Some(Command::CreateCircle(name, organisations)) => {
            circles::create(&name, organisations, at)
        }
        Some(Command::DropCircle(name)) => circles::unset(&name, at),
        Some(Command::SealColumn(sealed)) => circles::seal(&sealed, at),
        Some(Command::Attach(tables)) => deploy::followed(at, || attach::attach(tables, at)),
        Some(Command::AttachShared(tables)) => {
            deploy::followed(at, || attach::attach_shared(tables, at))
        }
        Some(Command::Detach(tables)) => deploy::followed(at, || attach::detach(tables, at)),
        Some(Command::AttachProcedure(procedure)) => {
            deploy::followed(at, || attach::attach_procedure(procedure, at))
        }
        Some(Command::DetachProcedure(name)) => {
            deploy::followed(at, || attach::detach_procedure(name, at))
        }
        None => deploy::followed(at, || deploy::run(role, sql, at)),
    }
}

fn no_command(malformed: Malformed) -> PgError {
    let (message, hint) = match malformed {
        Malformed::Tables => (
            "neither ATTACH TABLE nor DETACH TABLE with a list of tables",
            "Write ATTACH TABLE schema.table, … with names quoted as SQL does, or ATTACH TABLE public.table, … ENCODING 2.",
        ),
        Malformed::Procedure => (
            "neither ATTACH PROCEDURE nor DETACH PROCEDURE of one procedure",
            "Write ATTACH PROCEDURE public.name (type, …) ENCODING 2 MARIADB digest POSTGRESQL digest, or DETACH PROCEDURE public.name.",
        ),
        Malformed::Policy => (
            "neither SET AGREEMENT POLICY nor DROP AGREEMENT POLICY of a table",
            "Write SET AGREEMENT POLICY schema.table TO …, with names quoted as SQL does.",
        ),
        Malformed::RoleOrganisations => (
            "neither SET ORGANISATIONS OF ROLE nor DROP ORGANISATIONS OF ROLE",
            "Write SET ORGANISATIONS OF ROLE role TO organisation, … with names quoted as SQL does.",
        ),
        Malformed::Circle => (
            "neither CREATE CIRCLE nor DROP CIRCLE",
            "Write CREATE CIRCLE name OF organisation, … or DROP CIRCLE name, with names quoted as SQL does.",
        ),
        Malformed::Sealed => (
            "no ALTER TABLE … SEAL COLUMN",
            "Write ALTER TABLE schema.table SEAL COLUMN column AS type FOR circle, with names quoted as SQL does.",
        ),
    };
    PgError::new(b"42601", message).hint(hint)
}
