//! The outcome of a transaction, and which errors must never become an outcome.
use crate::pg::base::error::{PgError, SqlState};

/// Rows returned or changed, or why the transaction failed.
pub type Outcome = Result<u64, PgError>;

/// Whether an error says something about this machine, not about the statement: such a one must
/// never become an outcome, since other organisations may not see it. How deep the stack reaches
/// (54001) depends on how PostgreSQL was built, and so may what it did not expect itself (XX000).
/// A value that is larger than any may be is XX000, and the same everywhere.
pub fn is_of_the_machine(error: &PgError) -> bool {
    match error.sqlstate.as_str() {
        "54001" => true,
        "XX000" => !error.message.starts_with(LARGER_THAN_VALUES),
        _ => is_of_the_moment(error),
    }
}

/// Whether it may be another one, or none, a moment later.
pub fn is_of_the_moment(error: &PgError) -> bool {
    let state = error.sqlstate.as_str();
    matches!(&state[..2], "40" | "53" | "57" | "58" | "72" | "F0")
        || matches!(state, "55P03" | "XX001" | "XX002")
        || SHARED
            .iter()
            .any(|(shared, beginning)| *shared == state && error.message.starts_with(beginning))
}

/// Whether an error with this SQLSTATE can be one of the machine. Its message may decide.
pub fn may_be_of_the_machine(state: SqlState) -> bool {
    let shared = SHARED.iter().any(|(shared, _)| *shared == state.as_str());
    shared || is_of_the_machine(&PgError::of_state(state))
}

/// How PostgreSQL's words begin for more than 1 GB at once, the bound of its values.
const LARGER_THAN_VALUES: &str = "invalid memory alloc request size ";

/// SQLSTATEs that a statement causes too, and how the machine's messages begin. A file that is not
/// allowed, or on a disk that was made read-only, is 42501; a path that is no file is 42809. A
/// library of another version lacks a function. Numbers of transactions run out.
const SHARED: &[(&str, &str)] = &[
    ("42501", "could not "),
    ("42809", "could not "),
    ("42883", "could not find function "),
    ("54000", "database is not accepting commands"),
    ("54000", "multixact \"members\" limit exceeded"),
];
