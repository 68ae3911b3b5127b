//! Under which collations a query works on texts.
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::collation;
use crate::base::lists::elements;
use crate::describe::analysis::Reader;
use crate::describe::input_collations::oids;
use crate::describe::query_level::*;

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
