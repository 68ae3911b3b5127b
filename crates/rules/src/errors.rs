//! Which statements fail alike in every organisation, so that a function may catch their errors.
use crate::level::Level;

impl Level {
    /// Whether the first error of an execution is the same everywhere. That needs the rows that it
    /// looks at to be one, or to come in an order of their own. Rows of a table come in the order
    /// in which they are stored, and expressions see them before ORDER BY does.
    pub fn fails_alike(&self) -> bool {
        let in_order = matches!(&self.sources[..], [only] if only.ordered);
        (in_order || self.determined(std::iter::empty(), &[]))
            && self.inner.iter().all(|(_, inner)| inner.fails_alike())
    }

    /// Whether the query names a relation, at any depth.
    pub fn reads(&self) -> bool {
        !self.sources.is_empty() || self.inner.iter().any(|(_, inner)| inner.reads())
    }
}

/// Whether an error with this SQLSTATE may be [`is_of_a_name`].
pub fn may_be_of_a_name(state: &str) -> bool {
    ["42", "3F"].iter().any(|class| state.starts_with(class)) && state != "42601"
}

/// Whether an error may follow from objects that one database has beside the ledger: it says that a
/// name is unknown, or means something else. An error of syntax (42601) follows from a text alone.
/// Rights on tables of the ledger are agreed.
pub fn is_of_a_name(state: &str, message: &str) -> bool {
    let agreed = || {
        let of = message.strip_prefix("permission denied for ");
        of.is_none_or(|of| ["table ", "view ", "sequence ", "column "].iter().any(|kind| of.starts_with(kind)))
    };
    may_be_of_a_name(state) && !(state == "42501" && agreed())
}

#[cfg(test)]
mod tests {
    use crate::errors::is_of_a_name;
    use crate::level::{Column, Command, Implication, Level, Place, Source};

    fn from(sources: Vec<Source>) -> Level {
        Level { sources, ..Level::new(Command::Select) }
    }

    fn source(ordered: bool) -> Source {
        Source { number: 1, needs: vec![], one_row: false, keys: vec![vec![1]], ordered }
    }

    #[test]
    fn without_rows_of_a_table_there_is_one_order() {
        assert!(from(vec![]).fails_alike());
        assert!(from(vec![source(true)]).fails_alike(), "VALUES");
    }

    #[test]
    fn rows_of_a_table_are_looked_at_as_they_are_stored() {
        assert!(!from(vec![source(false)]).fails_alike());
        let gives = Column { source: 1, number: 1 };
        let by_key = Level { implications: vec![Implication { needs: vec![], gives }], ..from(vec![source(false)]) };
        assert!(by_key.fails_alike(), "one row by its key");
    }

    #[test]
    fn levels_within_count() {
        let inner = (Place::From, from(vec![source(false)]));
        let level = Level { inner: vec![inner], ..from(vec![source(true)]) };
        assert!(!level.fails_alike(), "an ordered subquery computes before it sorts");
    }

    #[test]
    fn names_are_unknown_or_mean_something_else() {
        for (state, message) in [
            ("42P01", "relation \"own.x\" does not exist"),
            ("42703", "column \"c\" does not exist"),
            ("3F000", "schema \"own\" does not exist"),
            ("42501", "permission denied for schema own"),
        ] {
            assert!(is_of_a_name(state, message), "{message}");
        }
        for (state, message) in [
            ("42601", "syntax error in tsquery: \"&\""),
            ("42501", "permission denied for table t"),
            ("42501", "new row violates row-level security policy for table \"t\""),
            ("23505", "duplicate key value violates unique constraint \"t_pkey\""),
        ] {
            assert!(!is_of_a_name(state, message), "{message}");
        }
    }
}
