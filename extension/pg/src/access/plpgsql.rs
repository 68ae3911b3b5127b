//! Bodies of PL/pgSQL functions, as PostgreSQL's own compiler gives them.
//!
//! This file compiles a function as its first call would. Its expressions are analysed with
//! PL/pgSQL's own names of variables. A variable that is never assigned is its argument or its
//! default; of others nothing is known. All statements count, even those that an execution does not
//! reach.
use std::collections::HashMap;
use std::ffi::{c_void, CStr};
use std::mem::size_of;
use std::ptr::{null_mut, NonNull};
use std::rc::Rc;

use pgrx::pg_sys;
use pgrx::pg_sys::PLpgSQL_datum_type::*;
use pgrx::pg_sys::PLpgSQL_stmt_type::*;

use crate::access::functions::{analysed, Call, ParserSetup};
use crate::access::{Known, Parameters, Place, Reader};
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::lists::elements;
use crate::base::major_plpgsql;

pub mod kept;
pub(crate) mod records;
pub mod statements;
pub mod variables;

type Compile =
    unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo, bool) -> *mut pg_sys::PLpgSQL_function;

/// The language's library, which the first call of a function loads.
fn library_function(name: &CStr) -> NonNull<c_void> {
    let (library, name) = (c"$libdir/plpgsql".as_ptr(), name.as_ptr());
    // SAFETY: C strings; raises when library or function are missing.
    let found = unsafe { pg_sys::load_external_function(library, name, true, null_mut()) };
    match NonNull::new(found) {
        Some(found) => found.cast(),
        None => PgError::new(b"58P01", "plpgsql cannot be loaded").raise(),
    }
}

/// Statements may come to these.
#[derive(Default)]
struct Body {
    /// The line of the statement being read.
    line: i32,
    expressions: Vec<Step>,
    /// Lines of statements that end transactions.
    ends: Vec<i32>,
    /// The values that variables are assigned: once in one of these ways, or `None`.
    assigned: HashMap<i32, Option<Source>>,
    /// The origins of the rows that go to a variable.
    rows: HashMap<i32, Vec<Rows>>,
    /// It calls a procedure, which may assign any variable.
    calls: bool,
    /// Why it may do anything.
    open: Option<&'static str>,
}

/// The origin of rows that go to a record.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    Query(NonNull<pg_sys::PLpgSQL_expr>),
    /// The query of a bound cursor, by the variable's number.
    Cursor(i32),
    Any,
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Default(NonNull<pg_sys::PLpgSQL_expr>),
    Elements(NonNull<pg_sys::PLpgSQL_expr>),
}

/// An expression, and the record variable that its rows go to.
struct Step {
    expression: NonNull<pg_sys::PLpgSQL_expr>,
    into: Option<i32>,
    line: i32,
}

impl Reader {
    pub(super) unsafe fn plpgsql_body(&mut self, call: &Call, mut parameters: Parameters) {
        // SAFETY: the compiled function belongs to the language and stays while its use is counted;
        // its parts are what plpgsql.h says.
        unsafe {
            let function = compiled(call);
            let mut body = Body::default();
            body.block((*function.as_ptr()).action);
            body.variables(function.as_ref());
            if let Some(why) = body.open {
                return self.template.widen(format!("a function {why}"));
            }
            let state = State::new(function);
            parameters.values = vec![None; state.datums.len()];
            let count = function.as_ref().fn_nargs as usize;
            let arguments = function.as_ref().fn_argvarnos;
            for (variable, known) in arguments.iter().take(count).zip(&call.arguments) {
                let unchanged = !body.assigned.contains_key(variable);
                let value = parameters
                    .values
                    .get_mut(*variable as usize)
                    .filter(|_| unchanged);
                value.into_iter().for_each(|value| value.clone_from(known));
            }
            let mut sources: Vec<(i32, Source)> = body
                .assigned
                .iter()
                .filter_map(|(variable, source)| Some((*variable, (*source)?)))
                .collect();
            sources.sort_by_key(|(variable, _)| *variable);
            let mut place = Place {
                parameters: Rc::new(parameters),
                around: Vec::new(),
            };
            for (variable, source) in sources {
                let known = self.source(&state, variable, source, &place);
                if let (Some(known), Some(parameters)) = (known, Rc::get_mut(&mut place.parameters))
                {
                    parameters.values[variable as usize] = Some(known);
                }
            }
            for step in &body.expressions {
                for list in state.analyse(step.expression) {
                    for query in elements::<pg_sys::Query>(list) {
                        self.statement(query, &place);
                        if let Some(record) = step.into {
                            state.shape(record, query);
                        }
                    }
                }
            }
        }
    }

    /// The known facts about a variable that is assigned in one way only.
    unsafe fn source(
        &mut self,
        state: &State,
        variable: i32,
        source: Source,
        place: &Place,
    ) -> Option<Known> {
        // SAFETY: an expression is analysed to a SELECT of one column.
        unsafe {
            let (Source::Default(expression) | Source::Elements(expression)) = source;
            let lists = state.analyse(expression);
            let query = *elements::<pg_sys::Query>(*lists.first()?).first()?;
            let target = *elements::<pg_sys::TargetEntry>(query.as_ref().targetList).first()?;
            if !elements::<pg_sys::Node>(query.as_ref().rtable).is_empty() {
                return None;
            }
            let value = target.as_ref().expr.cast::<pg_sys::Node>();
            let datum = *state.datums.get(variable as usize)?;
            if (*datum).dtype != PLPGSQL_DTYPE_VAR {
                return None;
            }
            // Assigning to another type may change the value.
            let to = &*(*datum.cast::<pg_sys::PLpgSQL_var>()).datatype;
            let from = pg_sys::getBaseType(pg_sys::exprType(value));
            let given = match source {
                Source::Default(_) => from,
                Source::Elements(_) => pg_sys::get_element_type(from),
            };
            if pg_sys::getBaseType(to.typoid) != given || to.atttypmod != -1 {
                return None;
            }
            let level = self.level(place);
            match (self.known(value, &level)?, source) {
                (known @ Known::Operand(_), Source::Default(_)) => Some(known),
                (Known::Operand(array), Source::Elements(_)) => Some(Known::Element(array)),
                _ => None,
            }
        }
    }
}

/// The function as its first call would compile it.
unsafe fn compiled(call: &Call) -> NonNull<pg_sys::PLpgSQL_function> {
    // SAFETY: the node is the calling expression.
    unsafe {
        let node = call.node.as_ptr();
        let function =
            compiled_for(call.function, node, call.collation, Compiled::ForCalls).or_raise();
        kept::compiled(function);
        function
    }
}

/// The function as PostgreSQL compiles it to check it when it is made; a call may find that.
pub(crate) fn validated(function: pg_sys::Oid) -> Option<NonNull<pg_sys::PLpgSQL_function>> {
    let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
    // SAFETY: the tuple is a row of pg_proc and is read before it is released. A function is
    // compiled to be checked without an expression that calls it.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(function));
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let (language, result) = (form.prolang, form.prorettype);
        pg_sys::ReleaseSysCache(tuple);
        // One of a trigger is known by the trigger when it is called.
        let of_trigger = [pg_sys::TRIGGEROID, pg_sys::EVENT_TRIGGEROID].contains(&result);
        if of_trigger || language != pg_sys::get_language_oid(c"plpgsql".as_ptr(), true) {
            return None;
        }
        Some(compiled_for(function, null_mut(), pg_sys::InvalidOid, Compiled::ToLookAt).or_raise())
    }
}

/// The use of a function's compiled form.
#[derive(Clone, Copy, PartialEq)]
enum Compiled {
    /// It stays compiled, and calls find it.
    ForCalls,
    /// The check of its text when it is made does the same: arguments of any type get one.
    ToLookAt,
}

/// # Safety
/// `node` must be an expression that calls the function; null when its arguments say their types
/// themselves, or when the function is to be checked.
unsafe fn compiled_for(
    function: pg_sys::Oid,
    node: *mut pg_sys::Node,
    collation: pg_sys::Oid,
    wanted: Compiled,
) -> Result<NonNull<pg_sys::PLpgSQL_function>, PgError> {
    // SAFETY: the compiler looks at the function's oid, its collation and the calling expression,
    // and keeps the result in memory of its own; the call's description lives in the current memory
    // context.
    unsafe {
        let info = pg_sys::palloc0(size_of::<pg_sys::FmgrInfo>()).cast::<pg_sys::FmgrInfo>();
        (*info).fn_oid = function;
        (*info).fn_mcxt = pg_sys::CurrentMemoryContext;
        (*info).fn_expr = node;
        let size = size_of::<pg_sys::FunctionCallInfoBaseData>();
        let description = pg_sys::palloc0(size).cast::<pg_sys::FunctionCallInfoBaseData>();
        (*description).flinfo = info;
        (*description).fncollation = collation;
        let compile: Compile = std::mem::transmute(library_function(c"plpgsql_compile").as_ptr());
        let function = catch_c(|| compile(description, wanted == Compiled::ToLookAt))?;
        NonNull::new(function).ok_or_else(|| PgError::new(b"XX000", "plpgsql compiled nothing"))
    }
}

/// Lets the parser see the types of a function's variables, as running it would.
struct State {
    function: NonNull<pg_sys::PLpgSQL_function>,
    /// Records are copies: what is put into them is of this analysis.
    datums: Vec<*mut pg_sys::PLpgSQL_datum>,
    before: *mut pg_sys::PLpgSQL_execstate,
    setup: ParserSetup,
}

impl State {
    unsafe fn new(function: NonNull<pg_sys::PLpgSQL_function>) -> Box<State> {
        // SAFETY: the function has so many variables; a record is copied as PL/pgSQL copies it for
        // each call.
        unsafe {
            let f = function.as_ptr();
            let datums = std::slice::from_raw_parts((*f).datums, (*f).ndatums as usize).iter();
            let datums = datums.map(|datum| {
                if (**datum).dtype != PLPGSQL_DTYPE_REC {
                    return *datum;
                }
                let copy =
                    pg_sys::palloc(size_of::<pg_sys::PLpgSQL_rec>()).cast::<pg_sys::PLpgSQL_rec>();
                std::ptr::copy_nonoverlapping(datum.cast(), copy, 1);
                copy.cast()
            });
            let mut state = Box::new(State {
                function,
                datums: datums.collect(),
                before: (*f).cur_estate,
                setup: std::mem::transmute::<*mut c_void, ParserSetup>(
                    library_function(c"plpgsql_parser_setup").as_ptr(),
                ),
            });
            let size = size_of::<pg_sys::PLpgSQL_execstate>();
            let running = pg_sys::palloc0(size).cast::<pg_sys::PLpgSQL_execstate>();
            (*running).func = f;
            (*running).ndatums = state.datums.len() as i32;
            (*running).datums = state.datums.as_mut_ptr();
            (*running).datum_context = pg_sys::CurrentMemoryContext;
            (*f).cur_estate = running;
            *major_plpgsql::uses_of(f) += 1;
            state
        }
    }

    unsafe fn analyse(&self, expression: NonNull<pg_sys::PLpgSQL_expr>) -> Vec<*mut pg_sys::List> {
        // SAFETY: an expression of the function, whose text is a C string; running it would set its
        // function as well.
        unsafe {
            let e = expression.as_ptr();
            (*e).func = self.function.as_ptr();
            analysed((*e).query, (*e).parseMode, self.setup, e.cast())
        }
    }

    /// Gives a record without a type the columns of the rows that go to it.
    unsafe fn shape(&self, record: i32, query: NonNull<pg_sys::Query>) {
        // SAFETY: a copy of `new`; the descriptor lives in the current memory context, as does the
        // record.
        unsafe {
            let Some(datum) = self.datums.get(record as usize) else {
                return;
            };
            let record = datum.cast::<pg_sys::PLpgSQL_rec>();
            let q = query.as_ref();
            let targets = if q.returningList.is_null() {
                q.targetList
            } else {
                q.returningList
            };
            if (*record).dtype == PLPGSQL_DTYPE_REC
                && (*record).rectypeid == pg_sys::RECORDOID
                && (*record).erh.is_null()
                && q.commandType != pg_sys::CmdType::CMD_UTILITY
            {
                let columns = pg_sys::ExecCleanTypeFromTL(targets);
                let context = pg_sys::CurrentMemoryContext;
                (*record).erh = pg_sys::make_expanded_record_from_tupdesc(columns, context);
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: `new` counted a use, so the function is still there.
        unsafe {
            let f = self.function.as_ptr();
            (*f).cur_estate = self.before;
            *major_plpgsql::uses_of(f) -= 1;
        }
    }
}

impl Body {
    fn expression(&mut self, expression: *mut pg_sys::PLpgSQL_expr) {
        self.record_step(expression, None);
    }

    fn record_step(&mut self, expression: *mut pg_sys::PLpgSQL_expr, into: Option<i32>) {
        let line = self.line;
        let step = NonNull::new(expression).map(|expression| Step {
            expression,
            into,
            line,
        });
        self.expressions.extend(step);
        if let Some(expression) = NonNull::new(expression) {
            self.rows(into, Rows::Query(expression));
        }
    }

    /// Says where the rows come from that went to a record last.
    fn rows(&mut self, record: Option<i32>, from: Rows) {
        let rows = record.and_then(|record| self.rows.get_mut(&record));
        if let Some(last) = rows.and_then(|rows| rows.last_mut()) {
            *last = from;
        }
    }

    fn assign(&mut self, variable: i32, source: Option<Source>) {
        self.rows.entry(variable).or_default().push(Rows::Any);
        let known = self.assigned.entry(variable).or_insert(source);
        if *known != source {
            *known = None;
        }
    }

    /// Notes a target of rows; gives its number if it is a record.
    unsafe fn target(&mut self, target: *mut pg_sys::PLpgSQL_variable) -> Option<i32> {
        // SAFETY: null or a variable, of which the tag says which.
        unsafe {
            let variable = target.as_ref()?;
            self.assign(variable.dno, None);
            match variable.dtype {
                PLPGSQL_DTYPE_ROW => {
                    let row = &*target.cast::<pg_sys::PLpgSQL_row>();
                    for i in 0..row.nfields as usize {
                        self.assign(*row.varnos.add(i), None);
                    }
                    None
                }
                PLPGSQL_DTYPE_REC => Some(variable.dno),
                _ => None,
            }
        }
    }

    /// The statements that variables bring with them: defaults, and the queries of bound cursors
    /// with their arguments.
    unsafe fn variables(&mut self, function: &pg_sys::PLpgSQL_function) {
        // SAFETY: the function has so many variables.
        unsafe {
            for i in 0..function.ndatums as usize {
                let datum = *function.datums.add(i);
                if !matches!((*datum).dtype, PLPGSQL_DTYPE_VAR | PLPGSQL_DTYPE_REC) {
                    continue;
                }
                let variable = &*datum.cast::<pg_sys::PLpgSQL_variable>();
                self.line = variable.lineno;
                self.expression(variable.default_val);
                if (*datum).dtype != PLPGSQL_DTYPE_VAR {
                    continue;
                }
                let variable = &*datum.cast::<pg_sys::PLpgSQL_var>();
                self.expression(variable.cursor_explicit_expr);
                if !variable.cursor_explicit_expr.is_null() && variable.cursor_explicit_argrow >= 0
                {
                    self.target(
                        (*function
                            .datums
                            .add(variable.cursor_explicit_argrow as usize))
                        .cast(),
                    );
                }
                if let Some(default) = NonNull::new(variable.default_val) {
                    self.assign(variable.dno, Some(Source::Default(default)));
                }
            }
        }
    }

    unsafe fn expressions(&mut self, list: *mut pg_sys::List) {
        // SAFETY: a list of expressions.
        unsafe {
            for expression in elements::<pg_sys::PLpgSQL_expr>(list) {
                self.expression(expression.as_ptr());
            }
        }
    }

    unsafe fn block(&mut self, block: *mut pg_sys::PLpgSQL_stmt_block) {
        // SAFETY: null or a block; handlers have statements.
        unsafe {
            let Some(block) = block.as_ref() else {
                return;
            };
            self.statements(block.body);
            if let Some(handlers) = block.exceptions.as_ref() {
                self.assign(handlers.sqlstate_varno, None);
                self.assign(handlers.sqlerrm_varno, None);
                for handler in elements::<pg_sys::PLpgSQL_exception>(handlers.exc_list) {
                    self.statements(handler.as_ref().action);
                }
            }
        }
    }

    unsafe fn statements(&mut self, list: *mut pg_sys::List) {
        // SAFETY: a list of statements.
        unsafe {
            pg_sys::check_stack_depth();
            let around = self.line;
            for statement in elements::<pg_sys::PLpgSQL_stmt>(list) {
                self.line = statement.as_ref().lineno;
                self.statement(statement);
            }
            self.line = around;
        }
    }

    unsafe fn statement(&mut self, statement: NonNull<pg_sys::PLpgSQL_stmt>) {
        // SAFETY: the tag says which structure follows.
        unsafe {
            macro_rules! of {
                ($type:ident) => {
                    statement.cast::<pg_sys::$type>().as_ref()
                };
            }
            match statement.as_ref().cmd_type {
                PLPGSQL_STMT_BLOCK => self.block(statement.cast().as_ptr()),
                PLPGSQL_STMT_ASSIGN => {
                    let s = of!(PLpgSQL_stmt_assign);
                    self.assign(s.varno, None);
                    self.expression(s.expr);
                }
                PLPGSQL_STMT_IF => {
                    let s = of!(PLpgSQL_stmt_if);
                    self.expression(s.cond);
                    self.statements(s.then_body);
                    for arm in elements::<pg_sys::PLpgSQL_if_elsif>(s.elsif_list) {
                        self.line = arm.as_ref().lineno;
                        self.expression(arm.as_ref().cond);
                        self.statements(arm.as_ref().stmts);
                    }
                    self.statements(s.else_body);
                }
                PLPGSQL_STMT_CASE => {
                    let s = of!(PLpgSQL_stmt_case);
                    self.assign(s.t_varno, None);
                    self.expression(s.t_expr);
                    for arm in elements::<pg_sys::PLpgSQL_case_when>(s.case_when_list) {
                        self.line = arm.as_ref().lineno;
                        self.expression(arm.as_ref().expr);
                        self.statements(arm.as_ref().stmts);
                    }
                    self.statements(s.else_stmts);
                }
                PLPGSQL_STMT_LOOP => self.statements(of!(PLpgSQL_stmt_loop).body),
                PLPGSQL_STMT_WHILE => {
                    let s = of!(PLpgSQL_stmt_while);
                    self.expression(s.cond);
                    self.statements(s.body);
                }
                PLPGSQL_STMT_FORI => {
                    let s = of!(PLpgSQL_stmt_fori);
                    self.assign((*s.var).dno, None);
                    [s.lower, s.upper, s.step]
                        .into_iter()
                        .for_each(|e| self.expression(e));
                    self.statements(s.body);
                }
                PLPGSQL_STMT_FORS => {
                    let s = of!(PLpgSQL_stmt_fors);
                    let record = self.target(s.var);
                    self.record_step(s.query, record);
                    self.statements(s.body);
                }
                PLPGSQL_STMT_FOREACH_A => {
                    let s = of!(PLpgSQL_stmt_foreach_a);
                    let source = NonNull::new(s.expr).filter(|_| s.slice == 0);
                    self.assign(s.varno, source.map(Source::Elements));
                    self.expression(s.expr);
                    self.statements(s.body);
                }
                PLPGSQL_STMT_EXECSQL => {
                    let s = of!(PLpgSQL_stmt_execsql);
                    let record = self.target(s.target);
                    self.record_step(s.sqlstmt, record);
                }
                PLPGSQL_STMT_CALL => {
                    let s = of!(PLpgSQL_stmt_call);
                    self.expression(s.expr);
                    self.calls |= s.is_call;
                    // The target is made when the statement runs first.
                    self.open = self.open.or(s.is_call.then_some("calls a procedure"));
                }
                PLPGSQL_STMT_PERFORM => self.expression(of!(PLpgSQL_stmt_perform).expr),
                PLPGSQL_STMT_EXIT => self.expression(of!(PLpgSQL_stmt_exit).cond),
                PLPGSQL_STMT_RETURN => self.expression(of!(PLpgSQL_stmt_return).expr),
                PLPGSQL_STMT_RETURN_NEXT => self.expression(of!(PLpgSQL_stmt_return_next).expr),
                PLPGSQL_STMT_RETURN_QUERY => {
                    let s = of!(PLpgSQL_stmt_return_query);
                    self.expression(s.query);
                    self.executes(s.dynquery, s.params);
                }
                PLPGSQL_STMT_RAISE => {
                    let s = of!(PLpgSQL_stmt_raise);
                    self.expressions(s.params);
                    for option in elements::<pg_sys::PLpgSQL_raise_option>(s.options) {
                        self.expression(option.as_ref().expr);
                    }
                }
                PLPGSQL_STMT_ASSERT => {
                    let s = of!(PLpgSQL_stmt_assert);
                    self.expression(s.cond);
                    self.expression(s.message);
                }
                PLPGSQL_STMT_GETDIAG => {
                    for item in
                        elements::<pg_sys::PLpgSQL_diag_item>(of!(PLpgSQL_stmt_getdiag).diag_items)
                    {
                        self.assign(item.as_ref().target, None);
                    }
                }
                PLPGSQL_STMT_FORC => {
                    let s = of!(PLpgSQL_stmt_forc);
                    let record = self.target(s.var);
                    self.rows(record, Rows::Cursor(s.curvar));
                    self.assign(s.curvar, None);
                    self.expression(s.argquery);
                    self.statements(s.body);
                }
                PLPGSQL_STMT_OPEN => {
                    let s = of!(PLpgSQL_stmt_open);
                    self.assign(s.curvar, None);
                    self.expression(s.argquery);
                    self.expression(s.query);
                    self.executes(s.dynquery, s.params);
                }
                PLPGSQL_STMT_FETCH => {
                    let s = of!(PLpgSQL_stmt_fetch);
                    self.target(s.target);
                    self.expression(s.expr);
                }
                PLPGSQL_STMT_CLOSE => {}
                PLPGSQL_STMT_DYNEXECUTE => {
                    let s = of!(PLpgSQL_stmt_dynexecute);
                    self.target(s.target);
                    self.executes(s.query, s.params);
                }
                PLPGSQL_STMT_DYNFORS => {
                    let s = of!(PLpgSQL_stmt_dynfors);
                    self.target(s.var);
                    self.executes(s.query, s.params);
                    self.statements(s.body);
                }
                _ => {
                    self.open = Some("ends transactions");
                    self.ends.push(self.line);
                }
            }
        }
    }

    unsafe fn executes(&mut self, text: *mut pg_sys::PLpgSQL_expr, parameters: *mut pg_sys::List) {
        if !text.is_null() {
            self.open = Some("executes a text");
            self.expression(text);
            // SAFETY: a list of expressions.
            unsafe { self.expressions(parameters) };
        }
    }
}
