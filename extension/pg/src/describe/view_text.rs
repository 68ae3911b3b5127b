//! Prints the query of a view as PostgreSQL 15 does, on all majors.
//!
//! PostgreSQL names the table of a column where a query has several entries in its range table.
//! Until 15 the query of each view has two more, for rules: OLD and NEW. So a view of one table
//! reads `SELECT item.id FROM item` in 15, and `SELECT id FROM item` since 16. Organisations with
//! different majors must hash the same text. So the two entries are put back while the text is
//! printed.
use std::ffi::{c_char, CStr};

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::base::major;
use crate::base::relation::{Lock, Relation};

// Left out of pgrx's bindings; compared by hand with 15 and 17 (ruleutils.h).
extern "C-unwind" {
    fn pg_get_querydef(query: *mut pg_sys::Query, pretty: bool) -> *mut c_char;
}

/// The text of a view's query, as `pg_get_viewdef` of PostgreSQL 15 gives it. Raises for what is no
/// view. Locks it against changes of its definition.
pub fn of_view(view: pg_sys::Oid) -> String {
    let relation = Relation::open(view, Lock::AccessShare);
    // SAFETY: the relation is held open; its query is copied before it is changed. What is
    // allocated goes with the statement.
    unsafe {
        let query = pg_sys::get_view_query(relation.raw());
        let query: *mut pg_sys::Query = pg_sys::copyObjectImpl(query.cast()).cast();
        name_columns(query, relation.descriptor());
        major::name_old_and_new(query, view);
        let text = catch_c(|| pg_get_querydef(query, false)).or_raise();
        format!("{};", CStr::from_ptr(text).to_string_lossy())
    }
}

/// Names the columns of the query as those of the view, which may have been renamed. In a set
/// operation PostgreSQL names them in each branch.
///
/// # Safety
/// The query must be a copy, which has at least as many columns as the descriptor.
unsafe fn name_columns(query: *mut pg_sys::Query, of: pg_sys::TupleDesc) {
    // SAFETY: by the caller's promise; target lists and range tables are lists of their nodes.
    unsafe {
        let columns = major::attributes(of);
        let targets = elements::<pg_sys::TargetEntry>((*query).targetList);
        let shown = targets.iter().filter(|target| !target.as_ref().resjunk);
        for (target, column) in shown.zip(columns) {
            (*target.as_ptr()).resname = pg_sys::pstrdup(column.attname.data.as_ptr());
        }
        name_branches(query, (*query).setOperations, of);
    }
}

/// # Safety
/// As for [`name_columns`]; `node` is null or of the query's tree of set operations.
unsafe fn name_branches(query: *mut pg_sys::Query, node: *mut pg_sys::Node, of: pg_sys::TupleDesc) {
    // SAFETY: by the caller's promise; a leaf names an entry of the range table that has a query.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else {
            return;
        };
        match tag {
            pg_sys::NodeTag::T_SetOperationStmt => {
                let operation: *mut pg_sys::SetOperationStmt = node.cast();
                name_branches(query, (*operation).larg, of);
                name_branches(query, (*operation).rarg, of);
            }
            pg_sys::NodeTag::T_RangeTblRef => {
                let leaf: *mut pg_sys::RangeTblRef = node.cast();
                let entries = elements::<pg_sys::RangeTblEntry>((*query).rtable);
                let entry = entries.get(((*leaf).rtindex - 1) as usize);
                if let Some(subquery) = entry.map(|entry| entry.as_ref().subquery) {
                    if !subquery.is_null() {
                        name_columns(subquery, of);
                    }
                }
            }
            _ => (),
        }
    }
}
