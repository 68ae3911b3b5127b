//! Orders a single deterministic statement of plain SQL as SQL: every organisation executes it on
//! the rows that are current at its place of the order, so it has no conflict.
use chainify_sched::template::Template;

use crate::pg::base::error::OrRaise;
use crate::pg::base::settings::{self, Writes};
use crate::pg::base::variadic::TextValue;
use crate::pg::ddl::inspect::inspect;
use crate::pg::planner::block_settings::{pinned, reads_as_in_a_block};
use crate::rules::determinism::check;
use crate::sql::statements;
use crate::submission::sql_statement::sql_statement;
use crate::submission::submit::{failure, run_of_session};

/// Orders the statement and waits for its outcome. Returns how many rows it changed, or None when
/// the session is to run it. Raises its failure.
pub fn execute(text: &str, values: &mut dyn FnMut() -> Vec<TextValue>) -> Option<u64> {
    let may = settings::writes() == Writes::Ledger && reads_as_in_a_block();
    if !may || !is_deterministic(text) {
        return None;
    }
    // A statement that takes too many values, or of types of this session alone, runs here.
    let statement = sql_statement(Some(text.to_owned()), values()).ok()?;
    let outcome = run_of_session(statement).or_raise();
    match outcome.succeeded {
        true => Some(outcome.rows.unsigned_abs()),
        false => failure(outcome).raise(),
    }
}

/// Whether the rules find nothing in it, and it uses objects of the ledger alone.
fn is_deterministic(text: &str) -> bool {
    let statements = pinned(|| inspect(text, true)).or_raise();
    let [statement] = &statements[..] else {
        return false;
    };
    let Ok(found) = &statement.found else {
        return false;
    };
    let Some(template) = &found.template else {
        return false;
    };
    found
        .levels
        .iter()
        .all(|level| check(level, false).is_empty())
        && on_ledger(template)
}

fn on_ledger(template: &Template) -> bool {
    let refusals = template.accesses().iter();
    refusals.map(statements::refusal).all(|r| r.is_none())
}
