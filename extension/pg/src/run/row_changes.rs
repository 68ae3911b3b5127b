//! Runs statements that change one row each, and their AFTER triggers when all of them are done.
//!
//! A write set names the change of each row, also of rows that foreign keys' actions changed. While
//! these changes are made one by one, no trigger may run in between: deleting a parent would delete
//! its children before the write set's own changes of them.
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::error::{catch_c, PgError};
use crate::base::spi::Plan;

/// PostgreSQL's functions without pgrx's boundary, so that an error keeps its own SQLSTATE.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn AfterTriggerBeginQuery();
        pub(crate) fn AfterTriggerEndQuery(state: *mut pg_sys::EState);
    }
}

/// A statement that is kept until dropped.
pub struct RowStatement(Plan);

impl RowStatement {
    /// Analyses the statement, with parameters of these types, as the current role and under the
    /// search path that there is. Needs SPI connected.
    pub fn prepare(sql: &str, types: &[pg_sys::Oid]) -> Result<Self, PgError> {
        Plan::prepare(sql, types).map(Self)
    }

    /// Runs it, and returns how many rows it changed or returned. To be called in [`together`].
    pub fn run(&self, values: &[Cell]) -> Result<u64, PgError> {
        assert!(
            values
                .iter()
                .map(Cell::oid)
                .eq(self.0.types().iter().copied()),
            "values are of the statement's types"
        );
        let values: Vec<_> = values.iter().map(Cell::datum).collect();
        // SAFETY: the types were compared; the caller has a query level open. The rows of a query
        // are not read.
        unsafe {
            let rows = self.0.execute_within(&values)?;
            pg_sys::SPI_freetuptable(pg_sys::SPI_tuptable);
            Ok(rows)
        }
    }
}

/// Runs `f`, then the AFTER triggers of all that it changed. Needs SPI connected, and a
/// subtransaction that is undone after an Err.
pub fn together<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    // SAFETY: the level and the snapshot are balanced; after an Err the subtransaction's end takes
    // both back. Triggers need a snapshot, which a query of its own would have.
    unsafe {
        catch_c(|| {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            raw::AfterTriggerBeginQuery();
        })?;
        let result = f()?;
        catch_c(|| {
            raw::AfterTriggerEndQuery(null_mut());
            pg_sys::PopActiveSnapshot();
        })?;
        Ok(result)
    }
}
