//! Rows given as SQL arguments: `f(t)` where `t` is a table's alias.

use pgrx::pg_sys;

use super::error::PgError;
use super::function::Call;
use super::relation::{Lock, Relation, Scratch, Tuple};

/// A row argument, in the memory of the call.
pub struct Record {
    header: pg_sys::HeapTupleHeader,
    row_type: pg_sys::Oid,
}

impl Call<'_> {
    /// Argument `index` from 0, declared `record`; None when NULL.
    pub fn record_arg(&self, index: usize) -> Option<Record> {
        let call = self.fcinfo();
        // SAFETY: the index is checked against the call; a record's datum is a row with its type in its header.
        unsafe {
            if index >= (*call).nargs as usize || (*(*call).args.as_ptr().add(index)).isnull {
                return None;
            }
            let datum = (*(*call).args.as_ptr().add(index)).value;
            let header: pg_sys::HeapTupleHeader =
                pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            Some(Record {
                header,
                row_type: (*header).t_choice.t_datum.datum_typeid,
            })
        }
    }
}

impl Record {
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
        // SAFETY: the row type is compared, so the descriptor is that of the row; the row lives as long as the call, and
        // its length is in its header.
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
}
