//! A text or a tree, analysed and described.
use std::ptr::NonNull;

use chainify_dialect::query::Query;
use chainify_dialect::{translate, Refusal, Settings};
use pgrx::pg_sys;

use super::parameters::Parameters;
use super::reader::{Asker, Mirrored, Reader, Stop};
use crate::pg::base::c_string::c_string;
use crate::pg::base::error::{catch_c, PgError};
use crate::pg::base::lists::elements;
use crate::pg::base::text_rows::TextColumn;
use crate::pg::tree::parse::parse;

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub fn parse_analyze_fixedparams(
            statement: *mut pg_sys::RawStmt,
            sql: *const c_char,
            types: *const pg_sys::Oid,
            count: i32,
            environment: *mut pg_sys::QueryEnvironment,
        ) -> *mut pg_sys::Query;
        pub fn exprType(expr: *const pg_sys::Node) -> pg_sys::Oid;
        pub fn exprTypmod(expr: *const pg_sys::Node) -> i32;
    }
}

/// A query in the worker's dialect.
pub struct Translated {
    pub sql: String,
    /// Its columns.
    pub columns: Vec<TextColumn>,
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
    // SAFETY: the statement is the parser's; text and types are valid for the call. The query is
    // this function's own.
    let query = unsafe {
        catch_c(|| {
            raw::parse_analyze_fixedparams(
                statement.as_ptr(),
                text.as_ptr(),
                types.as_ptr(),
                types.len() as i32,
                std::ptr::null_mut(),
            )
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
pub(in crate::pg) unsafe fn translate_query(
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
        unsafe {
            let expr = target.as_ref().expr.cast::<pg_sys::Node>();
            Some(TextColumn {
                name: output.name.clone(),
                of: raw::exprType(expr),
                typmod: raw::exprTypmod(expr),
            })
        }
    });
    Ok(Translated {
        columns: columns.collect(),
        sql: translation.sql,
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
