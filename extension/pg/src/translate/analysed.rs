//! Analyses and describes a query, from its text or its tree.
use std::ptr::NonNull;

use chainify_dialect::query::Query;
use chainify_dialect::{translate, Refusal, Settings};
use pgrx::pg_sys;

use super::parameters::Parameters;
use super::reader::{Asker, Mirrored, Reader, Stop};
use crate::base::c_string::c_string;
use crate::base::error::{catch_c, PgError};
use crate::base::lists::elements;
use crate::base::text_rows::TextColumn;
use crate::tree::parse::parse;

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn parse_analyze_fixedparams(
            statement: *mut pg_sys::RawStmt,
            sql: *const c_char,
            types: *const pg_sys::Oid,
            count: i32,
            environment: *mut pg_sys::QueryEnvironment,
        ) -> *mut pg_sys::Query;
        pub(crate) fn exprType(expr: *const pg_sys::Node) -> pg_sys::Oid;
        pub(crate) fn exprTypmod(expr: *const pg_sys::Node) -> i32;
    }
}

/// A query in the worker's dialect.
pub struct Translated {
    pub sql: String,
    /// Its columns.
    pub columns: Vec<TextColumn>,
    /// It means the same only while TimeZone is UTC.
    pub(crate) needs_utc: bool,
}

/// Translates one SELECT for `asker`. Errors: those of parsing and analysis; 42501 where the role
/// may not read a table whole; 55000 for a table that is not mirrored; 0A000 for what the
/// worker would compute otherwise.
pub fn translate_text(
    sql: &str,
    parameters: &Parameters,
    mirrored: Mirrored,
    asker: Asker,
) -> Result<Translated, PgError> {
    let statements = parse(sql)?;
    let [statement] = statements.as_slice() else {
        return Err(PgError::new(b"42601", "one query is needed"));
    };
    let text = c_string(sql)?;
    let types = &parameters.types;
    let (of_types, count) = (types.as_ptr(), types.len() as i32);
    // SAFETY: the statement is the parser's; text and types are valid for the call. The analyser
    // raises in C, and nothing of the closure's own is to be dropped.
    let query = unsafe {
        catch_c(|| {
            let (statement, text) = (statement.as_ptr(), text.as_ptr());
            let none = std::ptr::null_mut();
            raw::parse_analyze_fixedparams(statement, text, of_types, count, none)
        })?
    };
    let query = NonNull::new(query).filter(|query| {
        // SAFETY: from the analyser.
        unsafe { query.as_ref().commandType == pg_sys::CmdType::CMD_SELECT }
    });
    let query =
        query.ok_or_else(|| PgError::new(b"0A000", "only SELECT is available in analytics"))?;
    // SAFETY: analysed, and no planner has touched it.
    unsafe { translate_query(query, sql, parameters, mirrored, asker) }
}

/// The same of an analysed query; `sql` is its text as far as it is known.
///
/// # Safety
/// `query` must be an analysed SELECT that no planner has touched, and the caller's own.
pub(crate) unsafe fn translate_query(
    query: NonNull<pg_sys::Query>,
    sql: &str,
    parameters: &Parameters,
    mirrored: Mirrored,
    asker: Asker,
) -> Result<Translated, PgError> {
    let refused = |refusal| refusal_error(refusal, sql);
    let mut reader = Reader::new(parameters, mirrored, asker);
    // SAFETY: by the caller's promise.
    let described = unsafe { reader.query(query) };
    let described: Query = described.map_err(|stop| match stop {
        Stop::Refused(refusal) => refused(refusal),
        Stop::Failed(error) => error,
    })?;
    let settings = Settings {
        utc: super::constants::zone_is_utc(),
        // SAFETY: raises when the stack is nearly used up.
        deeper: || unsafe { pg_sys::check_stack_depth() },
    };
    let translation = translate(&described, settings).map_err(refused)?;
    // SAFETY: as above; the places are those of the query's own targets.
    let targets = unsafe { elements::<pg_sys::TargetEntry>(query.as_ref().targetList) };
    let columns = translation.outputs.iter().filter_map(|output| {
        let target = targets.get(output.target)?;
        // SAFETY: an entry of the query.
        let expr = unsafe { target.as_ref().expr.cast::<pg_sys::Node>() };
        // SAFETY: as above.
        let (of, typmod) = unsafe { (raw::exprType(expr), raw::exprTypmod(expr)) };
        Some(TextColumn {
            name: output.name.clone(),
            of,
            typmod,
        })
    });
    Ok(Translated {
        columns: columns.collect(),
        sql: translation.sql,
        needs_utc: translation.needs_utc,
    })
}

/// Bytes of the text that a message shows.
const SHOWN: usize = 60;

fn refusal_error(refusal: Refusal, sql: &str) -> PgError {
    let message = format!("not available in analytics: {}", refusal.construct);
    let error = PgError::new(b"0A000", message);
    let rest = refusal.at.and_then(|at| sql.get(at..));
    let error = match rest.filter(|rest| !rest.is_empty()) {
        Some(rest) => {
            let cut: String = rest.chars().take(SHOWN).collect();
            let dots = if cut.len() < rest.len() { " …" } else { "" };
            let shown = cut.split_whitespace().collect::<Vec<_>>().join(" ");
            error.detail(format!("It stands at \"{shown}{dots}\"."))
        }
        None => error,
    };
    error.hint("PostgreSQL itself runs the query: over the tables, or over chainify.as_of for an earlier block.")
}
