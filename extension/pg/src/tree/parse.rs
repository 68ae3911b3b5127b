//! Statements as parsed, and which of them a ledger transaction may contain.
use std::ffi::CStr;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::error::{catch_c, PgError};
use crate::base::lists::nodes;
use crate::tree::nesting::check_statement;

pub(crate) mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn raw_parser(sql: *const c_char, mode: u32) -> *mut pg_sys::List;
        pub(crate) fn parse_analyze_varparams(
            statement: *mut pg_sys::RawStmt,
            sql: *const c_char,
            types: *mut *mut pg_sys::Oid,
            count: *mut i32,
            environment: *mut pg_sys::QueryEnvironment,
        ) -> *mut pg_sys::Query;
    }
}

/// The statements of a text, as parsed and not yet analysed; they live in the current memory
/// context. Errors: those of the parser, 54000.
pub(crate) fn parse(sql: &str) -> Result<Vec<NonNull<pg_sys::RawStmt>>, PgError> {
    let text = c_string(sql)?;
    // SAFETY: the parser returns a list of RawStmt.
    unsafe {
        let list = catch_c(|| raw::raw_parser(text.as_ptr(), 0))?;
        let statements: Vec<NonNull<pg_sys::RawStmt>> = nodes(list).map(NonNull::cast).collect();
        for statement in &statements {
            check_statement(statement.as_ref().stmt)?;
        }
        Ok(statements)
    }
}

/// # Safety
/// `statement` must come from the parser.
pub(crate) unsafe fn check_allowed(statement: *mut pg_sys::Node) -> Result<(), PgError> {
    use pg_sys::NodeTag::*;
    // SAFETY: the tag says which structure follows; command tags are static strings.
    unsafe {
        let allowed = match (*statement).type_ {
            T_SelectStmt => (*statement.cast::<pg_sys::SelectStmt>())
                .intoClause
                .is_null(),
            T_InsertStmt | T_UpdateStmt | T_DeleteStmt | T_MergeStmt | T_TruncateStmt
            | T_CallStmt => true,
            _ => false,
        };
        if allowed {
            return Ok(());
        }
        if (*statement).type_ == T_SelectStmt {
            return Err(not_allowed("SELECT INTO"));
        }
        let tag = CStr::from_ptr(pg_sys::GetCommandTagName(pg_sys::CreateCommandTag(
            statement,
        )));
        Err(not_allowed(&tag.to_string_lossy()))
    }
}

/// The refusal of a statement of this kind.
pub fn not_allowed(command: &str) -> PgError {
    PgError::new(b"CH004", format!("{command} is not allowed in a ledger transaction"))
        .hint("A ledger transaction consists of SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE and CALL on ledger tables.")
}

/// The part of the text that a statement is.
pub(crate) fn own_text<'s>(sql: &'s str, statement: &NonNull<pg_sys::RawStmt>) -> &'s str {
    // SAFETY: from the parser; it counts bytes of this text, and 0 means to the end.
    let (at, length) = unsafe {
        (
            statement.as_ref().stmt_location.max(0) as usize,
            statement.as_ref().stmt_len as usize,
        )
    };
    let rest = sql.get(at..).unwrap_or(sql);
    if length == 0 {
        rest
    } else {
        rest.get(..length).unwrap_or(rest)
    }
}
