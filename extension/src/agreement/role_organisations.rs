//! The organisations that may act as a role (spec/sql-api.md): rows of
//! `chainify_ledger.role_organisation`, a ledger table of the ledger's own, and so part of the
//! state root. DEPLOY transactions set them.
//!
//! A role exists in every organisation's database, and each organisation's gateway vouches for its
//! own clients. Without a row, a client of any organisation may therefore act as the role.
//!
//! Invariant C5: a transaction runs as a role only when the organisation that submitted it may act
//! as that role at its place of the order. The organisations of a role change only with the
//! agreement of more than two thirds of the organisations.
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use chainify_ledger::messages::Client;

use crate::ledger::as_of::AsOf;
use crate::ledger::outcome::Outcome;
use crate::ledger::place::At;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::cell;
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::role::Role;
use crate::pg::base::spi::query;
use crate::pg::run::step::{enter, Step};
use crate::rules::agreeing::{check_majority, gateways, Agreeing};

/// Organisations, by the role that they may act as.
type Known = BTreeMap<String, BTreeSet<String>>;

/// Between the names of one row. No organisation's name has it.
const SEPARATOR: &str = ", ";

thread_local! {
    static KNOWN: AsOf<Known> = const { AsOf::nothing() };
}

/// The organisations in force at this place of the order.
fn known() -> Rc<Known> {
    KNOWN.with(|known| known.or(read))
}

fn read() -> Known {
    let mut found = Known::new();
    if let Some(table) = catalog::relation_named("chainify_ledger", "role_organisation") {
        Relation::open(table, Lock::AccessShare).scan(|row| {
            let (role, names) = (row.get::<String>(1), row.get::<String>(2));
            let names = names.unwrap_or_default();
            let names = names.split(SEPARATOR).map(str::to_owned).collect();
            found.insert(role.unwrap_or_default(), names);
        });
    }
    found
}

/// Fails with 42501 when the client's organisation may not act as the client's role.
pub fn check(client: &Client) -> Result<(), PgError> {
    let known = known();
    let Some(organisations) = known.get(&client.role) else {
        return Ok(());
    };
    if organisations.contains(&client.organisation) {
        return Ok(());
    }
    let names: Vec<&str> = organisations.iter().map(String::as_str).collect();
    Err(PgError::new(
        b"42501",
        format!(
            "organisation \"{}\" may not act as role \"{}\", which is for {}",
            client.organisation,
            client.role,
            names.join(SEPARATOR)
        ),
    ))
}

/// Runs `SET ORGANISATIONS OF ROLE role TO organisations`.
pub fn set(role: &str, organisations: Vec<String>, at: At) -> Outcome {
    let names: BTreeSet<String> = organisations.into_iter().collect();
    attempt(|| {
        check_role(role);
        check_organisations(&names, at.block);
        let names: Vec<String> = names.into_iter().collect();
        write(role, &names.join(SEPARATOR), at);
    })?;
    Ok(1)
}

/// Runs `DROP ORGANISATIONS OF ROLE role`.
pub fn unset(role: &str, at: At) -> Outcome {
    attempt(|| {
        if !known().contains_key(role) {
            let message = format!("role \"{role}\" is for clients of every organisation already");
            PgError::new(b"42704", message).raise();
        }
        let sql = "DELETE FROM chainify_ledger.role_organisation WHERE role = $1";
        enter(Step::Rows { tx: at.tx }, || {
            query(sql, &[cell(role.to_owned())], |_| ())
        });
        tables::announce_change();
    })?;
    Ok(1)
}

fn check_role(role: &str) {
    if Role::find(role).is_none() {
        PgError::new(b"42704", format!("role \"{role}\" does not exist")).raise();
    }
}

/// Raises for an organisation that does not take part, whose clients could not submit.
fn check_organisations(names: &BTreeSet<String>, block: i64) {
    let known = gateways(block);
    if let Some(name) = names.iter().find(|name| !known.contains_key(*name)) {
        let message = format!("organisation \"{name}\" does not take part");
        PgError::new(b"42704", message).raise();
    }
}

fn write(role: &str, names: &str, at: At) {
    query(
        "SELECT chainify_ledger.attach_own('role_organisation', $1, $2)",
        &[cell(at.block), cell(at.tx as i32)],
        |_| (),
    );
    let row = [cell(role.to_owned()), cell(names.to_owned())];
    enter(Step::Rows { tx: at.tx }, || {
        let sql = "INSERT INTO chainify_ledger.role_organisation VALUES ($1, $2)
            ON CONFLICT (role) DO UPDATE SET organisations = excluded.organisations";
        query(sql, &row, |_| ())
    });
    tables::announce_change();
}

/// The organisations before a DEPLOY transaction, for [`Before::check`] when it has run.
pub struct Before(Rc<Known>);

/// To be called before a DEPLOY transaction runs.
pub fn before_deploy() -> Before {
    Before(known())
}

impl Before {
    /// Fails with CH009 when the transaction changed the organisations of a role without the
    /// agreement that takes.
    pub fn check(self, block: i64, agreeing: impl FnOnce() -> Agreeing) -> Result<(), PgError> {
        attempt(|| {
            if known() != self.0 {
                let subject = "it changes the organisations that may act as a role";
                check_majority(subject, block, &agreeing());
            }
        })
    }
}
