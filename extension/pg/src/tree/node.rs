//! A node of a query tree, its children, and the functions that it calls.
use std::ffi::c_void;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};
use crate::tree::tree_walkers::expression_tree_walker;

pub(crate) type NodeAt = NonNull<pg_sys::Node>;

mod raw {
    use super::{c_void, pg_sys};
    pub(crate) type Checker = unsafe extern "C-unwind" fn(pg_sys::Oid, *mut c_void) -> bool;
    c_functions! {
        pub(crate) fn check_functions_in_node(
            node: *mut pg_sys::Node,
            checker: Option<Checker>,
            context: *mut c_void,
        ) -> bool;
    }
}

unsafe extern "C-unwind" fn note_node(node: *mut pg_sys::Node, found: *mut c_void) -> bool {
    // SAFETY: `found` is the vector that `children` passed.
    unsafe { (*found.cast::<Vec<NodeAt>>()).extend(NonNull::new(node)) };
    false
}

unsafe extern "C-unwind" fn note_function(oid: pg_sys::Oid, found: *mut c_void) -> bool {
    // SAFETY: `found` is the vector that `functions` passed.
    unsafe { (*found.cast::<Vec<pg_sys::Oid>>()).push(oid) };
    false
}

/// # Safety
/// `node` must be part of a query tree.
pub(crate) unsafe fn children(node: NodeAt) -> Vec<NodeAt> {
    let mut found: Vec<NodeAt> = Vec::new();
    let at = (&raw mut found).cast();
    // SAFETY: the callback only pushes to `found`, which lives outside the frame that an error may
    // leave.
    unsafe { catch_c(|| expression_tree_walker(node.as_ptr(), note_node, at)).or_raise() };
    found
}

/// # Safety
/// `node` must be part of a query tree.
pub(crate) unsafe fn functions(node: NodeAt) -> Vec<pg_sys::Oid> {
    let mut found: Vec<pg_sys::Oid> = Vec::new();
    let at = (&raw mut found).cast();
    // SAFETY: as for `children`.
    unsafe {
        catch_c(|| raw::check_functions_in_node(node.as_ptr(), Some(note_function), at)).or_raise()
    };
    found
}

/// # Safety
/// `node` must be part of a query tree.
pub(crate) unsafe fn is(node: NodeAt, tag: pg_sys::NodeTag) -> bool {
    // SAFETY: every node starts with its tag.
    unsafe { node.as_ref().type_ == tag }
}
