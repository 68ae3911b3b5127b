//! Rows as values: an argument `f(t)` where `t` is a table's alias, or a column of a result.

use pgrx::pg_sys;

use crate::base::cell::reads_as;
use crate::base::error::PgError;
use crate::base::relation::{Lock, Relation, Scratch, Tuple};

/// A row as a value, in the memory of the call or of the result.
pub struct Record {
    header: pg_sys::HeapTupleHeader,
    row_type: pg_sys::Oid,
}

impl Record {
    /// # Safety
    /// The datum must be a row with its type in its header.
    pub(crate) unsafe fn of(datum: pg_sys::Datum) -> Record {
        // SAFETY: by the caller's promise.
        unsafe {
            let header: pg_sys::HeapTupleHeader =
                pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            Record {
                header,
                row_type: (*header).t_choice.t_datum.datum_typeid,
            }
        }
    }

    /// The type of the row.
    pub fn row_type(&self) -> pg_sys::Oid {
        self.row_type
    }

    /// The table the row is of; raises 22023 for a row of no table.
    pub fn table(&self) -> Relation {
        // SAFETY: a catalog look-up.
        let table = unsafe { pg_sys::get_typ_typrelid(self.row_type) };
        if table == pg_sys::InvalidOid {
            PgError::new(b"22023", "row is not of a table")
                .hint("Give the row itself, as in SELECT f(t) FROM some_table t.")
                .raise();
        }
        Relation::open(table, Lock::AccessShare)
    }

    /// Calls `f` with the row's columns; `table` must be what [`Record::table`] gave.
    pub fn read<T>(&self, table: &Relation, f: impl FnOnce(&Tuple) -> T) -> T {
        let mut scratch = Scratch::default();
        // SAFETY: the row type is compared, so the descriptor is that of the row; the row lives as
        // long as the call, and its length is in its header.
        unsafe {
            if (*table.descriptor()).tdtypeid != self.row_type {
                PgError::new(
                    b"XX000",
                    "row is of another table than the one it is read as",
                )
                .raise();
            }
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varlena::varsize(self.header.cast()) as u32,
                t_data: self.header,
                ..Default::default()
            };
            f(&scratch.deform(&mut tuple, table.descriptor()))
        }
    }

    /// The same values, by names of columns, as a row of `to`; `from` must be what
    /// [`Record::table`] gave. They are taken as they are: a column of `to` may have a domain over
    /// the type that it has here, and nothing is evaluated. Raises for another type.
    pub fn as_row_of(&self, to: &Relation, from: &Relation) -> RowValue {
        let here = from.columns();
        self.read(from, |row| {
            // SAFETY: the descriptor is that of the open relation, and the arrays have an element
            // for each of its columns. A value is of the type that is checked, and copied into the
            // row.
            unsafe {
                let count = (*to.descriptor()).natts as usize;
                let mut values = vec![pg_sys::Datum::from(0); count];
                let mut nulls = vec![true; count];
                for column in to.columns() {
                    let Some(found) = here.iter().find(|c| c.name == column.name) else {
                        continue;
                    };
                    if !reads_as(column.type_oid, found.type_oid) {
                        let message = format!("column \"{}\" is of another type", column.name);
                        PgError::new(b"XX000", message).raise();
                    }
                    let at = column.number as usize - 1;
                    if let Some(value) = row.datum(found.number, found.type_oid) {
                        (values[at], nulls[at]) = (value, false);
                    }
                }
                let tuple = pg_sys::heap_form_tuple(
                    to.descriptor(),
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
                RowValue(pg_sys::heap_copy_tuple_as_datum(tuple, to.descriptor()))
            }
        })
    }
}

/// A row as a value, in the memory of the call.
pub struct RowValue(pub(crate) pg_sys::Datum);
