//! Whose functions an expression calls.
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::tree::node::{children, functions, NodeAt};

pub(super) fn built_in(oid: pg_sys::Oid) -> bool {
    oid.to_u32() < pg_sys::FirstNormalObjectId
}

/// Name of the schema of a function.
pub(super) fn schema_of(oid: pg_sys::Oid) -> Option<String> {
    // SAFETY: catalog look-ups; null or a fresh C string.
    unsafe {
        let name = pg_sys::get_namespace_name(pg_sys::get_func_namespace(oid));
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Whether an expression calls a function that is not built in.
///
/// # Safety
/// `node` must be null or an expression.
pub(super) unsafe fn calls_users(node: *mut pg_sys::Node) -> bool {
    let Some(node) = NodeAt::new(node) else {
        return false;
    };
    // SAFETY: by the caller's promise.
    unsafe {
        functions(node).into_iter().any(|oid| !built_in(oid))
            || children(node)
                .into_iter()
                .any(|child| calls_users(child.as_ptr()))
    }
}
