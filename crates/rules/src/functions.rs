//! Which functions a ledger transaction may call.
use std::rc::Rc;

use crate::aggregates;
use crate::finding::Finding;
use crate::level::{Function, Language};
pub use crate::settings::Database;

mod collations;
mod lists;
mod reasons;

pub use collations::{by_collation, classes_of_database, of_text_search, order_by};
pub use reasons::{PASS_PARAMETER, SEQUENCE_REASON, SEQUENCE_REWRITE, SESSION_REASON};

/// The use that a transaction may make of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The result follows from the arguments and from what is pinned.
    Allowed,
    /// The same sequence of values in every organisation, one per call.
    Draws,
    /// Written in SQL or PL/pgSQL; its statements are checked when they run.
    Runs,
    /// No ledger transaction may call it.
    Refused,
}

/// They say themselves that a ledger transaction cannot submit another.
const SUBMITTING: &[&str] =
    &["chainify.execute", "chainify.submit", "chainify.submit_batch", "chainify.attach", "chainify.detach"];

/// The use that a transaction may make of a function. One that no list names is refused.
pub fn verdict(f: &Function) -> Verdict {
    if f.newer {
        return Verdict::Refused;
    }
    let random = f.built_in && f.name == "random";
    if f.on_sequence || f.name == "chainify.uuid" || random {
        return Verdict::Draws;
    }
    if SUBMITTING.contains(&f.name.as_str()) {
        return Verdict::Allowed;
    }
    let allowed = if f.built_in {
        built_in(f)
    } else if f.language == Language::Checked || f.aggregate {
        if f.may_be_merged {
            return Verdict::Refused;
        }
        return Verdict::Runs;
    } else {
        f.immutable && f.extension.as_deref().is_some_and(|e| lists::of_extension(e, f.own_name()))
    };
    if allowed {
        Verdict::Allowed
    } else {
        Verdict::Refused
    }
}

fn built_in(f: &Function) -> bool {
    match (f.aggregate, f.immutable) {
        _ if f.volatile => false,
        (true, _) => aggregates::is_known(&f.name),
        (_, true) => lists::immutable(&f.name),
        (_, false) => !f.takes_xid && lists::stable(&f.name),
    }
}

/// Whether the number and the order of a function's calls matter.
pub fn draws(f: &Function) -> bool {
    match verdict(f) {
        Verdict::Draws => true,
        Verdict::Runs => f.volatile,
        _ => false,
    }
}

/// PostgreSQL's own condition on the rows of a partition by hash. A query that names it is refused.
const OF_PARTITIONS: &str = "satisfies_hash_partition";

/// As [`finding`], for a function about to run. Aggregates have functions of their own, which take
/// what no query can write. A function whose text goes into a statement was refused with that.
pub fn execution_finding(f: &Function) -> Option<Finding> {
    let of_postgres = f.built_in && (f.takes_internal || f.name == OF_PARTITIONS);
    if of_postgres || f.may_be_merged {
        return None;
    }
    finding(f)
}

/// Why a function is refused; None when it is not.
pub fn finding(f: &Function) -> Option<Finding> {
    if verdict(f) != Verdict::Refused {
        return None;
    }
    let (reason, rewrite) = if f.built_in {
        reasons::built_in(f)
    } else if f.may_be_merged {
        (
            "PostgreSQL would put its statement into this one before it can be checked.",
            "Declare the function VOLATILE, write it in PL/pgSQL, or give it a SET clause, for example SET search_path = public.",
        )
    } else {
        reasons::in_c(f)
    };
    Some(Finding::new(format!("{}()", f.name), reason, rewrite))
}

/// The finding in a text that could not be analysed and that names a function; `overloads` are
/// those of that name in the catalog's order. None when a transaction may call one of them.
pub fn named(overloads: &[Rc<Function>]) -> Option<Finding> {
    let findings: Option<Vec<Finding>> = overloads.iter().map(|f| finding(f)).collect();
    findings?.into_iter().next()
}
