//! PostgreSQL's own walkers over trees of nodes. Each passes the children of a node to a callback,
//! until one returns true, and raises for a node that it does not know.
//!
//! 15 declares them with a callback of any kind; since 16 that is typed, and their names are
//! macros.
use std::ffi::c_void;

use pgrx::pg_sys;

pub(in crate::pg) type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;

extern "C-unwind" {
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    pub(in crate::pg) fn expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: Walker,
        context: *mut c_void,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    pub(in crate::pg) fn query_tree_walker(
        query: *mut pg_sys::Query,
        walker: Walker,
        context: *mut c_void,
        flags: i32,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "planstate_tree_walker_impl")]
    pub(in crate::pg) fn planstate_tree_walker(
        state: *mut pg_sys::PlanState,
        walker: unsafe extern "C-unwind" fn(*mut pg_sys::PlanState, *mut c_void) -> bool,
        context: *mut c_void,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "raw_expression_tree_walker_impl")]
    pub(in crate::pg) fn raw_expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: Walker,
        context: *mut c_void,
    ) -> bool;
}

/// As `c_functions!` does it.
#[cfg(not(feature = "pg15"))]
const _: () = {
    type OfNode = unsafe fn(*mut pg_sys::Node, Option<Walker>, *mut c_void) -> bool;
    type OfQuery = unsafe fn(*mut pg_sys::Query, Option<Walker>, *mut c_void, i32) -> bool;
    let _: OfNode = pg_sys::expression_tree_walker_impl;
    let _: OfNode = pg_sys::raw_expression_tree_walker_impl;
    let _: OfQuery = pg_sys::query_tree_walker_impl;
};
