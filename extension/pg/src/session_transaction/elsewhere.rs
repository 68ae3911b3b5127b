//! A statement alone in its transaction that all organisations execute as SQL, in place of this
//! session. The callback submits it and returns the number of changed rows.
use std::ffi::CStr;
use std::ptr::null;

use pgrx::pg_sys;

use crate::base::backend::BACKEND;
use crate::base::variadic::{text_value, TextValue};
use crate::planner::block_settings::pinned;
use crate::session_transaction::run_again;

/// Executes a statement elsewhere, with its values. None: it is to be executed here. Raises its
/// error.
pub type Execute = fn(&str, &mut dyn FnMut() -> Vec<TextValue>) -> Option<u64>;

/// A query is about to start. One that was noted before did not come to run when it failed, and its
/// place in memory may be the next one's.
pub(super) fn forget() {
    BACKEND.session.elsewhere.set(null());
}

/// Notes a statement of the session that could be executed elsewhere: it is the whole request, and
/// a number of rows is its result.
///
/// # Safety
/// The query must be about to start, as a statement of the session itself.
pub(super) unsafe fn note(query: *const pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise; the portal that starts it is the active one.
    unsafe {
        let planned = &*(*query).plannedstmt;
        let select = planned.commandType == pg_sys::CmdType::CMD_SELECT;
        let rows = select || planned.hasReturning || planned.hasModifyingCTE;
        let portal = pg_sys::ActivePortal.as_ref();
        let statements = portal.and_then(|portal| portal.stmts.as_ref());
        let one = statements.is_some_and(|list| list.length == 1);
        let pipelined = pg_sys::MyXactFlags as u32 & pg_sys::XACT_FLAGS_PIPELINING != 0;
        let noted = one && !rows && !pipelined && run_again::is_request(&*query);
        if noted {
            BACKEND.session.elsewhere.set(query);
        }
    }
}

/// Has a query that was noted executed elsewhere. False: it has to run here.
///
/// # Safety
/// The query must have started and not run.
pub(super) unsafe fn run(query: *mut pg_sys::QueryDesc, execute: Execute) -> bool {
    if BACKEND.session.elsewhere.replace(null()) != query.cast_const() {
        return false;
    }
    // SAFETY: the text is a C string; each value is of the type beside it. The state of a query
    // that has started is there.
    unsafe {
        let Ok(text) = CStr::from_ptr((*query).sourceText).to_str() else {
            return false;
        };
        let values = (*query).params;
        let mut texts = || {
            let list = values.as_ref().map_or(&[][..], |list| {
                list.params.as_slice(list.numParams as usize)
            });
            let text = |v: &pg_sys::ParamExternData| text_value(v.value, v.ptype, v.isnull);
            pinned(|| list.iter().map(text).collect())
        };
        let Some(rows) = execute(text, &mut texts) else {
            return false;
        };
        (*(*query).estate).es_processed = rows;
    }
    true
}
