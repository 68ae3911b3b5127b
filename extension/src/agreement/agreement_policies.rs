//! Agreement policies of tables (spec/agreement.md): rows of `chainify_ledger.policy`, a ledger
//! table of the ledger's own, and so part of the state root. DEPLOY transactions set them.
//!
//! Invariant C3: a policy, and the definition of its table, change only with the agreement of more
//! than two thirds of the organisations.
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use chainify_agreement::Policy;
use chainify_sqltext::TableName;
use pgrx::pg_sys::Oid;

use crate::ledger::as_of::AsOf;
use crate::ledger::outcome::Outcome;
use crate::ledger::place::At;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, OrRaise, PgError};
use crate::pg::base::function::cell;
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::query;
use crate::pg::run::step::{enter, Step};
use crate::rules::agreeing::{check_majority, gateways, Agreeing};

/// Policies by the name of their table, `schema.name`.
pub type Policies = BTreeMap<String, Rc<Policy>>;

thread_local! {
    static KNOWN: AsOf<Policies> = const { AsOf::nothing() };
}

/// The policies in force at this place of the order.
pub fn known() -> Rc<Policies> {
    KNOWN.with(|known| known.or(read))
}

fn read() -> Policies {
    let mut found = Policies::new();
    if let Some(policies) = catalog::relation_named("chainify_ledger", "policy") {
        Relation::open(policies, Lock::AccessShare).scan(|row| {
            let (name, text) = (row.get::<String>(1), row.get::<String>(2));
            let (name, text) = (name.unwrap_or_default(), text.unwrap_or_default());
            let policy = Rc::new(stored(&name, &text));
            found.insert(name, policy);
        });
    }
    found
}

/// Each text that is written was read before; raises for what somebody wrote behind the ledger's
/// back.
fn stored(table: &str, text: &str) -> Policy {
    let malformed = |error| {
        PgError::new(
            b"XX001",
            format!("agreement policy of table \"{table}\" is malformed: {error}"),
        )
    };
    Policy::parse(text).map_err(malformed).or_raise()
}

/// Runs `SET AGREEMENT POLICY table TO policy`.
pub fn set(table: &TableName, policy: &str, at: At) -> Outcome {
    let policy = parse(policy)?;
    attempt(|| {
        check_table(table);
        check_organisations(&policy, at.block);
        set_policy(&table.to_string(), &policy, at);
    })?;
    Ok(1)
}

/// Runs `DROP AGREEMENT POLICY table`.
pub fn unset(table: &TableName, at: At) -> Outcome {
    attempt(|| drop_policy(&table.to_string(), at))?;
    Ok(1)
}

fn parse(text: &str) -> Result<Policy, PgError> {
    Policy::parse(text)
        .map_err(|error| PgError::new(b"42601", format!("agreement policy: {error}")))
}

/// Raises unless the table itself is on the ledger, and not one of the ledger's own.
fn check_table(of: &TableName) {
    let owner = catalog::relation_named(&of.schema, &of.table).and_then(tables::owner);
    let on_ledger = owner.is_some_and(|owner| owner.name == of.to_string());
    if !on_ledger || of.schema == "chainify_ledger" {
        PgError::new(b"CH004", format!("table \"{of}\" is not on the ledger")).raise();
    }
}

/// Raises for an organisation that does not take part: nobody could agree for it.
fn check_organisations(policy: &Policy, block: i64) {
    let known = gateways(block);
    let unknown = policy
        .organisations()
        .into_iter()
        .find(|name| !known.contains_key(*name));
    if let Some(name) = unknown {
        PgError::new(
            b"42704",
            format!("organisation \"{name}\" of the agreement policy does not take part"),
        )
        .raise();
    }
}

fn set_policy(name: &str, policy: &Policy, at: At) {
    query(
        "SELECT chainify_ledger.attach_own('policy', $1, $2)",
        &[cell(at.block), cell(at.tx as i32)],
        |_| (),
    );
    let row = [cell(name.to_owned()), cell(policy.to_string())];
    enter(Step::Rows { tx: at.tx }, || {
        let sql = "INSERT INTO chainify_ledger.policy VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET policy = excluded.policy";
        query(sql, &row, |_| ())
    });
    tables::announce_change();
}

fn drop_policy(name: &str, at: At) {
    if !known().contains_key(name) {
        PgError::new(
            b"42704",
            format!("table \"{name}\" has no agreement policy"),
        )
        .raise();
    }
    let sql = "DELETE FROM chainify_ledger.policy WHERE name = $1";
    enter(Step::Rows { tx: at.tx }, || {
        query(sql, &[cell(name.to_owned())], |_| ())
    });
    tables::announce_change();
}

/// A policy with the table that it is of.
#[derive(PartialEq, Eq)]
struct Governed {
    name: String,
    policy: String,
    /// None: the table is gone.
    relation: Option<Oid>,
    version: Option<i32>,
    schema_hash: Option<Vec<u8>>,
}

/// The policies that a DEPLOY transaction found, for [`Before::check`] when it has run.
pub struct Before(Vec<Governed>);

/// To be called before a DEPLOY transaction runs.
pub fn before_deploy() -> Before {
    Before(governed())
}

impl Before {
    /// Fails when the transaction left a policy that its table does not fit any more (CH004), or
    /// changed a policy or its table without the agreement that takes (CH009).
    pub fn check(self, block: i64, agreeing: impl FnOnce() -> Agreeing) -> Result<(), PgError> {
        attempt(|| {
            let after = governed();
            after.iter().for_each(check_fits);
            let changed = self.0.iter().find(|was| !after.contains(was));
            if let Some(changed) = changed {
                let subject = format!("table \"{}\" has an agreement policy", changed.name);
                check_majority(&subject, block, &agreeing());
            }
        })
    }
}

fn governed() -> Vec<Governed> {
    let mut found = Vec::new();
    query(
        "SELECT name, policy, relation, version, schema_hash FROM chainify_ledger.governed()",
        &[],
        |row| {
            found.push(Governed {
                name: row.must(1),
                policy: row.must(2),
                relation: row.get(3),
                version: row.get(4),
                schema_hash: row.get(5),
            });
        },
    );
    found
}

fn check_fits(governed: &Governed) {
    let name = &governed.name;
    let Some(relation) = governed.relation else {
        PgError::new(
            b"CH004",
            format!("table \"{name}\" has an agreement policy, which has to be dropped first"),
        )
        .raise()
    };
    let mut columns = BTreeSet::new();
    query(
        "SELECT * FROM chainify_ledger.naming_columns($1)",
        &[cell(relation)],
        |row| {
            columns.insert(row.must::<String>(1));
        },
    );
    let policy = stored(name, &governed.policy);
    let missing = policy
        .columns()
        .into_iter()
        .find(|column| !columns.contains(*column));
    if let Some(column) = missing {
        PgError::new(
            b"CH004",
            format!("agreement policy of table \"{name}\" names \"{column}\", which is no column of text or an enum"),
        )
        .raise();
    }
}
