//! The trigger that stores values in the form that the ledger has for them
//! (`pg/base/stored_form.rs`), and what ATTACH and DEPLOY ask about that form.
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::cell::Cell;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::relation::Tuple;
use crate::pg::base::stored_form;

crate::pg::store_function!(chainify_store, pg_finfo_chainify_store, store);
crate::pg::sql_function!(
    chainify_has_many_forms,
    pg_finfo_chainify_has_many_forms,
    has_many_forms
);
crate::pg::sql_function!(
    chainify_in_stored_form,
    pg_finfo_chainify_in_stored_form,
    in_stored_form
);

/// BEFORE INSERT OR UPDATE FOR EACH ROW on every relation with rows that has such columns.
fn store(relation: Oid, row: &Tuple) -> Vec<(i16, Cell)> {
    // A table detached earlier in this block still has its triggers until that transaction ends.
    tables::leaf(relation).map_or_else(Vec::new, |leaf| leaf.forms.settled(row))
}

/// `has_many_forms(type, modifier)`: whether equal values of a column may have several forms.
fn has_many_forms(call: &mut Call) -> Answer {
    let (of, modifier) = (call.required(0, "type"), call.required(1, "modifier"));
    call.value(stored_form::has_many_forms(of, modifier))
}

/// `in_stored_form(row)`: whether all values of a row of a ledger table have the form in which the
/// ledger stores them. Raises 42P01 for a row of another table.
fn in_stored_form(call: &mut Call) -> Answer {
    let settled = call.record_arg(0).map(|record| {
        let table = record.table();
        let leaf = tables::leaf(table.oid()).unwrap_or_else(|| {
            PgError::new(b"42P01", "row is not of a table on the ledger").raise()
        });
        record.read(&table, |row| leaf.forms.settled(row).is_empty())
    });
    call.value::<bool>(settled)
}
