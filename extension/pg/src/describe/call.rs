//! The call of a procedure, described.
use std::ffi::c_char;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::describe::analysis::describe;
use crate::describe::complete_query::complete;
use crate::describe::query_level::Level;

/// The call of a procedure as a query that computes it, completed. `text`: as of [`describe`].
///
/// # Safety
/// `call` must be an analysed CALL that the caller may change; `text` as of [`describe`].
pub(crate) unsafe fn describe_call(call: *mut pg_sys::CallStmt, text: *const c_char) -> Level {
    // SAFETY: by the caller's promise; the nodes made live in the current memory context.
    unsafe {
        let target =
            pg_sys::makeTargetEntry((*call).funcexpr.cast(), 1, std::ptr::null_mut(), false);
        let from = pg_sys::makeFromExpr(std::ptr::null_mut(), std::ptr::null_mut());
        let mut query = pg_sys::Query {
            type_: pg_sys::NodeTag::T_Query,
            commandType: pg_sys::CmdType::CMD_SELECT,
            jointree: from,
            targetList: pg_sys::lappend(std::ptr::null_mut(), target.cast()),
            ..Default::default()
        };
        let query = NonNull::from(&mut query);
        complete(query.as_ptr().cast());
        describe(query, text)
    }
}
