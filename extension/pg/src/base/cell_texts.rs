//! The values of a row as texts, as PostgreSQL's output functions give them.
use pgrx::pg_sys;

use crate::base::encode::Output;
use crate::base::error::{OrRaise, PgError};
use crate::base::relation::{Relation, Tuple};

/// Writes rows of one relation.
pub struct CellTexts {
    columns: Vec<(i16, pg_sys::Oid, Output)>,
}

impl CellTexts {
    /// Texts of these columns, in this order. Errors: 42703 for one that the relation does not
    /// have.
    pub fn new<'n>(
        relation: &Relation,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, PgError> {
        let physical = relation.columns();
        let of = |name: &str| {
            let found = physical.iter().find(|column| column.name == name);
            let found = found.ok_or_else(|| {
                let message = format!("column \"{name}\" of a ledger table is missing");
                PgError::new(b"42703", message)
            });
            found.map(|of| (of.number, of.type_oid, Output::of(of.type_oid)))
        };
        let columns: Result<_, PgError> = names.map(of).collect();
        columns.map(|columns| CellTexts { columns })
    }

    /// The texts of a row; None is NULL. Raises what an output function does, and 22021 for a text
    /// that is no UTF-8.
    pub fn of(&self, tuple: &Tuple) -> Vec<Option<String>> {
        let texts = self.columns.iter().map(|(number, type_oid, output)| {
            let value = tuple.datum(*number, *type_oid)?;
            let mut owned = None;
            let keep = |text: &str| {
                owned = Some(text.to_owned());
                Ok(())
            };
            // SAFETY: the value is of the column's type, as is the function.
            unsafe { output.with(value, keep) }.or_raise();
            owned
        });
        texts.collect()
    }
}
