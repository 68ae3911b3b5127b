//! Completes a query before it is described and planned. It inserts default arguments of calls,
//! which only the planner would insert otherwise. It also replaces PostgreSQL's sequence functions
//! by the ledger's own.
use std::cell::Cell;
use std::ffi::{c_void, CStr};

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::catalog;
use crate::base::error::{catch_c, enter, OrRaise};
use crate::tree::tree_walkers::{expression_tree_walker, query_tree_walker};

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn check_stack_depth();
        pub(crate) fn expand_function_arguments(
            args: *mut pg_sys::List,
            include_out_arguments: bool,
            result_type: pg_sys::Oid,
            function: pg_sys::HeapTuple,
        ) -> *mut pg_sys::List;
    }
}

/// Functions of pg_proc.dat and the ledger's in their place, with the types of their arguments.
const ON_SEQUENCES: [(u32, &CStr, &[pg_sys::Oid]); 5] = [
    // The two that `draws` is about.
    (1574, c"nextval", &[pg_sys::REGCLASSOID]),
    (1575, c"currval", &[pg_sys::REGCLASSOID]),
    (2559, c"lastval", &[]),
    (1576, c"setval", &[pg_sys::REGCLASSOID, pg_sys::INT8OID]),
    (
        1765,
        c"setval",
        &[pg_sys::REGCLASSOID, pg_sys::INT8OID, pg_sys::BOOLOID],
    ),
];
/// The expression by which an identity column draws: it asks for no right on the sequence.
const FOR_IDENTITY: &CStr = c"next_identity";

/// int4(int8) and int2(int8) of pg_proc.dat.
const TO_INT4: u32 = 480;
const TO_INT2: u32 = 714;

/// The ledger's functions by what they stand for; all invalid where the extension is not installed.
#[derive(Clone, Copy)]
struct Own {
    generation: u64,
    on_sequences: [pg_sys::Oid; ON_SEQUENCES.len()],
    for_identity: pg_sys::Oid,
}

thread_local! {
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

fn own() -> Own {
    let generation = catalog::generation();
    if let Some(own) = OWN.get().filter(|own| own.generation == generation) {
        return own;
    }
    let find = |name, types| catalog::function_named(c"chainify_ledger", name, types);
    let own = Own {
        generation,
        on_sequences: ON_SEQUENCES.map(|(_, name, types)| find(name, types)),
        for_identity: find(FOR_IDENTITY, &[pg_sys::REGCLASSOID]),
    };
    OWN.set(Some(own));
    own
}

/// Whether a function draws from the sequence that its argument names, or tells what was drawn:
/// PostgreSQL's own, and the ledger's in their place.
pub(crate) fn draws(function: pg_sys::Oid) -> bool {
    let own = own();
    (0..2).any(|at| function.to_u32() == ON_SEQUENCES[at].0 || function == own.on_sequences[at])
        || function == own.for_identity
}

/// Completes a query, or an expression, in place. Doing so again changes nothing. Raises what a
/// call without a function does.
///
/// # Safety
/// `node` must be an analysed and rewritten query tree, or an expression, that the caller may
/// change.
pub(crate) unsafe fn complete(node: *mut pg_sys::Node) {
    let mut own = own();
    // SAFETY: by the caller's promise; the walker owns nothing that an ERROR could skip.
    unsafe { catch_c(|| visit(node, (&raw mut own).cast())).or_raise() };
}

unsafe extern "C-unwind" fn visit(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the tag says which structure follows; `context` is that of `complete`.
    unsafe {
        raw::check_stack_depth();
        let own = &*context.cast::<Own>();
        match (*node).type_ {
            T_Query => return query_tree_walker(node.cast(), visit, context, 0),
            T_FuncExpr => enter(|| call(&mut *node.cast(), own)),
            T_TargetEntry => {
                let target = &mut *node.cast::<pg_sys::TargetEntry>();
                target.expr = enter(|| identity(target.expr.cast(), own)).cast();
            }
            T_List => {
                let list = &*node.cast::<pg_sys::List>();
                for i in 0..list.length as usize {
                    let cell = &mut *list.elements.add(i);
                    cell.ptr_value = enter(|| identity(cell.ptr_value.cast(), own)).cast();
                }
            }
            _ => (),
        }
        expression_tree_walker(node, visit, context)
    }
}

/// # Safety
/// Runs where an ERROR may skip it.
unsafe fn call(call: &mut pg_sys::FuncExpr, own: &Own) {
    // SAFETY: the tuple is a row of pg_proc and is released after its last use; an ERROR releases
    // it as well.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let function = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(call.funcid));
        if function.is_null() {
            return; // the description raises
        }
        let wants = (*pg_sys::GETSTRUCT(function).cast::<pg_sys::FormData_pg_proc>()).pronargs;
        let given = call.args.as_ref().map_or(0, |list| list.length);
        if given < i32::from(wants) {
            call.args =
                raw::expand_function_arguments(call.args, false, call.funcresulttype, function);
        }
        pg_sys::ReleaseSysCache(function);
    }
    let replaced = ON_SEQUENCES
        .iter()
        .position(|(oid, ..)| *oid == call.funcid.to_u32());
    if let Some(by) = replaced.map(|at| own.on_sequences[at]) {
        if by != pg_sys::InvalidOid {
            call.funcid = by;
        }
    }
}

/// The drawing of an identity column, as a call; anything else as it is.
///
/// # Safety
/// `node` must be null or of a query tree.
unsafe fn identity(node: *mut pg_sys::Node, own: &Own) -> *mut pg_sys::Node {
    // SAFETY: the tag says which structure follows; nodes are made in the current memory context,
    // that of the query.
    unsafe {
        if node.is_null()
            || (*node).type_ != T_NextValueExpr
            || own.for_identity == pg_sys::InvalidOid
        {
            return node;
        }
        let next = &*node.cast::<pg_sys::NextValueExpr>();
        let of = pg_sys::makeConst(
            pg_sys::REGCLASSOID,
            -1,
            pg_sys::InvalidOid,
            4,
            pg_sys::Datum::from(next.seqid),
            false,
            true,
        );
        let call = |function, result, argument: *mut c_void| {
            pg_sys::makeFuncExpr(
                function,
                result,
                pg_sys::lappend(std::ptr::null_mut(), argument),
                pg_sys::InvalidOid,
                pg_sys::InvalidOid,
                pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
            )
        };
        let drawn = call(own.for_identity, pg_sys::INT8OID, of.cast());
        match next.typeId {
            pg_sys::INT4OID => call(TO_INT4.into(), pg_sys::INT4OID, drawn.cast()),
            pg_sys::INT2OID => call(TO_INT2.into(), pg_sys::INT2OID, drawn.cast()),
            _ => drawn,
        }
        .cast()
    }
}
