//! The bounds on the depth of statements and calls. They are the same in every organisation, far
//! below the capacity of the smallest stack that PostgreSQL may have here (`max_stack_depth`, 2 MB
//! in a block). A statement that exceeds the stack all the same is an error of the machine
//! (invariant X4).
use std::ffi::c_void;

use pgrx::pg_sys;

use crate::base::error::{catch_c, PgError};
use crate::base::raised;
use crate::tree::tree_walkers::raw_expression_tree_walker;

/// Nodes of a statement below each other: operators, calls, subqueries, UNIONs.
const STATEMENT_MAX: u32 = 1_000;
/// Functions and triggers that call each other. Each of PL/pgSQL has two error contexts, its own
/// and that of the statement in it; one in SQL, and a foreign key's action, has one. Some 4 kB of
/// stack each.
const CALLS_MAX: usize = 200;
const CONTEXTS_MAX: usize = 2 * CALLS_MAX + 1;

/// Refuses a statement that is nested too deeply, before it is analysed: one that reads or changes
/// rows, or a call.
///
/// # Safety
/// `statement` must come from the parser.
pub(crate) unsafe fn check_statement(statement: *mut pg_sys::Node) -> Result<(), PgError> {
    use pg_sys::NodeTag::*;
    let mut depth = 0u32;
    // SAFETY: by the caller's promise; the tag says which structure follows. The walker knows all
    // that these statements are made of, and goes no deeper than the bound.
    let deeper = unsafe {
        let top = match (*statement).type_ {
            T_SelectStmt | T_InsertStmt | T_UpdateStmt | T_DeleteStmt | T_MergeStmt => statement,
            T_CallStmt => (*statement.cast::<pg_sys::CallStmt>()).funccall.cast(),
            _ => return Ok(()),
        };
        catch_c(|| is_too_deep(top, (&raw mut depth).cast()))?
    };
    match deeper {
        false => Ok(()),
        true => Err(too_deep(format!(
            "statement is nested more than {STATEMENT_MAX} deep"
        ))
        .hint(
            "Write long chains of operators or UNIONs with lists, VALUES or several statements.",
        )),
    }
}

unsafe extern "C-unwind" fn is_too_deep(node: *mut pg_sys::Node, depth: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: `depth` is the counter of `check_statement`; the node is the parser's.
    unsafe {
        let counter = depth.cast::<u32>();
        if *counter == STATEMENT_MAX {
            return true;
        }
        *counter += 1;
        let deeper = raw_expression_tree_walker(node, is_too_deep, depth);
        *counter -= 1;
        deeper
    }
}

/// Raises in a transaction of a block when the calls around the query to be run are too many.
pub(crate) fn check_calls() {
    if raised::contexts().is_some_and(|contexts| contexts > CONTEXTS_MAX) {
        too_deep(format!(
            "functions and triggers call each other more than {CALLS_MAX} deep"
        ))
        .hint("Use a loop or WITH RECURSIVE instead of functions that call themselves.")
        .raise();
    }
}

fn too_deep(message: String) -> PgError {
    PgError::new(b"54000", message)
        .detail("How deep an organisation's stack reaches must not decide what a transaction does.")
}
