//! Errors of PostgreSQL's own.
use std::error::Error;
use std::fmt;

use datafusion::error::DataFusionError;

/// An error as PostgreSQL raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The five characters of its SQLSTATE.
    pub sqlstate: &'static str,
    /// Its message, in PostgreSQL's words.
    pub message: String,
}

impl SqlError {
    /// An error with this SQLSTATE and message.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError { sqlstate, message: message.into() }
    }

    /// The error that the functions of this crate raised, below all that DataFusion put around it.
    /// None: the error is DataFusion's own. Cost: the length of the chain.
    pub fn of(error: &DataFusionError) -> Option<&SqlError> {
        let mut at: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = at {
            if let Some(found) = error.downcast_ref::<SqlError>() {
                return Some(found);
            }
            at = error.source();
        }
        None
    }

    /// The worker cannot represent the result.
    pub(crate) fn unsupported(message: impl Into<String>) -> SqlError {
        SqlError::new("0A000", message)
    }

    pub(crate) fn division_by_zero() -> SqlError {
        SqlError::new("22012", "division by zero")
    }

    pub(crate) fn out_of_range(what: &str) -> SqlError {
        SqlError::new("22003", format!("{what} out of range"))
    }

    pub(crate) fn too_much_memory() -> SqlError {
        let message =
            "the texts of the query take more memory than the analytics worker has for them";
        SqlError::new("53200", message)
    }

    /// A date or time that PostgreSQL does not have; the message says which.
    pub(crate) fn datetime(message: &str) -> SqlError {
        SqlError::new("22008", message)
    }

    /// A decimal of more digits than the worker's.
    pub(crate) fn too_many_digits() -> SqlError {
        SqlError::unsupported("a number has more than 38 digits")
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SqlError {}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn found_below_others() {
        let error = DataFusionError::from(SqlError::division_by_zero()).context("project");
        let error = DataFusionError::Shared(Arc::new(error));
        assert_eq!(SqlError::of(&error).map(|e| e.sqlstate), Some("22012"));
        assert_eq!(SqlError::of(&DataFusionError::Plan(String::new())), None);
    }
}
