//! Under which collations a query works on texts.
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::pg::base::collation;
use crate::pg::describe::analysis::{bare, children, elements, is, NodeAt, Reader};
use crate::pg::describe::query_level::*;

impl Reader<'_> {
    /// As `sort_terms`, where rows that agree in the terms count as one, or as peers.
    pub(super) unsafe fn equal_terms(
        &mut self,
        clauses: *mut pg_sys::List,
        targets: *mut pg_sys::List,
    ) -> Vec<Term> {
        // SAFETY: as for `sort_terms`; what is sorted by is an expression of the target list.
        unsafe {
            for target in elements::<pg_sys::TargetEntry>(targets) {
                let reference = target.as_ref().ressortgroupref;
                let named =
                    |c: &NonNull<pg_sys::SortGroupClause>| c.as_ref().tleSortGroupRef == reference;
                if elements(clauses).iter().any(named) {
                    self.compares_under(pg_sys::exprCollation(target.as_ref().expr.cast()));
                }
            }
            self.sort_terms(clauses, targets)
        }
    }

    /// Refuses a collation that takes different texts as equal.
    pub(super) fn compares_under(&mut self, by: pg_sys::Oid) {
        if let Some(name) = collation::nondeterministic(by) {
            self.refuse(Construct::NondeterministicCollation(name));
        }
    }

    /// The collations of the columns of a set operation and of those within it.
    pub(super) unsafe fn set_operations(&mut self, node: *mut pg_sys::Node) {
        // SAFETY: a tree of set operations, whose leaves are references to subqueries.
        unsafe {
            pg_sys::check_stack_depth();
            if node.is_null() || (*node).type_ != T_SetOperationStmt {
                return;
            }
            let operation = &*node.cast::<pg_sys::SetOperationStmt>();
            for by in oids(operation.colCollations) {
                self.compares_under(by);
            }
            self.set_operations(operation.larg);
            self.set_operations(operation.rarg);
        }
    }
}

/// Without a collation under which all that differs is told apart.
pub(super) unsafe fn told_apart_by(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: part of a query tree.
    unsafe {
        if (*node).type_ != T_CollateExpr {
            return node;
        }
        let collate = &*node.cast::<pg_sys::CollateExpr>();
        match collation::nondeterministic(collate.collOid) {
            None => bare(collate.arg.cast()),
            Some(_) => node,
        }
    }
}

/// Collations under which a node works on texts; none where it works on none.
pub(super) unsafe fn input_collations(node: NodeAt) -> Vec<pg_sys::Oid> {
    // SAFETY: the tag says which structure follows.
    unsafe {
        if is(node, T_RowCompareExpr) {
            return oids(node.cast::<pg_sys::RowCompareExpr>().as_ref().inputcollids);
        }
        vec![pg_sys::exprInputCollation(node.as_ptr())]
    }
}

/// The collation under which a node works on texts, or on values that hold some, when order and case under it depend on the machine.
pub(super) unsafe fn local_collation(node: NodeAt) -> Option<String> {
    // SAFETY: an expression; those of these tags have expressions for arguments, or lists of them.
    unsafe {
        let of_input = input_collations(node)
            .into_iter()
            .find_map(collation::local);
        let computes = matches!(
            node.as_ref().type_,
            T_FuncExpr | T_OpExpr | T_ScalarArrayOpExpr | T_MinMaxExpr | T_RowCompareExpr
        );
        if of_input.is_some() || !computes {
            return of_input;
        }
        let arguments = children(node).into_iter().flat_map(|child| {
            if is(child, T_List) {
                elements(child.as_ptr().cast())
            } else {
                vec![child]
            }
        });
        let mut values = arguments.map(NonNull::as_ptr);
        values.find_map(|value| {
            let (of, typmod) = (pg_sys::exprType(value), pg_sys::exprTypmod(value));
            collation::order_of(of, typmod, pg_sys::InvalidOid)
        })
    }
}

/// Elements of a list of oids.
///
/// # Safety
/// `list` must be null or a list of oids.
unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: by the caller's promise; a list has `length` elements.
    unsafe {
        list.as_ref().map_or_else(Vec::new, |list| {
            (0..list.length as usize)
                .map(|i| (*list.elements.add(i)).oid_value)
                .collect()
        })
    }
}
