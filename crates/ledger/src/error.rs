//! The error of a decoder.

use std::fmt;

/// Which field is wrong, and how: `proposal.client.role: longer than 63 bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Path of the field, in the names of the specification.
    pub field: String,
    /// The fault.
    pub what: String,
}

impl WireError {
    pub(crate) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }

    /// The same error, of a field inside `parent`.
    #[must_use]
    pub(crate) fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

impl std::error::Error for WireError {}
