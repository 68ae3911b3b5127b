//! The outcome of a transaction, and which errors must never become an outcome.
use crate::pg::base::error::{PgError, SqlState};

/// Rows returned or changed, or why the transaction failed.
pub type Outcome = Result<u64, PgError>;

/// Whether an error says something about this machine, not about the statement: such a one must
/// never become an outcome, since other organisations may not see it. How deep the stack reaches
/// (54001) depends on how PostgreSQL was built, and so may what it did not expect itself (XX000).
pub fn is_of_the_machine(sqlstate: SqlState) -> bool {
    is_of_the_moment(sqlstate) || matches!(sqlstate.as_str(), "54001" | "XX000")
}

/// Whether it may be another one, or none, a moment later.
pub fn is_of_the_moment(sqlstate: SqlState) -> bool {
    let state = sqlstate.as_str();
    let class = &state[..2];
    matches!(class, "40" | "53" | "57" | "58" | "F0")
        || matches!(state, "55P03" | "XX001" | "XX002")
}
