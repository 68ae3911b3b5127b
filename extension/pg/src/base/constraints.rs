//! Deferrable constraints.
use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn AfterTriggerSetState(statement: *mut pg_sys::ConstraintsSetStmt);
    }
}

/// SET CONSTRAINTS ALL IMMEDIATE: raises for a row that violates one now, and from here to the end
/// of the transaction each is checked at the end of a statement.
pub fn check_at_once() {
    let mut statement = pg_sys::ConstraintsSetStmt {
        type_: pg_sys::NodeTag::T_ConstraintsSetStmt,
        constraints: std::ptr::null_mut(),
        deferred: false,
    };
    // SAFETY: a statement that names no constraint; it is read before the call returns.
    unsafe { catch_c(|| raw::AfterTriggerSetState(&raw mut statement)).or_raise() }
}
