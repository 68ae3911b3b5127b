//! Describes an analysed query for `crates/dialect`. Every pointer here belongs to one query tree,
//! which lives until the description is complete.
use std::ffi::CStr;
use std::ptr::NonNull;

use chainify_dialect::query::Expr;
use chainify_dialect::{Kind, Refusal};
use pgrx::pg_sys;

use super::parameters::Parameters;
use crate::base::error::PgError;
use crate::base::role::Role;
use crate::tree::node::NodeAt;

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn exprLocation(expr: *const pg_sys::Node) -> i32;
        pub(crate) fn format_procedure(function: pg_sys::Oid) -> *mut std::ffi::c_char;
    }
}

/// Nodes of a query.
const NODES_MAX: usize = 200_000;

/// Finds the number of a mirrored table; None: it is not mirrored.
pub type Mirrored<'a> = &'a dyn Fn(pg_sys::Oid) -> Option<i32>;

/// Why a query is not described.
pub(super) enum Stop {
    Refused(Refusal),
    Failed(PgError),
}

impl From<PgError> for Stop {
    fn from(error: PgError) -> Stop {
        Stop::Failed(error)
    }
}

/// The role that a query is translated for.
#[derive(Clone, Copy)]
pub struct Asker {
    pub role: Role,
    /// It reads every row of every ledger table, whatever its rights on the tables.
    pub reads_all: bool,
}

pub(super) struct Reader<'a> {
    pub parameters: &'a Parameters,
    pub mirrored: Mirrored<'a>,
    pub asker: Asker,
    /// Queries around, the innermost last.
    pub levels: Vec<NonNull<pg_sys::Query>>,
    /// Of a CASE with a value: that value.
    pub(crate) case_values: Vec<Expr>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    pub fn new(parameters: &'a Parameters, mirrored: Mirrored<'a>, asker: Asker) -> Reader<'a> {
        Reader {
            parameters,
            mirrored,
            asker,
            levels: Vec::new(),
            case_values: Vec::new(),
            nodes: 0,
        }
    }

    /// Counts a node; refuses a query with too many.
    pub fn count(&mut self) -> Result<(), Stop> {
        self.nodes += 1;
        match self.nodes > NODES_MAX {
            true => Err(self.refuse(
                Kind::Size,
                &format!("a query of more than {NODES_MAX} parts"),
                None,
            )),
            false => Ok(()),
        }
    }

    pub fn refuse(&self, kind: Kind, construct: &str, at: Option<usize>) -> Stop {
        Stop::Refused(Refusal::new(kind, construct).at(at))
    }

    /// # Safety
    /// `node` must be an expression of an analysed query.
    pub(crate) unsafe fn refuse_function(&self, function: pg_sys::Oid, node: NodeAt) -> Stop {
        // SAFETY: by the caller's promise.
        let at = unsafe { place(node) };
        self.refuse(Kind::Function, &function_name(function), at)
    }
}

/// Where an expression begins in the text.
///
/// # Safety
/// `node` must be an expression of an analysed query.
pub(super) unsafe fn place(node: NodeAt) -> Option<usize> {
    // SAFETY: by the caller's promise.
    usize::try_from(unsafe { raw::exprLocation(node.as_ptr()) }).ok()
}

/// A function with the types of its arguments.
pub(super) fn function_name(function: pg_sys::Oid) -> String {
    // SAFETY: a catalog look-up that knows every number; a fresh C string.
    unsafe { CStr::from_ptr(raw::format_procedure(function)) }
        .to_string_lossy()
        .into_owned()
}

/// # Safety
/// `text` must be null or a C string.
pub(super) unsafe fn owned(text: *const std::ffi::c_char) -> String {
    // SAFETY: by the caller's promise.
    match text.is_null() {
        true => String::new(),
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    }
}
