//! What the rules say of a statement that they refuse.
use crate::settings::Determinism;

/// An error of a rule, with its SQLSTATE and the texts that the client reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Five characters.
    pub sqlstate: &'static [u8; 5],
    /// One line, without a full stop.
    pub message: String,
    /// Why.
    pub detail: Option<String>,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without detail and hint.
    pub fn new(sqlstate: &'static [u8; 5], message: impl Into<String>) -> Self {
        Refusal { sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// The same with a detail.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Refusal { detail: Some(detail.into()), ..self }
    }

    /// The same with a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Refusal { hint: Some(hint.into()), ..self }
    }
}

/// Why a statement is refused, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The part of the statement that is refused.
    pub construct: String,
    /// Why it is refused.
    pub reason: String,
    /// What to write instead.
    pub rewrite: String,
    /// What it does depends on the order of rows alone: where that is left to detection, the statement may run.
    pub by_order: bool,
    /// What it does depends on a collation.
    pub by_collation: bool,
}

impl Finding {
    /// A finding that no policy lets through.
    pub fn new(construct: impl Into<String>, reason: &str, rewrite: &str) -> Self {
        Finding {
            construct: construct.into(),
            reason: reason.into(),
            rewrite: rewrite.into(),
            by_order: false,
            by_collation: false,
        }
    }

    /// A finding about the order of rows.
    pub fn by_order(construct: impl Into<String>, reason: &str, rewrite: &str) -> Self {
        Finding { by_order: true, ..Finding::new(construct, reason, rewrite) }
    }

    /// The same, about a collation.
    pub fn of_collation(self) -> Self {
        Finding { by_collation: true, ..self }
    }

    /// Whether the statement is refused under a policy. Otherwise it runs, and different effects are detected.
    pub fn refused_under(&self, policy: Determinism) -> bool {
        !(policy == Determinism::Detect && self.by_order)
    }

    /// The error of the statement.
    pub fn refusal(self) -> Refusal {
        Refusal::new(b"CH006", format!("{} is not deterministic", self.construct))
            .detail(self.reason)
            .hint(self.rewrite)
    }
}

/// What to write where an order is not total.
pub const ADD_KEY: &str = "Add ORDER BY over the primary key, or over columns that determine the row.";
