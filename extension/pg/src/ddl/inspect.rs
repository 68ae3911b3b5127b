//! Analyses statements without running them, for their author (`chainify.analyze`).
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use chainify_sched::template::Template;
use pgrx::pg_sys;

use crate::access::call::{called, called_by, Called};
use crate::access::template;
use crate::base::c_string::c_string;
use crate::base::error::{catch_c, PgError};
use crate::base::lists::elements;
use crate::base::own_search_path::own_path;
use crate::base::subtransaction::subtransaction;
use crate::describe::analysis::describe;
use crate::describe::call::describe_call;
use crate::describe::complete_query::complete;
use crate::describe::query_level::Level;
use crate::tree::parse::{check_allowed, own_text, raw};

c_functions! {
    fn pg_rewrite_query(query: *mut pg_sys::Query) -> *mut pg_sys::List;
}

/// One statement of a text.
pub struct Inspected {
    pub text: String,
    /// The answer, or the reason why it is no statement of a ledger transaction.
    pub found: Result<Found, PgError>,
}

/// The queries of a statement after rewriting.
pub struct Found {
    pub levels: Vec<Level>,
    /// Its access, if that was asked for.
    pub template: Option<Template>,
    /// The function that it only calls.
    pub called: Option<Called>,
}

/// Parses, analyses and rewrites every statement of `sql`, as the current role; nothing is
/// executed. Types of parameters are inferred. `access`: asks for what it may read and write, for
/// which functions are looked at as well. Errors: those of parsing and analysis.
pub fn inspect(sql: &str, access: bool) -> Result<Vec<Inspected>, PgError> {
    let text = c_string(sql)?;
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    let (types_at, count_at) = (&raw mut types, &raw mut count);
    // SAFETY: the parser's statements live in the current memory context; the analyser grows the
    // array of types as it needs.
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
                    let called = call_of(rewritten, call);
                    let template = access.then(|| template_or_everything(rewritten, parameters));
                    let mut levels: Vec<_> = queries
                        .into_iter()
                        .map(|q| {
                            complete(q.as_ptr().cast());
                            describe(q, text.as_ptr())
                        })
                        .collect();
                    if !call.is_null() && (*call).type_ == pg_sys::NodeTag::T_CallStmt {
                        levels.push(describe_call(call.cast(), text.as_ptr()));
                    }
                    Ok(Found {
                        levels,
                        template,
                        called,
                    })
                }
            };
            inspected.push(Inspected { text: own, found });
        }
        Ok(inspected)
    }
}

/// The same of a text that our own SQL made of the catalog: what is qualified in it, and what is
/// not, is so for our own path.
pub fn inspect_shown(sql: &str) -> Result<Vec<Inspected>, PgError> {
    own_path(|| inspect(sql, false))
}

/// The call that a statement consists of. A statement that cannot be shown as one is none.
///
/// # Safety
/// `rewritten` must be a list of analysed and rewritten queries; null for a utility statement,
/// which is `utility`.
unsafe fn call_of(rewritten: *mut pg_sys::List, utility: *mut pg_sys::Node) -> Option<Called> {
    let found = subtransaction(|| {
        // SAFETY: by the caller's promise.
        Ok(unsafe {
            match NonNull::new(utility) {
                Some(utility) => called_by(utility),
                None => called(&[rewritten]),
            }
        })
    });
    found.ok().flatten()
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

/// The query `SELECT expression FROM relation`, analysed and rewritten.
///
/// # Safety
/// Both must be as the parser left them; they are copied.
pub(crate) unsafe fn inspect_expression(
    expression: *mut pg_sys::Node,
    relation: *mut pg_sys::RangeVar,
) -> Result<Vec<Level>, PgError> {
    // SAFETY: nodes made here have the size and tag of their structures; the analyser scribbles on
    // copies alone.
    unsafe {
        let rewritten = catch_c(|| {
            let target = node::<pg_sys::ResTarget>(pg_sys::NodeTag::T_ResTarget);
            (*target).val = copyObjectImpl(expression.cast()).cast();
            let select = node::<pg_sys::SelectStmt>(pg_sys::NodeTag::T_SelectStmt);
            (*select).targetList = lappend(std::ptr::null_mut(), target.cast());
            (*select).fromClause = lappend(std::ptr::null_mut(), copyObjectImpl(relation.cast()));
            let raw = node::<pg_sys::RawStmt>(pg_sys::NodeTag::T_RawStmt);
            (*raw).stmt = select.cast();
            let (mut types, mut count) = (std::ptr::null_mut(), 0);
            let none = std::ptr::null_mut();
            let query = raw_analysis(raw, c"".as_ptr(), &raw mut types, &raw mut count, none);
            pg_rewrite_query(query)
        })?;
        let queries: Vec<NonNull<pg_sys::Query>> = elements(rewritten);
        let of = |q| describe(q, std::ptr::null());
        Ok(queries.into_iter().map(of).collect())
    }
}

use raw::parse_analyze_varparams as raw_analysis;

c_functions! {
    fn palloc0(size: usize) -> *mut c_void;
    fn lappend(list: *mut pg_sys::List, datum: *mut c_void) -> *mut pg_sys::List;
    fn copyObjectImpl(node: *const c_void) -> *mut c_void;
    fn parse_analyze_withcb(
        statement: *mut pg_sys::RawStmt,
        text: *const c_char,
        setup: pg_sys::ParserSetupHook,
        argument: *mut c_void,
        environment: *mut pg_sys::QueryEnvironment,
    ) -> *mut pg_sys::Query;
}
extern "C-unwind" {
    fn prepare_sql_fn_parse_info(
        procedure: pg_sys::HeapTuple,
        call: *mut pg_sys::Node,
        collation: pg_sys::Oid,
    ) -> *mut c_void;
    fn sql_fn_parser_setup(state: *mut pg_sys::ParseState, info: *mut c_void);
}

/// # Safety
/// `T` must be the structure of nodes tagged `tag`.
unsafe fn node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: zeroed memory of the structure's size; every node begins with its tag.
    unsafe {
        let node = palloc0(std::mem::size_of::<T>());
        (*node.cast::<pg_sys::Node>()).type_ = tag;
        node.cast()
    }
}

/// The statements of a function written in SQL as text, analysed with its parameters and rewritten,
/// or why one is no statement of a ledger transaction. Empty for a function that is not, or whose
/// parameters have no types yet.
pub fn inspect_sql_function(
    function: pg_sys::Oid,
    body: &str,
) -> Result<Vec<Result<Vec<Level>, PgError>>, PgError> {
    let text = c_string(body)?;
    // SAFETY: the catalog row is held until the parameters are read; statements and text live
    // through the analysis.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(function));
        if tuple.is_null() {
            return Ok(Vec::new());
        }
        let info =
            catch_c(|| prepare_sql_fn_parse_info(tuple, std::ptr::null_mut(), pg_sys::InvalidOid));
        pg_sys::ReleaseSysCache(tuple);
        let info = info?;
        let mut inspected = Vec::new();
        let list = catch_c(|| raw::raw_parser(text.as_ptr(), 0))?;
        for statement in elements::<pg_sys::RawStmt>(list) {
            if let Err(refused) = check_allowed(statement.as_ref().stmt) {
                inspected.push(Err(refused));
                continue;
            }
            let rewritten = catch_c(|| {
                let none = std::ptr::null_mut();
                let query = parse_analyze_withcb(
                    statement.as_ptr(),
                    text.as_ptr(),
                    Some(sql_fn_parser_setup),
                    info,
                    none,
                );
                if (*query).commandType == pg_sys::CmdType::CMD_UTILITY {
                    std::ptr::null_mut()
                } else {
                    pg_rewrite_query(query)
                }
            })?;
            let queries: Vec<NonNull<pg_sys::Query>> = elements(rewritten);
            let of = |q| describe(q, text.as_ptr());
            inspected.push(Ok(queries.into_iter().map(of).collect()));
        }
        Ok(inspected)
    }
}

/// The statements of a function whose body was parsed when it was made (BEGIN ATOMIC, RETURN),
/// rewritten; none for another.
pub fn inspect_parsed_function(function: pg_sys::Oid) -> Result<Vec<Vec<Level>>, PgError> {
    let attribute = pg_sys::Anum_pg_proc_prosqlbody as pg_sys::AttrNumber;
    // SAFETY: the catalog row is held until its text is read; that holds a query, or a list with
    // one list of queries, as PostgreSQL wrote it.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(function));
        if tuple.is_null() {
            return Ok(Vec::new());
        }
        let mut null = false;
        let body = pg_sys::SysCacheGetAttr(cache, tuple, attribute, &raw mut null);
        let text = (!null).then(|| catch_c(|| text_of(body)));
        pg_sys::ReleaseSysCache(tuple);
        let Some(text) = text.transpose()? else {
            return Ok(Vec::new());
        };
        let node = catch_c(|| stringToNode(text).cast::<pg_sys::Node>())?;
        let queries = match (*node).type_ {
            pg_sys::NodeTag::T_List => elements::<pg_sys::List>(node.cast())
                .into_iter()
                .flat_map(|list| elements::<pg_sys::Query>(list.as_ptr()))
                .collect(),
            _ => Vec::from_iter(NonNull::new(node.cast::<pg_sys::Query>())),
        };
        let mut inspected = Vec::new();
        for query in queries {
            let rewritten = catch_c(|| {
                AcquireRewriteLocks(query.as_ptr(), true, false);
                pg_rewrite_query(query.as_ptr())
            })?;
            let rewritten: Vec<NonNull<pg_sys::Query>> = elements(rewritten);
            let levels = rewritten.into_iter().map(|q| {
                complete(q.as_ptr().cast());
                describe(q, std::ptr::null())
            });
            inspected.push(levels.collect());
        }
        Ok(inspected)
    }
}

c_functions! {
    fn pg_detoast_datum(datum: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    fn text_to_cstring(text: *const pg_sys::text) -> *mut c_char;
    fn stringToNode(text: *const c_char) -> *mut c_void;
    fn AcquireRewriteLocks(query: *mut pg_sys::Query, execute: bool, pushed_down: bool);
}

/// # Safety
/// `text` must be a datum of type text. To be called where an ERROR of C may pass.
unsafe fn text_of(text: pg_sys::Datum) -> *mut c_char {
    // SAFETY: by the caller's promise; text_to_cstring detoasts what it is given.
    unsafe { text_to_cstring(pg_detoast_datum(text.cast_mut_ptr())) }
}
