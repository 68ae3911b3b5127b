//! The values of a row as texts, as PostgreSQL's output functions give them.
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::pg::base::error::PgError;
use crate::pg::base::relation::{Relation, Tuple};

/// Writes rows of one relation. Lives no longer than the memory context that it is made in.
pub struct CellTexts {
    columns: Vec<TextColumn>,
}

struct TextColumn {
    number: i16,
    type_oid: pg_sys::Oid,
    output: pg_sys::FmgrInfo,
}

impl CellTexts {
    /// Of these columns, in this order. Errors: 42703 for one that the relation does not have.
    pub fn new<'n>(
        relation: &Relation,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, PgError> {
        let physical = relation.columns();
        let of = |name: &str| -> Result<TextColumn, PgError> {
            let found = physical.iter().find(|column| column.name == name);
            let found = found.ok_or_else(|| {
                let message = format!("column \"{name}\" of a ledger table is missing");
                PgError::new(b"42703", message)
            })?;
            let (mut function, mut varlena) = (pg_sys::InvalidOid, false);
            let mut output = pg_sys::FmgrInfo::default();
            // SAFETY: catalog look-ups of a type that there is; what is allocated belongs to the
            // current memory context.
            unsafe {
                pg_sys::getTypeOutputInfo(found.type_oid, &mut function, &mut varlena);
                pg_sys::fmgr_info(function, &mut output);
            }
            Ok(TextColumn {
                number: found.number,
                type_oid: found.type_oid,
                output,
            })
        };
        let columns: Result<_, PgError> = names.map(of).collect();
        columns.map(|columns| CellTexts { columns })
    }

    /// The texts of a row; None is NULL. Raises what an output function does, and 22021 for a text
    /// that is no UTF-8.
    pub fn of(&mut self, tuple: &Tuple) -> Vec<Option<String>> {
        let texts = self.columns.iter_mut().map(|column| {
            let value = tuple.datum(column.number, column.type_oid)?;
            // SAFETY: the value is of the function's type; the text is the caller's.
            unsafe {
                let text = pg_sys::OutputFunctionCall(&mut column.output, value);
                let owned = CStr::from_ptr(text).to_str().map(str::to_owned);
                pg_sys::pfree(text.cast());
                match owned {
                    Ok(owned) => Some(owned),
                    Err(_) => {
                        PgError::new(b"22021", "text on the ledger must be valid UTF-8").raise()
                    }
                }
            }
        });
        texts.collect()
    }
}
