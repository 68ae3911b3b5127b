//! The errors of EFFECTS transactions that conflict with an earlier transaction.
use crate::pg::base::error::PgError;

/// The SQLSTATE of a conflict until the client is told 40001. PostgreSQL raises that for reasons of
/// its own, which are no outcome.
pub const CONFLICT: &[u8; 5] = b"CH010";

/// A conflict, said by `message`.
pub fn conflict(message: impl Into<String>) -> PgError {
    PgError::new(CONFLICT, message)
}
