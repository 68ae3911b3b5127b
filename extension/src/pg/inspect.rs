//! Statements analysed but never run, for their author.
use std::ptr::NonNull;

use chainify_sched::template::Template;
use pgrx::pg_sys;

use super::access::template;
use super::analysis::{describe, elements};
use super::complete::complete;
use super::error::{catch_c, PgError};
use super::level::Level;
use super::planning::describe_call;
use super::spi::c_string;
use super::statement::{check_allowed, own_text, raw};
use super::subtransaction::subtransaction;

extern "C-unwind" {
    fn pg_rewrite_query(query: *mut pg_sys::Query) -> *mut pg_sys::List;
}

/// One statement of a text.
pub struct Inspected {
    pub text: String,
    /// What was asked for, or why it is no statement of a ledger transaction.
    pub found: Result<Found, PgError>,
}

/// What a statement is after rewriting.
pub struct Found {
    pub levels: Vec<Level>,
    /// What it may read and write, if that was asked for.
    pub template: Option<Template>,
}

/// Parses, analyses and rewrites every statement of `sql`, as the current role; nothing is executed. Types of parameters are inferred.
/// `access`: asks for what it may read and write, for which functions are looked at as well.
/// Errors: those of parsing and analysis.
pub fn inspect(sql: &str, access: bool) -> Result<Vec<Inspected>, PgError> {
    let text = c_string(sql)?;
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    let (types_at, count_at) = (&raw mut types, &raw mut count);
    // SAFETY: the parser's statements live in the current memory context; the analyser grows the array of types as it needs.
    unsafe {
        let list = catch_c(|| raw::raw_parser(text.as_ptr(), 0))?;
        let mut inspected = Vec::new();
        for statement in elements::<pg_sys::RawStmt>(list) {
            let own = own_text(sql, &statement).trim().to_owned();
            let found = match check_allowed(statement.as_ref().stmt) {
                Err(refused) => Err(refused),
                Ok(()) => {
                    let mut call = std::ptr::null_mut();
                    let call_at = &raw mut call;
                    let rewritten = catch_c(|| {
                        let none = std::ptr::null_mut();
                        let query = raw::parse_analyze_varparams(
                            statement.as_ptr(),
                            text.as_ptr(),
                            types_at,
                            count_at,
                            none,
                        );
                        if (*query).commandType == pg_sys::CmdType::CMD_UTILITY {
                            *call_at = (*query).utilityStmt;
                            std::ptr::null_mut()
                        } else {
                            pg_rewrite_query(query)
                        }
                    })?;
                    let queries: Vec<NonNull<pg_sys::Query>> = elements(rewritten);
                    let parameters = usize::try_from(count).unwrap_or(0);
                    let template = access.then(|| template_or_everything(rewritten, parameters));
                    let mut levels: Vec<_> = queries
                        .into_iter()
                        .map(|q| {
                            complete(q.as_ptr().cast());
                            describe(q)
                        })
                        .collect();
                    if !call.is_null() && (*call).type_ == pg_sys::NodeTag::T_CallStmt {
                        levels.push(describe_call(call.cast()));
                    }
                    Ok(Found { levels, template })
                }
            };
            inspected.push(Inspected { text: own, found });
        }
        Ok(inspected)
    }
}

/// # Safety
/// `rewritten` must be a list of analysed and rewritten queries, null for a utility statement.
unsafe fn template_or_everything(rewritten: *mut pg_sys::List, parameters: usize) -> Template {
    // SAFETY: by the caller's promise.
    let found = subtransaction(|| Ok(unsafe { template(&[rewritten], parameters) }));
    let mut found = found.unwrap_or_else(|error| {
        let mut everything = Template::default();
        everything.widen(error.message);
        everything
    });
    if rewritten.is_null() {
        found.widen("it is no query");
    }
    found
}
