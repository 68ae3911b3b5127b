//! Whether finding the rows of a query can raise an error. Such an error would show which rows the
//! plan looked at.
//!
//! Comparisons of columns, parameters and constants by PostgreSQL's own operators raise no error,
//! nor do AND, OR and NOT of them. Every other expression counts as one that may raise an error.
use std::ffi::c_void;
use std::ptr::null_mut;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::lists::nodes;
use crate::tree::tree_walkers::{expression_tree_walker, query_tree_walker};

/// The parts of a query that may raise, as far as plans can show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MayRaise {
    /// Its conditions.
    Conditions,
    /// The work on the rows found: computing results, or changing rows.
    Results,
    Nothing,
}

/// The part of a query that may raise.
///
/// # Safety
/// `query` must be an analysed and rewritten query that no planner has touched. To be called where
/// an ERROR may be raised.
pub(crate) unsafe fn may_raise(query: *mut pg_sys::Query) -> MayRaise {
    // SAFETY: by the caller's promise.
    unsafe {
        if conditions(query) {
            MayRaise::Conditions
        } else if (*query).commandType == pg_sys::CmdType::CMD_SELECT
            && !(*query).hasModifyingCTE
            && !results(query)
        {
            MayRaise::Nothing
        } else {
            MayRaise::Results
        }
    }
}

/// Whether more may raise than is computed for the rows found alone, or once for all.
///
/// # Safety
/// As for [`may_raise`].
unsafe fn conditions(query: *mut pg_sys::Query) -> bool {
    // SAFETY: by the caller's promise; a copy of the structure has the same lists, but those taken
    // out. An entry of the range table with a subquery has one.
    unsafe {
        let mut found = *query;
        let takes_all = takes_all(query);
        let mut apart = vec![
            take(&mut found.returningList).cast(),
            take(&mut found.withCheckOptions).cast(),
            take(&mut found.mergeActionList).cast(),
            take(&mut found.onConflict).cast(),
            take(&mut found.limitCount),
            take(&mut found.limitOffset),
        ];
        // The rows that LIMIT cuts off have results or not, as the plan likes.
        if (*query).limitCount.is_null() && (*query).limitOffset.is_null() {
            apart.push(take(&mut found.targetList).cast());
        }
        let from = nodes(found.rtable).any(|entry| {
            let subquery = entry.cast::<pg_sys::RangeTblEntry>().as_ref().subquery;
            !subquery.is_null()
                && match takes_all {
                    true => conditions(subquery),
                    false => raises(subquery.cast(), null_mut()),
                }
        });
        let flags = pg_sys::QTW_IGNORE_RT_SUBQUERIES | pg_sys::QTW_IGNORE_JOINALIASES;
        from || apart
            .into_iter()
            .any(|part| looks_for_rows(part, null_mut()))
            || query_tree_walker(&mut found, raises, null_mut(), flags as i32)
    }
}

/// Whether the work on the rows found may raise. LIMIT and OFFSET are computed once, before any
/// row; so only the rows that their own queries find count.
///
/// # Safety
/// As for [`may_raise`].
unsafe fn results(query: *mut pg_sys::Query) -> bool {
    // SAFETY: by the caller's promise; a copy of the structure has the same lists, but those taken
    // out.
    unsafe {
        let mut found = *query;
        let once = [take(&mut found.limitCount), take(&mut found.limitOffset)];
        raises((&raw mut found).cast(), null_mut())
            || once.into_iter().any(|part| works_on_rows(part, null_mut()))
    }
}

/// Whether a query in an expression may raise by the work on the rows that it finds.
unsafe extern "C-unwind" fn works_on_rows(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with nodes of a query, as the walkers want; the tag says which structure
    // follows.
    unsafe {
        !node.is_null()
            && match (*node).type_ {
                T_Query => results(node.cast()),
                _ => expression_tree_walker(node, works_on_rows, context),
            }
    }
}

fn take<T>(at: &mut *mut T) -> *mut T {
    std::mem::replace(at, null_mut())
}

/// Whether every row of the only source is used, as those of INSERT … SELECT are.
///
/// # Safety
/// As for [`may_raise`].
unsafe fn takes_all(query: *mut pg_sys::Query) -> bool {
    // SAFETY: by the caller's promise; a query other than a command has a FROM.
    unsafe {
        let query = &*query;
        let Some(from) = query.jointree.as_ref() else {
            return false;
        };
        from.quals.is_null()
            && nodes(from.fromlist).all(|item| item.as_ref().type_ == T_RangeTblRef)
            && nodes(from.fromlist).count() == 1
            && query.havingQual.is_null()
            && query.limitCount.is_null()
            && query.limitOffset.is_null()
    }
}

/// Whether a query in an expression may raise by its own conditions.
unsafe extern "C-unwind" fn looks_for_rows(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with nodes of a query, as the walkers want; the tag says which structure
    // follows.
    unsafe {
        !node.is_null()
            && match (*node).type_ {
                T_Query => conditions(node.cast()),
                _ => expression_tree_walker(node, looks_for_rows, context),
            }
    }
}

unsafe extern "C-unwind" fn raises(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: called with nodes of a query, as the walkers want; the tag says which structure
    // follows.
    unsafe {
        let may = match (*node).type_ {
            T_Query => {
                let flags = pg_sys::QTW_IGNORE_JOINALIASES as i32;
                return query_tree_walker(node.cast(), raises, context, flags);
            }
            T_Var | T_Const | T_Param | T_RangeTblRef | T_SQLValueFunction | T_CaseTestExpr
            | T_List | T_RelabelType | T_NullTest | T_BooleanTest | T_BoolExpr | T_CaseExpr
            | T_CaseWhen | T_CoalesceExpr | T_FromExpr | T_JoinExpr | T_TargetEntry
            | T_SortGroupClause | T_CommonTableExpr | T_SetOperationStmt => false,
            T_OpExpr | T_DistinctExpr => !compares((*node.cast::<pg_sys::OpExpr>()).opno),
            T_ScalarArrayOpExpr => !compares((*node.cast::<pg_sys::ScalarArrayOpExpr>()).opno),
            T_Aggref => !counts((*node.cast::<pg_sys::Aggref>()).aggfnoid),
            T_ArrayExpr => (*node.cast::<pg_sys::ArrayExpr>()).multidims,
            T_FuncExpr => {
                let call = &*node.cast::<pg_sys::FuncExpr>();
                !is_own(call.funcid)
                    || call.funcretset
                    || !(call.args.is_null() || pg_sys::get_func_leakproof(call.funcid))
            }
            T_SubLink => !matches!(
                (*node.cast::<pg_sys::SubLink>()).subLinkType,
                pg_sys::SubLinkType::EXISTS_SUBLINK | pg_sys::SubLinkType::ANY_SUBLINK
            ),
            _ => true,
        };
        may || expression_tree_walker(node, raises, context)
    }
}

/// Whether an aggregate function counts: `count(*)` or `count("any")` in pg_proc.
fn counts(function: pg_sys::Oid) -> bool {
    [2147, 2803].contains(&function.to_u32())
}

fn is_own(object: pg_sys::Oid) -> bool {
    object.to_u32() < pg_sys::FirstNormalObjectId
}

/// Whether an operator compares two values, and has a result for every two. Records of different
/// types cannot be compared.
fn compares(operator: pg_sys::Oid) -> bool {
    let (mut left, mut right) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: catalog look-ups of an operator that an analysed query has.
    unsafe {
        pg_sys::op_input_types(operator, &mut left, &mut right);
        is_own(operator)
            && left != pg_sys::RECORDOID
            && (pg_sys::get_func_leakproof(pg_sys::get_opcode(operator))
                || !pg_sys::get_op_btree_interpretation(operator).is_null())
    }
}
