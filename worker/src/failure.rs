//! Errors as values.

/// An error as PostgreSQL has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Five characters.
    pub sqlstate: String,
    /// One line.
    pub message: String,
    /// Sentences.
    pub detail: Option<String>,
}

impl Failure {
    /// An error without a detail.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Failure { sqlstate: sqlstate.to_owned(), message: message.into(), detail: None }
    }
}
