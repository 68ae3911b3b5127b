//! Runs one transaction of a block as its client's role, undone alone when it fails.
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use chainify_ledger::messages::{Kind, Proposal};
use chainify_ledger::Transaction;

use super::attach;
use super::execute::Request;
use super::session::{self, Mode};
use crate::pg::block_settings::{seed_random, settings_undone};
use crate::pg::error::PgError;
use crate::pg::role::Role;
use crate::pg::statement::Prepared;
use crate::pg::subtransaction::subtransaction;

/// Rows returned or changed, or why the transaction failed.
pub type Outcome = Result<u64, PgError>;

/// Runs transaction `index`; its changes are recorded under that index.
pub fn run(request: &Request, index: u32) -> Outcome {
    let transaction = &request.transactions[index as usize];
    subtransaction(|| settings_undone(|| dispatch(request, transaction, index)))
}

fn dispatch(request: &Request, transaction: &Transaction, index: u32) -> Outcome {
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
            role.run(|| session::with(Mode::Client { tx: index }, || run_sql(role, proposal)))
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

/// Transactions kept prepared in a session.
const PREPARED_MAX: usize = 1_024;

struct Kept {
    types: Vec<String>,
    prepared: Rc<Prepared>,
    used: u64,
}

/// By role, because names are resolved and rights on schemas checked when a statement is analysed.
#[derive(Default)]
struct Cache {
    by_role: HashMap<Role, HashMap<String, Vec<Kept>>>,
    count: usize,
    clock: u64,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

fn run_sql(role: Role, proposal: &Proposal) -> Outcome {
    let types = || proposal.parameters.iter().map(|p| p.r#type.as_str());
    let prepared = match CACHE.with_borrow_mut(|cache| cache.find(role, &proposal.sql, types())) {
        Some(prepared) => prepared,
        None => {
            let prepared = Rc::new(Prepared::new(&proposal.sql, &types().collect::<Vec<_>>())?);
            CACHE.with_borrow_mut(|cache| cache.keep(role, proposal, prepared.clone()));
            prepared
        }
    };
    prepared.run(
        proposal
            .parameters
            .iter()
            .map(|p| (!p.null).then_some(p.text.as_str())),
    )
}

impl Cache {
    fn find<'t>(
        &mut self,
        role: Role,
        sql: &str,
        types: impl Iterator<Item = &'t str> + Clone,
    ) -> Option<Rc<Prepared>> {
        self.clock += 1;
        let kept = self.by_role.get_mut(&role)?.get_mut(sql)?;
        let found = kept
            .iter_mut()
            .find(|k| k.types.iter().map(String::as_str).eq(types.clone()))?;
        found.used = self.clock;
        Some(found.prepared.clone())
    }

    fn keep(&mut self, role: Role, proposal: &Proposal, prepared: Rc<Prepared>) {
        if self.count >= PREPARED_MAX {
            self.forget_older_half();
        }
        let types = proposal
            .parameters
            .iter()
            .map(|p| p.r#type.clone())
            .collect();
        let of_role = self.by_role.entry(role).or_default();
        of_role.entry(proposal.sql.clone()).or_default().push(Kept {
            types,
            prepared,
            used: self.clock,
        });
        self.count += 1;
    }

    /// Half at once, so that one pass over the cache serves many transactions that are new.
    fn forget_older_half(&mut self) {
        let mut used: Vec<u64> = self
            .by_role
            .values()
            .flat_map(|m| m.values().flatten().map(|k| k.used))
            .collect();
        let middle = used.len() / 2;
        let limit = *used.select_nth_unstable(middle).1;
        for of_role in self.by_role.values_mut() {
            of_role.retain(|_, kept| {
                kept.retain(|k| k.used > limit);
                !kept.is_empty()
            });
        }
        self.count = self
            .by_role
            .values()
            .flat_map(|m| m.values())
            .map(Vec::len)
            .sum();
    }
}
