//! Functions called: what they may read and write, from their bodies where these are SQL or
//! PL/pgSQL.
use std::ptr::NonNull;
use std::rc::Rc;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::access::calls::built_in;
use crate::access::uses::Use;
use crate::access::{Known, Parameters, Place, Reader};
use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::base::role::Role;
use crate::describe::complete_query::draws;
use crate::describe::function_facts::{function, is_sql};
use crate::tree::node::{functions, NodeAt};
use crate::tree::parse::raw::raw_parser;

/// Functions inside functions.
const DEPTH_MAX: usize = 16;

/// Built-in functions that read tables, by the beginnings of their names; those that are volatile
/// are not let through anyway.
const READERS: [&str; 3] = ["table_to_", "schema_to_", "database_to_"];
/// Volatile functions that touch no table.
const DRAWING: [&str; 3] = ["random", "gen_random_uuid", "chainify.uuid"];

c_functions! {
    fn pg_analyze_and_rewrite_withcb(
        statement: *mut pg_sys::RawStmt,
        text: *const std::ffi::c_char,
        setup: pg_sys::ParserSetupHook,
        argument: *mut std::ffi::c_void,
        environment: *mut pg_sys::QueryEnvironment,
    ) -> *mut pg_sys::List;
    fn pg_rewrite_query(query: *mut pg_sys::Query) -> *mut pg_sys::List;
}
extern "C-unwind" {
    fn prepare_sql_fn_parse_info(
        procedure: pg_sys::HeapTuple,
        call: *mut pg_sys::Node,
        collation: pg_sys::Oid,
    ) -> *mut std::ffi::c_void;
    fn sql_fn_parser_setup(state: *mut pg_sys::ParseState, info: *mut std::ffi::c_void);
}

/// Prepares the parser for names that are no columns.
pub(super) type ParserSetup =
    unsafe extern "C-unwind" fn(*mut pg_sys::ParseState, *mut std::ffi::c_void);

/// A text's statements, analysed with the names that `setup` knows, and rewritten: lists of
/// queries.
///
/// # Safety
/// `text` must be a C string, `argument` what `setup` wants.
pub(super) unsafe fn analysed(
    text: *const std::ffi::c_char,
    mode: pg_sys::RawParseMode::Type,
    setup: ParserSetup,
    argument: *mut std::ffi::c_void,
) -> Vec<*mut pg_sys::List> {
    // SAFETY: by the caller's promise; trees live in the current memory context.
    unsafe {
        let statements = catch_c(|| raw_parser(text, mode)).or_raise();
        let analyse = |statement: NonNull<pg_sys::RawStmt>| {
            let none = std::ptr::null_mut();
            catch_c(|| {
                pg_analyze_and_rewrite_withcb(statement.as_ptr(), text, Some(setup), argument, none)
            })
            .or_raise()
        };
        elements(statements).into_iter().map(analyse).collect()
    }
}

/// The sequence that a call draws from, or tells what was drawn from, where the text of the
/// statement names it.
///
/// # Safety
/// `node` must be an expression.
unsafe fn sequence_drawn(function: pg_sys::Oid, node: NodeAt) -> Option<pg_sys::Oid> {
    // SAFETY: by the caller's promise; arguments are expressions.
    unsafe {
        if !draws(function) || node.as_ref().type_ != T_FuncExpr {
            return None;
        }
        let call = node.cast::<pg_sys::FuncExpr>();
        let argument = *elements::<pg_sys::Node>(call.as_ref().args).first()?;
        if argument.as_ref().type_ != T_Const {
            return None;
        }
        let name = argument.cast::<pg_sys::Const>();
        let name = name.as_ref();
        (!name.constisnull).then(|| pg_sys::Oid::from(name.constvalue.value() as u32))
    }
}

/// A call.
pub(super) struct Call {
    pub function: pg_sys::Oid,
    /// The expression.
    pub node: NodeAt,
    pub collation: pg_sys::Oid,
    /// The known facts about the arguments.
    pub arguments: Vec<Option<Known>>,
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
                match sequence_drawn(oid, node) {
                    Some(sequence) => self.uses.push(Use::Sequence(sequence)),
                    None => self.call(oid, node, place),
                }
            }
        }
    }

    unsafe fn call(&mut self, oid: pg_sys::Oid, node: NodeAt, place: &Place) {
        let facts = function(oid);
        let harmless = if built_in(oid) {
            let reader = READERS
                .iter()
                .any(|beginning| facts.name.starts_with(beginning));
            (!facts.volatile && !reader) || DRAWING.contains(&facts.name.as_str())
        } else {
            facts.immutable && !facts.aggregate || DRAWING.contains(&facts.name.as_str())
        };
        if harmless || self.full() {
            return;
        }
        let readable =
            !facts.aggregate && facts.language == crate::describe::query_level::Language::Checked;
        if self.one_query && !built_in(oid) && readable {
            return;
        }
        if built_in(oid) || !readable {
            self.template.widen(format!("it calls {}()", facts.name));
        } else if place.parameters.functions.contains(&oid) {
            self.template
                .widen(format!("{}() calls itself", facts.name));
        } else if place.parameters.functions.len() == DEPTH_MAX {
            self.template.widen("functions call functions too deeply");
        } else {
            // SAFETY: an expression that calls the function.
            unsafe { self.body(oid, node, &facts.name, facts.volatile, place) }
        }
    }

    /// Reads the body of a function with what is known of the arguments.
    unsafe fn body(
        &mut self,
        oid: pg_sys::Oid,
        node: NodeAt,
        name: &str,
        volatile: bool,
        place: &Place,
    ) {
        // SAFETY: the row of pg_proc is read before it is released; an error on the way releases
        // it.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
            let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
            if tuple.is_null() {
                return self.template.widen(format!("{name}() does not exist"));
            }
            let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
            let mut call = Call {
                function: oid,
                node,
                collation: pg_sys::exprInputCollation(node.as_ptr()),
                arguments: Vec::new(),
            };
            if node.as_ref().type_ == T_FuncExpr {
                let expression = node.cast::<pg_sys::FuncExpr>().as_ref();
                let arguments = pg_sys::expand_function_arguments(
                    expression.args,
                    false,
                    expression.funcresulttype,
                    tuple,
                );
                for argument in elements::<pg_sys::Node>(arguments) {
                    let known = self.known(argument.as_ptr(), place);
                    // It may change rows that another condition excludes.
                    call.arguments
                        .push(known.filter(|k| !(volatile && matches!(k, Known::Column(..)))));
                }
            }
            let mut settings = true;
            pg_sys::SysCacheGetAttr(
                cache,
                tuple,
                pg_sys::Anum_pg_proc_proconfig as i16,
                &mut settings,
            );
            let mut parameters = Parameters {
                values: Vec::new(),
                functions: place.parameters.functions.clone(),
            };
            parameters.functions.push(oid);
            if !settings {
                self.template
                    .widen(format!("{name}() has settings of its own"));
            } else if form.prosecdef {
                let owner = Role::of(form.proowner);
                owner.run(|| self.in_language(tuple, &call, parameters));
            } else {
                self.in_language(tuple, &call, parameters);
            }
            pg_sys::ReleaseSysCache(tuple);
        }
    }

    unsafe fn in_language(
        &mut self,
        tuple: pg_sys::HeapTuple,
        call: &Call,
        parameters: Parameters,
    ) {
        // SAFETY: the tuple is the function's row of pg_proc.
        unsafe {
            if is_sql(call.function) {
                self.sql_body(tuple, call, parameters);
            } else {
                self.plpgsql_body(call, parameters);
            }
        }
    }

    unsafe fn sql_body(
        &mut self,
        tuple: pg_sys::HeapTuple,
        call: &Call,
        mut parameters: Parameters,
    ) {
        parameters.values.clone_from(&call.arguments);
        let place = Place {
            parameters: Rc::new(parameters),
            around: Vec::new(),
        };
        // SAFETY: the body is a list of queries or lists of such, or a text; either is read into
        // the current memory context.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
            let mut without = true;
            let text = |number: u32, without: &mut bool| {
                let datum = pg_sys::SysCacheGetAttr(cache, tuple, number as i16, without);
                (!*without).then(|| pg_sys::text_to_cstring(datum.cast_mut_ptr()))
            };
            let lists = if let Some(body) = text(pg_sys::Anum_pg_proc_prosqlbody, &mut without) {
                let mut queries = Vec::new();
                stored_queries(pg_sys::stringToNode(body).cast(), &mut queries);
                let rewrite = |query: NonNull<pg_sys::Query>| {
                    pg_sys::AcquireRewriteLocks(query.as_ptr(), true, false);
                    catch_c(|| pg_rewrite_query(query.as_ptr())).or_raise()
                };
                queries.into_iter().map(rewrite).collect()
            } else if let Some(body) = text(pg_sys::Anum_pg_proc_prosrc, &mut without) {
                let (node, collation) = (call.node.as_ptr(), call.collation);
                let info = catch_c(|| prepare_sql_fn_parse_info(tuple, node, collation)).or_raise();
                let mode = pg_sys::RawParseMode::RAW_PARSE_DEFAULT;
                analysed(body, mode, sql_fn_parser_setup, info)
            } else {
                Vec::new()
            };
            for list in lists {
                for query in elements::<pg_sys::Query>(list) {
                    self.statement(query, &place);
                }
            }
        }
    }
}

/// # Safety
/// `node` must be null, a query, or a list of such.
unsafe fn stored_queries(node: *mut pg_sys::Node, found: &mut Vec<NonNull<pg_sys::Query>>) {
    let Some(node) = NonNull::new(node) else {
        return;
    };
    // SAFETY: by the caller's promise.
    unsafe {
        if node.as_ref().type_ == T_Query {
            found.push(node.cast());
            return;
        }
        for part in elements::<pg_sys::Node>(node.as_ptr().cast()) {
            stored_queries(part.as_ptr(), found);
        }
    }
}
