//! Findings of the determinism rules in a statement.
use crate::refusal::Refusal;
use crate::settings::Determinism;

/// Why a statement is refused, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The part of the statement that is refused.
    pub construct: String,
    /// Why it is refused.
    pub reason: String,
    /// The statement to write instead.
    pub rewrite: String,
    /// Its effect depends on the order of rows alone: where that is left to detection, the
    /// statement may run.
    pub by_order: bool,
    /// Its effect depends on a collation.
    pub by_collation: bool,
    /// It calls no function: where an expression outside of a query has it, nothing tells when it
    /// runs.
    pub silent: bool,
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
            silent: false,
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

    /// The same, of what calls no function.
    pub fn silent(self) -> Self {
        Finding { silent: true, ..self }
    }

    /// Whether the statement is refused under a policy. Otherwise it runs, and different effects
    /// are detected.
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

/// The advice where an order is not total.
pub const ADD_KEY: &str = "Add ORDER BY over the primary key, or over columns that determine the row.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_an_error_of_its_statement() {
        let refusal = Finding::new("now()", "Because.", "Write later().").refusal();
        assert_eq!(refusal.sqlstate, b"CH006");
        assert_eq!(refusal.message, "now() is not deterministic");
        assert_eq!((refusal.detail.as_deref(), refusal.hint.as_deref()), (Some("Because."), Some("Write later().")));
    }
}
