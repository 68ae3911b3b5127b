//! A statement of a session, with the facts that decide whether it must run in the ledger part.
use std::ffi::c_int;

use pgrx::pg_sys;

use crate::base::lists::nodes;

/// A statement of the session itself that is about to start.
#[derive(Default)]
pub struct Statement {
    /// The tables that it changes.
    pub writes: Vec<pg_sys::Oid>,
    /// The tables of which it locks rows.
    pub locks_rows: Vec<pg_sys::Oid>,
    /// Whether it may run further statements: it calls a function that is not PostgreSQL's own, or
    /// is CALL or DO.
    pub may_run_others: bool,
}

/// # Safety
/// The statement must be planned.
pub(crate) unsafe fn statement_of(planned: &pg_sys::PlannedStmt) -> Statement {
    let mut statement = Statement::default();
    // SAFETY: the lists are of the nodes that plannodes.h says.
    unsafe {
        let tables: Vec<_> = nodes(planned.rtable)
            .map(|entry| entry.cast::<pg_sys::RangeTblEntry>().as_ref().relid)
            .collect();
        let table = |index: usize| index.checked_sub(1).and_then(|i| tables.get(i)).copied();
        if let Some(list) = planned.resultRelations.as_ref() {
            let cells = std::slice::from_raw_parts(list.elements, list.length as usize);
            let of = |cell: &pg_sys::ListCell| table(cell.int_value as usize);
            statement.writes = cells.iter().filter_map(of).collect();
        }
        for mark in nodes(planned.rowMarks) {
            let mark = mark.cast::<pg_sys::PlanRowMark>().as_ref();
            if mark.markType <= pg_sys::RowMarkType::ROW_MARK_KEYSHARE {
                statement.locks_rows.extend(table(mark.rti as usize));
            }
        }
        for item in nodes(planned.invalItems) {
            // The planner notes every function but PostgreSQL's own.
            let item = item.cast::<pg_sys::PlanInvalItem>().as_ref();
            statement.may_run_others |=
                item.cacheId == pg_sys::SysCacheIdentifier::PROCOID as c_int;
        }
    }
    statement
}
