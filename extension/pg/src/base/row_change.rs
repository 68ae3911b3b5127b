//! Changes rows of the ledger's own tables without a plan.
use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::error::{catch_c, OrRaise};
use crate::base::relation::{Relation, Tuple};

/// Gives each row that `f` names new values in some columns (by number), and makes them visible to
/// the next command. Fires no trigger and checks no constraint but unique indexes. Raises when
/// another transaction changed such a row. Cost: one scan of the table.
pub fn change_rows(relation: &Relation, mut f: impl FnMut(&Tuple) -> Vec<(i16, Cell)>) {
    // SAFETY: a variable of this process.
    let context = unsafe { pg_sys::CurrentMemoryContext };
    let mut changed = Vec::new();
    relation.scan(|row| {
        let values = f(row);
        if !values.is_empty() {
            changed.push(row.with(&values, context));
        }
    });
    if changed.is_empty() {
        return;
    }
    let write = || {
        for tuple in &changed {
            // SAFETY: the tuple is a copy of one of this relation's, which is open and locked; its
            // place is that of the row.
            unsafe {
                pg_sys::CatalogTupleUpdate(relation.raw(), &raw mut (**tuple).t_self, *tuple);
            }
        }
        // SAFETY: a transaction is in progress.
        unsafe { pg_sys::CommandCounterIncrement() };
    };
    // SAFETY: it calls functions of PostgreSQL alone, and owns nothing.
    unsafe { catch_c(write) }.or_raise();
}
