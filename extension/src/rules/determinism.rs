//! Asks the determinism rules of `crates/rules` about each query that PostgreSQL plans and each
//! function that it calls.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use chainify_rules::determinism::of_type;
pub use chainify_rules::finding::Finding;
use chainify_rules::functions::{self, Database};
use chainify_rules::level::{Language, Level};
use chainify_rules::plans::{planned, Asker, Origin, Planned, Plans};
use chainify_rules::settings::Determinism;
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::access::plpgsql::variables;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::catalog;
use crate::pg::base::collation;
use crate::pg::base::error::PgError;
use crate::pg::base::settings::{self, Writes};
use crate::pg::describe::function_facts;
use crate::pg::planner::planning;
use crate::pg::planner::planning::{Agreed, Queries};
use crate::rules::agreed_settings;

/// The rules' view of this database.
struct Here;

impl Database for Here {
    fn local_collation(&self) -> Option<String> {
        collation::of_database()
    }

    fn policy(&self) -> Determinism {
        agreed_settings::determinism()
    }
}

/// The answers for the planner's hook about queries.
pub const QUERIES: Queries = Queries {
    wanted,
    query,
    alone,
    draws,
};

/// The answers for the planner's hooks about tables.
pub const AGREED: Agreed = Agreed {
    is_agreed: |relation| tables::owner(relation).is_some(),
    planned_outside: || PLANS.set(PLANS.get().noted_unchecked()),
};

thread_local! {
    static PLANS: Cell<Plans> = const { Cell::new(Plans::new()) };
    /// Functions that may be executed, as of a generation of the catalog.
    static EXECUTABLE: RefCell<(u64, BTreeSet<u32>)> = const { RefCell::new((0, BTreeSet::new())) };
}

/// Invariant X6. To be called before a client's transaction runs.
pub fn before_transaction() {
    let policy = agreed_settings::determinism();
    if PLANS.get().must_forget(policy) {
        planning::forget_plans();
    }
    PLANS.set(PLANS.get().before_transaction(policy));
}

fn wanted() -> bool {
    PLANS.get().executes()
}

fn query(level: &Level, origin: Origin) -> bool {
    let asker = match phase() {
        Phase::Client { .. } => Asker::Client,
        Phase::Deploy => Asker::Deploy,
        _ => Asker::Other,
    };
    match planned(level, asker, origin, &Here) {
        Planned::Fine => {}
        // Relations were looked up before this. Whether they are on the ledger is asked later.
        Planned::Refused(finding) if level.reads() => {
            PgError::from(finding.refusal()).of_a_name().raise()
        }
        Planned::Refused(finding) => PgError::from(finding.refusal()).raise(),
        Planned::Unchecked => PLANS.set(PLANS.get().noted_unchecked()),
    }
    !level.fails_alike() && agreed_settings::determinism() == Determinism::Strict
}

/// Ledger tables are written by blocks alone, and parts of one have no rows in common: a client's
/// transaction locks none that others would change.
fn alone() -> bool {
    matches!(phase(), Phase::Client { .. })
}

/// The changes of such a session go through the ledger.
fn draws() -> bool {
    settings::writes() != Writes::Refuse && phase() != Phase::Internal
}

/// Raises CH006 for a function that a client's transaction must not run, wherever the call stands.
pub fn execution(function: Oid) {
    let generation = catalog::generation();
    let known = EXECUTABLE.with_borrow_mut(|(of, known)| {
        if *of != generation {
            (*of, *known) = (generation, BTreeSet::new());
        }
        known.contains(&function.to_u32())
    });
    if known {
        return;
    }
    let facts = function_facts::function(function);
    if let Some(finding) = functions::execution_finding(&facts) {
        PgError::from(finding.refusal()).raise();
    }
    if facts.language == Language::Checked && !facts.aggregate && !function_facts::is_sql(function)
    {
        let of = variables::object_identifier(function).unwrap_or_else(|error| error.raise());
        if let Some(name) = of {
            PgError::from(of_type(name).refusal()).raise();
        }
    }
    EXECUTABLE.with_borrow_mut(|(_, known)| known.insert(function.to_u32()));
}

/// Everything in the statement that is refused; `in_function`: its caller takes the rows one by
/// one.
pub fn check(level: &Level, in_function: bool) -> Vec<Finding> {
    chainify_rules::determinism::check(level, in_function, &Here)
}

/// Errors: CH006 for the first finding that counts, under the policy agreed.
pub fn refuse(
    levels: &[Level],
    in_function: bool,
    counts: fn(&Finding) -> bool,
) -> Result<(), PgError> {
    let found = chainify_rules::determinism::refused(levels, in_function, &Here, counts);
    found.map_or(Ok(()), |finding| Err(finding.refusal().into()))
}
