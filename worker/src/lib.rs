//! What the background workers of a database decide, without PostgreSQL.
//!
//! A loop reaches the world through a trait `Host`: its methods are the actions, their results the answers. The extension
//! implements each `Host` with PostgreSQL; the tests of this crate implement it with a scripted world.
//! Times are durations since a start that the host chooses: there is no clock here.

#![forbid(unsafe_code)]

pub mod conflicts;
pub mod executor;
pub mod groups;
pub mod maintenance;
pub mod parts;
pub mod scrubbing;
pub mod steps;
pub mod team;

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
