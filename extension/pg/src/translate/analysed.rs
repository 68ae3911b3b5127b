//! A text or a tree, analysed and described.
use std::ptr::NonNull;

use chainify_dialect::query::Query;
use chainify_dialect::{translate, Refusal, Settings};
use pgrx::pg_sys;

use super::parameters::{Parameters, Sent};
use super::reader::{owned, Asker, Mirrored, Reader, Stop};
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
        pub(crate) fn parse_analyze_varparams(
            statement: *mut pg_sys::RawStmt,
            sql: *const c_char,
            types: *mut *mut pg_sys::Oid,
            count: *mut i32,
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
    let types = &parameters.types;
    let (of_types, count) = (types.as_ptr(), types.len() as i32);
    let none = std::ptr::null_mut();
    let query = analysed(sql, |statement, text| {
        // SAFETY: the statement is the parser's; text and types are valid for the call.
        unsafe { raw::parse_analyze_fixedparams(statement, text, of_types, count, none) }
    })?;
    // SAFETY: analysed, and no planner has touched it.
    unsafe { translate_query(query, sql, parameters, mirrored, asker) }
}

/// A query with parameters, in the worker's dialect.
pub struct Prepared {
    /// None: it has parameters, and their values are not known yet.
    pub sql: Option<String>,
    /// Its columns.
    pub columns: Vec<TextColumn>,
    /// The types of its parameters.
    pub parameters: Vec<pg_sys::Oid>,
}

/// Translates one SELECT with parameters `$1` …; types that are 0 or missing are PostgreSQL's to
/// find. Without values it is only described. Errors: those of [`translate_text`] and of the
/// values; 42P18 for a parameter whose type cannot be found; 08P01 for another number of values.
pub fn translate_prepared(
    sql: &str,
    types: &[pg_sys::Oid],
    values: Option<&[Sent]>,
    mirrored: Mirrored,
    asker: Asker,
) -> Result<Prepared, PgError> {
    let (query, types) = analysed_with(sql, types)?;
    let values = match values {
        None if !types.is_empty() => {
            // SAFETY: from the analyser; an entry that is not junk has a name.
            let columns = unsafe {
                elements::<pg_sys::TargetEntry>(query.as_ref().targetList)
                    .into_iter()
                    .filter(|target| !target.as_ref().resjunk)
                    .map(|target| column(&owned(target.as_ref().resname), target.as_ref()))
                    .collect()
            };
            return Ok(Prepared {
                sql: None,
                columns,
                parameters: types,
            });
        }
        values => values.unwrap_or_default(),
    };
    if values.is_empty() && !types.is_empty() {
        return Err(PgError::new(b"42P02", "there is no parameter $1"));
    }
    if values.len() != types.len() {
        let (given, wanted) = (values.len(), types.len());
        let message = format!("{given} values for a statement with {wanted} parameters");
        return Err(PgError::new(b"08P01", message));
    }
    let parameters = Parameters::sent(types.clone(), values)?;
    // SAFETY: analysed, and no planner has touched it.
    let translated = unsafe { translate_query(query, sql, &parameters, mirrored, asker)? };
    Ok(Prepared {
        sql: Some(translated.sql),
        columns: translated.columns,
        parameters: types,
    })
}

/// The analysed SELECT, and the types of its parameters.
fn analysed_with(
    sql: &str,
    types: &[pg_sys::Oid],
) -> Result<(NonNull<pg_sys::Query>, Vec<pg_sys::Oid>), PgError> {
    // At most 65,535, which is checked by the caller.
    let mut count = types.len() as i32;
    // SAFETY: the array is PostgreSQL's to enlarge, and as long as `count` says before and after.
    unsafe {
        let bytes = size_of::<pg_sys::Oid>() * types.len().max(1);
        let mut array = pg_sys::palloc(bytes).cast::<pg_sys::Oid>();
        array.copy_from_nonoverlapping(types.as_ptr(), types.len());
        let (to_array, to_count) = (&raw mut array, &raw mut count);
        let none = std::ptr::null_mut();
        let query = analysed(sql, |statement, text| {
            raw::parse_analyze_varparams(statement, text, to_array, to_count, none)
        })?;
        let types = std::slice::from_raw_parts(array, usize::try_from(count).unwrap_or(0)).to_vec();
        let unknown = [pg_sys::InvalidOid, pg_sys::UNKNOWNOID];
        match types.iter().position(|of| unknown.contains(of)) {
            None => Ok((query, types)),
            Some(at) => {
                let message = format!("could not determine data type of parameter ${}", at + 1);
                Err(PgError::new(b"42P18", message))
            }
        }
    }
}

/// The one SELECT of a text, analysed by `analyse`.
fn analysed(
    sql: &str,
    analyse: impl FnOnce(*mut pg_sys::RawStmt, *const std::ffi::c_char) -> *mut pg_sys::Query,
) -> Result<NonNull<pg_sys::Query>, PgError> {
    let statements = parse(sql)?;
    let [statement] = statements.as_slice() else {
        return Err(PgError::new(b"42601", "one query is needed"));
    };
    let text = c_string(sql)?;
    // SAFETY: `analyse` calls the analyser, which raises in C; nothing of its own is to be dropped.
    let query = unsafe { catch_c(|| analyse(statement.as_ptr(), text.as_ptr()))? };
    let query = NonNull::new(query).filter(|query| {
        // SAFETY: from the analyser.
        unsafe { query.as_ref().commandType == pg_sys::CmdType::CMD_SELECT }
    });
    query.ok_or_else(|| PgError::new(b"0A000", "only SELECT is available in analytics"))
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
        Some(unsafe { column(&output.name, target.as_ref()) })
    });
    Ok(Translated {
        columns: columns.collect(),
        sql: translation.sql,
        needs_utc: translation.needs_utc,
    })
}

/// # Safety
/// The entry must be of an analysed query.
unsafe fn column(name: &str, target: &pg_sys::TargetEntry) -> TextColumn {
    let expr = target.expr.cast::<pg_sys::Node>();
    // SAFETY: by the caller's promise.
    let (of, typmod) = unsafe { (raw::exprType(expr), raw::exprTypmod(expr)) };
    TextColumn {
        name: name.to_owned(),
        of,
        typmod,
    }
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
