//! Functions called: what they may read and write.
use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use super::{Place, Reader};
use crate::pg::analysis::{children, functions, NodeAt};
use crate::pg::function_facts::function;

/// Built-in functions that read tables, by the beginnings of their names; those that are volatile are not let through anyway.
const READERS: [&str; 3] = ["table_to_", "schema_to_", "database_to_"];
/// Volatile functions that touch no table.
const DRAWING: [&str; 3] = ["random", "gen_random_uuid", "chainify.uuid"];

fn built_in(oid: pg_sys::Oid) -> bool {
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

impl Reader {
    /// Notes what the functions that `node` itself calls may do; not those in its arguments.
    pub(super) unsafe fn calls(&mut self, node: NodeAt, place: &Place) {
        // SAFETY: an expression.
        unsafe {
            if matches!(
                node.as_ref().type_,
                T_List | T_Var | T_Const | T_Param | T_TargetEntry
            ) {
                return;
            }
            for oid in functions(node) {
                self.call(oid, place);
            }
        }
    }

    fn call(&mut self, oid: pg_sys::Oid, _place: &Place) {
        let facts = function(oid);
        let harmless = if built_in(oid) {
            let reader = READERS
                .iter()
                .any(|beginning| facts.name.starts_with(beginning));
            (!facts.volatile && !reader) || DRAWING.contains(&facts.name.as_str())
        } else {
            facts.immutable && !facts.aggregate || DRAWING.contains(&facts.name.as_str())
        };
        if !harmless {
            self.template.widen(format!("it calls {}()", facts.name));
        }
    }
}
