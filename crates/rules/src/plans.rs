//! Which queries the rules judge when PostgreSQL plans them, and which plans a client's transaction
//! may find (invariant X6).
use crate::determinism::{check, Database};
use crate::finding::Finding;
use crate::level::Level;
use crate::settings::Determinism;

/// Where a query stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A statement that the extension runs.
    Submitted,
    /// A statement that the session was sent, or a part of it: its plan serves it alone.
    Session,
    /// Anything else: a statement inside a function, which may keep its plan for later calls.
    Function,
}

/// The work during which a query is planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// A client's transaction of a block.
    Client,
    /// A DEPLOY transaction.
    Deploy,
    /// The session's own statement, or the ledger's.
    Other,
}

/// The verdict on a query that is about to be planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Planned {
    /// PostgreSQL plans it.
    Fine,
    /// Its statement fails.
    Refused(Finding),
    /// PostgreSQL plans it, and no client's transaction may find the plan.
    Unchecked,
}

/// Judges a query that is about to be planned.
pub fn planned(level: &Level, asker: Asker, origin: Origin, database: &dyn Database) -> Planned {
    let client = asker != Asker::Other;
    if !client && origin != Origin::Function {
        return Planned::Fine; // no function of a client comes upon the plan
    }
    // While definitions change, PostgreSQL itself asks for rows: those that a new foreign key does
    // not allow.
    let in_function = origin != Origin::Submitted && asker != Asker::Deploy;
    let mut findings = check(level, in_function, database).into_iter();
    match findings.find(|finding| finding.refused_under(database.policy())) {
        None => Planned::Fine,
        Some(finding) if client => Planned::Refused(finding),
        Some(_) => Planned::Unchecked,
    }
}

/// The knowledge of a session about the plans that its functions keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plans {
    executes: bool,
    planned_under: Determinism,
    unchecked: bool,
}

impl Plans {
    /// The state of a session that has run no client's transaction.
    pub const fn new() -> Self {
        Plans { executes: false, planned_under: Determinism::Strict, unchecked: false }
    }

    /// Whether the rules judge queries of this session.
    pub fn executes(&self) -> bool {
        self.executes
    }

    /// After a plan was made that a client's transaction could not have made.
    pub fn noted_unchecked(self) -> Self {
        Plans { unchecked: true, ..self }
    }

    /// Whether plans are forgotten before a client's transaction under a policy runs.
    ///
    /// Another organisation would check the statements of such plans.
    pub fn must_forget(&self, policy: Determinism) -> bool {
        !self.executes || self.unchecked || self.planned_under != policy
    }

    /// Before a client's transaction under a policy; what [`Plans::must_forget`] asks for was done.
    pub fn before_transaction(self, policy: Determinism) -> Self {
        Plans { executes: true, planned_under: policy, unchecked: false }
    }
}

impl Default for Plans {
    fn default() -> Self {
        Plans::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{Column, Command, Limit, Source, Term};

    impl Database for Determinism {
        fn local_collation(&self) -> Option<String> {
            None
        }
        fn policy(&self) -> Determinism {
            *self
        }
    }

    /// `SELECT … FROM t`, without an order.
    fn unordered() -> Level {
        let mut level = Level::new(Command::Select);
        level.sources.push(Source { number: 1, needs: vec![], one_row: false, keys: vec![vec![1]], ordered: false });
        let column = Some(Column { source: 1, number: 2 });
        level.outputs.push(Term {
            id: 0,
            column,
            constant: false,
            volatile: false,
            identical: true,
            local_collation: None,
        });
        level
    }

    fn limited() -> Level {
        Level { limit: Some(Limit { offset: false, with_ties: false }), ..unordered() }
    }

    fn judged(level: &Level, asker: Asker, origin: Origin) -> &'static str {
        match planned(level, asker, origin, &Determinism::Strict) {
            Planned::Fine => "fine",
            Planned::Refused(_) => "refused",
            Planned::Unchecked => "unchecked",
        }
    }

    #[test]
    fn a_client_is_refused_wherever_its_query_stands() {
        for origin in [Origin::Submitted, Origin::Session, Origin::Function] {
            assert_eq!(judged(&limited(), Asker::Client, origin), "refused");
            assert_eq!(judged(&limited(), Asker::Deploy, origin), "refused");
        }
    }

    #[test]
    fn others_are_let_through_and_plans_of_their_functions_noted() {
        assert_eq!(judged(&limited(), Asker::Other, Origin::Submitted), "fine");
        assert_eq!(judged(&limited(), Asker::Other, Origin::Session), "fine");
        assert_eq!(judged(&limited(), Asker::Other, Origin::Function), "unchecked");
    }

    #[test]
    fn a_function_takes_rows_one_by_one_but_not_while_definitions_change() {
        assert_eq!(judged(&unordered(), Asker::Client, Origin::Submitted), "fine");
        assert_eq!(judged(&unordered(), Asker::Client, Origin::Function), "refused");
        assert_eq!(judged(&unordered(), Asker::Client, Origin::Session), "refused");
        assert_eq!(judged(&unordered(), Asker::Deploy, Origin::Function), "fine");
        assert_eq!(judged(&unordered(), Asker::Other, Origin::Function), "unchecked");
    }

    #[test]
    fn order_is_left_to_detection_where_the_policy_says_so() {
        let by = |policy: Determinism| planned(&limited(), Asker::Client, Origin::Submitted, &policy);
        assert_eq!(by(Determinism::Detect), Planned::Fine);
        assert!(matches!(by(Determinism::Strict), Planned::Refused(_)));
    }

    #[test]
    fn plans_are_forgotten_that_a_transaction_could_not_have_made() {
        let fresh = Plans::new();
        assert!(!fresh.executes());
        assert!(fresh.must_forget(Determinism::Strict), "functions were planned unseen");
        let ran = fresh.before_transaction(Determinism::Strict);
        assert!(ran.executes());
        assert!(!ran.must_forget(Determinism::Strict));
        assert!(ran.must_forget(Determinism::Detect), "another policy");
        assert!(ran.noted_unchecked().must_forget(Determinism::Strict));
        let again = ran.noted_unchecked().before_transaction(Determinism::Strict);
        assert!(!again.must_forget(Determinism::Strict), "they were forgotten once");
    }
}
