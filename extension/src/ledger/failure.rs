//! Errors of PostgreSQL for crates that know no PostgreSQL, and back.
use chainify_worker::Failure;

use crate::pg::base::error::PgError;

pub fn of_error(error: PgError) -> Failure {
    Failure {
        sqlstate: error.sqlstate.as_str().to_owned(),
        message: error.message,
        detail: error.detail,
    }
}

pub fn into_error(failure: Failure) -> PgError {
    PgError {
        detail: failure.detail,
        ..PgError::told(&failure.sqlstate, failure.message)
    }
}
