//! PostgreSQL's own walkers over trees of nodes. Each passes the children of a node to a callback,
//! until one returns true, and raises for a node that it does not know.
//!
//! 15 declares them with a callback of any kind; since 16 that is typed, and their names are
//! macros.
use std::ffi::c_void;
use std::ptr::NonNull;

use pgrx::pg_sys;

pub(crate) type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;

extern "C-unwind" {
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    pub(crate) fn expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: Walker,
        context: *mut c_void,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    pub(crate) fn query_tree_walker(
        query: *mut pg_sys::Query,
        walker: Walker,
        context: *mut c_void,
        flags: i32,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "planstate_tree_walker_impl")]
    pub(crate) fn planstate_tree_walker(
        state: *mut pg_sys::PlanState,
        walker: unsafe extern "C-unwind" fn(*mut pg_sys::PlanState, *mut c_void) -> bool,
        context: *mut c_void,
    ) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "raw_expression_tree_walker_impl")]
    pub(crate) fn raw_expression_tree_walker(
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

#[cfg(feature = "pg18")]
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn flatten_group_exprs(
            planner: *mut pg_sys::PlannerInfo,
            query: *mut pg_sys::Query,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
    }
}

/// The query as 15 has it: expressions of GROUP BY stand where they are used. Since 18 they are
/// columns of an entry of the range table, which in the result is a join that nothing names.
///
/// # Safety
/// `query` must be an analysed query, which no planner has touched, and outlive the result. To be
/// called where an ERROR may be raised.
#[inline]
pub(crate) unsafe fn without_groups(query: NonNull<pg_sys::Query>) -> NonNull<pg_sys::Query> {
    // SAFETY: by the caller's promise; the copy has lists and entries of its own where it differs.
    #[cfg(feature = "pg18")]
    unsafe {
        if query.as_ref().hasGroupRTE {
            let all = query.as_ptr();
            let copy = copied(all);
            (*copy).targetList =
                raw::flatten_group_exprs(std::ptr::null_mut(), all, (*all).targetList.cast())
                    .cast();
            (*copy).havingQual =
                raw::flatten_group_exprs(std::ptr::null_mut(), all, (*all).havingQual);
            (*copy).hasGroupRTE = false;
            (*copy).rtable = std::ptr::null_mut();
            for entry in crate::base::lists::nodes((*all).rtable) {
                let mut entry = entry.cast::<pg_sys::RangeTblEntry>().as_ptr();
                if (*entry).rtekind == pg_sys::RTEKind::RTE_GROUP {
                    entry = copied(entry);
                    (*entry).rtekind = pg_sys::RTEKind::RTE_JOIN;
                    (*entry).groupexprs = std::ptr::null_mut();
                }
                (*copy).rtable = pg_sys::lappend((*copy).rtable, entry.cast());
            }
            return NonNull::new(copy).unwrap_or(query);
        }
    }
    query
}

/// A node with the same fields, in the current memory context.
///
/// # Safety
/// `node` must be valid.
#[cfg(feature = "pg18")]
unsafe fn copied<T>(node: *const T) -> *mut T {
    // SAFETY: by the caller's promise; palloc raises when there is no memory.
    unsafe {
        let copy = pg_sys::palloc(size_of::<T>()).cast::<T>();
        std::ptr::copy_nonoverlapping(node, copy, 1);
        copy
    }
}

/// Whether a node of an analysed query is of a kind that 15 has; there the walkers raise for any
/// other. SQL/JSON and merge_action() of 16 and 17 compute without calling a function that could
/// be looked at.
#[cfg(feature = "pg15")]
#[inline]
pub(crate) fn is_known_node(_: pg_sys::NodeTag) -> bool {
    true
}

/// Whether a node of an analysed query is of a kind that 15 has; there the walkers raise for any
/// other. SQL/JSON and merge_action() of 16 and 17 compute without calling a function that could
/// be looked at.
#[cfg(not(feature = "pg15"))]
pub(crate) fn is_known_node(tag: pg_sys::NodeTag) -> bool {
    use pg_sys::NodeTag::*;
    let value = matches!(
        tag,
        T_Var
            | T_Const
            | T_Param
            | T_CaseTestExpr
            | T_CoerceToDomainValue
            | T_SQLValueFunction
            | T_SetToDefault
            | T_CurrentOfExpr
            | T_NextValueExpr
    );
    let expression = matches!(
        tag,
        T_Aggref
            | T_GroupingFunc
            | T_WindowFunc
            | T_SubscriptingRef
            | T_FuncExpr
            | T_NamedArgExpr
            | T_OpExpr
            | T_DistinctExpr
            | T_NullIfExpr
            | T_ScalarArrayOpExpr
            | T_BoolExpr
            | T_SubLink
            | T_FieldSelect
            | T_FieldStore
            | T_RelabelType
            | T_CoerceViaIO
            | T_ArrayCoerceExpr
            | T_ConvertRowtypeExpr
            | T_CollateExpr
            | T_CaseExpr
            | T_ArrayExpr
            | T_RowExpr
            | T_RowCompareExpr
            | T_CoalesceExpr
            | T_MinMaxExpr
            | T_XmlExpr
            | T_NullTest
            | T_BooleanTest
            | T_CoerceToDomain
    );
    let part = matches!(
        tag,
        T_List
            | T_Query
            | T_TargetEntry
            | T_FromExpr
            | T_JoinExpr
            | T_RangeTblRef
            | T_RangeTblFunction
            | T_TableFunc
            | T_TableSampleClause
            | T_CommonTableExpr
            | T_CTESearchClause
            | T_CTECycleClause
            | T_SetOperationStmt
            | T_SortGroupClause
            | T_WindowClause
            | T_OnConflictExpr
            | T_InferenceElem
            | T_MergeAction
            | T_WithCheckOption
    );
    value || expression || part
}
