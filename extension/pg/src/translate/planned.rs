//! Finds SELECTs of a session that the analytics worker may answer, when they are planned.
//!
//! PostgreSQL's own plan is made in any case. It has the cost, and it is what runs when the worker
//! does not answer ([`super::scan`]).
use std::ffi::{c_char, c_int, CStr};
use std::ptr::NonNull;

use pgrx::pg_sys;

use super::analysed::translate_query;
use super::parameters::Parameters;
use super::reader::Asker;
use super::scan;
use super::worker::ABOVE;
use crate::base::error::enter;
use crate::base::role::Role;
use crate::base::subtransaction::subtransaction;

/// The cost of a plan that PostgreSQL prefers no other to, and still prints.
const ANY_VALUE: f64 = 1e15;

/// Has a query planned by `plan`, which calls what stands behind our hook.
///
/// # Safety
/// The arguments must be those of the planner's hook. `plan` must own nothing that needs dropping.
pub(crate) unsafe fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    params: pg_sys::ParamListInfo,
    plan: impl FnOnce() -> *mut pg_sys::PlannedStmt,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the planner changes the query, so that a copy is kept.
    unsafe {
        let kept = enter(|| {
            may_go(query, text, options)
                .then(|| pg_sys::copyObjectImpl(query.cast()).cast::<pg_sys::Query>())
        });
        let plan = plan();
        if let Some(kept) = kept.and_then(NonNull::new) {
            let is_cursor = options & pg_sys::CURSOR_OPT_FAST_PLAN as c_int != 0;
            enter(|| send(plan, kept, text, params, is_cursor));
        }
        plan
    }
}

/// Whether a query is a SELECT over tables that the session itself has sent.
///
/// # Safety
/// The arguments must be the planner's.
unsafe fn may_go(query: *mut pg_sys::Query, text: *const c_char, options: c_int) -> bool {
    // SAFETY: by the caller's promise; pointers are compared, not followed.
    unsafe {
        let sent = (&raw const pg_sys::debug_query_string).read();
        let Some(query) = query.as_ref().filter(|_| !text.is_null() && text == sent) else {
            return false;
        };
        query.commandType == pg_sys::CmdType::CMD_SELECT
            && query.canSetTag
            && !query.rtable.is_null()
            && query.rowMarks.is_null()
            && options & pg_sys::CURSOR_OPT_SCROLL as c_int == 0
            && (ABOVE.get().wanted)()
    }
}

/// Puts the worker's scan on top of a plan, when the query can go there and costs enough.
///
/// # Safety
/// `plan` must be what the planner just made, and `query` the one it was made of.
unsafe fn send(
    plan: *mut pg_sys::PlannedStmt,
    query: NonNull<pg_sys::Query>,
    text: *const c_char,
    params: pg_sys::ParamListInfo,
    is_cursor: bool,
) {
    let above = ABOVE.get();
    // SAFETY: by the caller's promise; the text is a C string.
    unsafe {
        let tree = (*plan).planTree;
        if tree.is_null() || (*tree).total_cost < (above.least_cost)() {
            return;
        }
        let sql = CStr::from_ptr(text).to_string_lossy();
        let parameters = Parameters::bound(params);
        let mirrored = (above.mirrored)();
        let number = |relation: pg_sys::Oid| mirrored.get(&relation.to_u32()).copied();
        // The plan below answers in its place: the rights on the tables count.
        let asker = Asker {
            role: Role::current(),
            reads_all: false,
        };
        let translated =
            subtransaction(|| translate_query(query, &sql, &parameters, &number, asker));
        match translated {
            Ok(translated) => scan::put_on_top(plan, &translated, is_cursor),
            // Cancelled, or the session ends.
            Err(error) if error.sqlstate.as_str().starts_with("57") => error.raise(),
            // A plan for any value cannot go. It is made dear, so that PostgreSQL goes on to plan
            // each execution of a prepared statement for its values.
            Err(_) if params.is_null() && parameters.missing.get() => {
                (*tree).total_cost += ANY_VALUE
            }
            // A query that the worker would compute otherwise, or may not show, stays here.
            Err(_) => (),
        }
    }
}
