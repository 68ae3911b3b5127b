//! Under which collations an expression works on texts.
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::collation;
use crate::base::lists::elements;
use crate::tree::node::{children, is, NodeAt};

/// Without relabelling of types, which changes no value.
pub(super) unsafe fn bare(mut node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: null or part of a query tree.
    unsafe {
        while !node.is_null() && (*node).type_ == T_RelabelType {
            node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
        }
        node
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

/// The collation under which a node works on texts, or on values that hold some, when order and
/// case under it depend on the machine.
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
pub(super) unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: by the caller's promise; a list has `length` elements.
    unsafe {
        list.as_ref().map_or_else(Vec::new, |list| {
            (0..list.length as usize)
                .map(|i| (*list.elements.add(i)).oid_value)
                .collect()
        })
    }
}
