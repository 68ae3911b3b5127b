//! Errors of PostgreSQL for crates that know no PostgreSQL, and back.
use chainify_worker::Failure;

use crate::pg::base::error::PgError;

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Failure {
            sqlstate: error.sqlstate.as_str().to_owned(),
            message: error.message,
            detail: error.detail,
        }
    }
}

impl From<Failure> for PgError {
    fn from(failure: Failure) -> Self {
        PgError {
            detail: failure.detail,
            ..PgError::told(&failure.sqlstate, failure.message)
        }
    }
}
