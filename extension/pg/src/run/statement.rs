//! A client's SQL: taken apart, analysed and planned once, run with parameters.
use std::cell::OnceCell;
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

use chainify_rules::catalog::stays_written;
use chainify_sched::cost::Cost;
use chainify_sched::template::Template;
use chainify_sched::text::Plain;
use chainify_sched::value::Value;
use chainify_sqltext::has_word;
use pgrx::pg_sys;

use crate::access::call::Called;
use crate::base::c_string::c_string;
use crate::base::error::{attempt, catch_c, PgError};
use crate::base::lists::elements;
use crate::base::major;
use crate::base::memory::Context;
use crate::describe::analysis::describe;
use crate::describe::call::describe_call;
use crate::describe::complete_query::complete;
use crate::describe::frozen_time::holds_time;
use crate::describe::query_level::Level;
use crate::run::client_plan::ClientPlan;
use crate::tree::parse::{self, check_allowed, own_text, parse};

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn OidInputFunctionCall(
            function: pg_sys::Oid,
            text: *mut c_char,
            io_param: pg_sys::Oid,
            typmod: i32,
        ) -> pg_sys::Datum;
    }
}

/// Statements of one transaction with their parameters' types.
pub struct Prepared {
    plans: Vec<ClientPlan>,
    parameters: Vec<ParameterType>,
    analysed: OnceCell<Analysed>,
    /// The time that running them takes.
    pub cost: Cost,
}

/// The access of statements.
struct Analysed {
    template: Template,
    /// Which parameters' values decide about it.
    needed: Vec<bool>,
}

struct ParameterType {
    oid: pg_sys::Oid,
    typmod: i32,
    input: pg_sys::Oid,
    io_param: pg_sys::Oid,
    /// Only functions of PostgreSQL read it.
    own: bool,
    /// The client named it, or a literal is of it whatever stands around it.
    declared: bool,
    /// How to read its plain spellings without PostgreSQL.
    plain: Option<Plain>,
    /// A value may name a time by the clock.
    holds_time: bool,
}

impl Prepared {
    /// Prepares every statement of `sql`. `types` are names as format_type spells them; an empty
    /// one is inferred, as for a driver that leaves the type open. Statements a ledger transaction
    /// may not contain give CH004.
    pub fn new(sql: &str, types: &[&str]) -> Result<Prepared, PgError> {
        let declared = types.iter().map(|name| declared_type(name));
        Self::of_types(sql, &declared.collect::<Result<Vec<_>, _>>()?)
    }

    /// The same with types by number.
    pub fn with_types(sql: &str, types: &[pg_sys::Oid]) -> Result<Prepared, PgError> {
        let types: Vec<_> = types.iter().map(|oid| (*oid, -1)).collect();
        Self::of_types(sql, &types)
    }

    fn of_types(sql: &str, declared: &[(pg_sys::Oid, i32)]) -> Result<Prepared, PgError> {
        let text = c_string(sql)?;
        let statements = parse(sql)?;
        if statements.is_empty() {
            return Err(PgError::new(b"42601", "transaction contains no statement"));
        }
        let mut oids: Vec<_> = declared.iter().map(|(oid, _)| *oid).collect();
        for statement in &statements {
            // SAFETY: from the parser.
            unsafe {
                check_allowed(statement.as_ref().stmt)?;
                infer(*statement, &text, &mut oids)?;
            }
        }
        if let Some(at) = oids.iter().position(|oid| *oid == pg_sys::InvalidOid) {
            return Err(PgError::new(
                b"42P18",
                format!("could not determine data type of parameter ${}", at + 1),
            ));
        }
        let plans = statements
            .iter()
            .map(|s| ClientPlan::prepare(own_text(sql, s), &oids))
            .collect::<Result<_, _>>()?;
        let parameters = oids
            .iter()
            .zip(declared)
            .map(|(oid, (named, typmod))| {
                ParameterType::new(*oid, *typmod, *named != pg_sys::InvalidOid)
            })
            .collect();
        Ok(Prepared {
            plans,
            parameters,
            analysed: OnceCell::new(),
            cost: Cost::default(),
        })
    }

    /// Reads values in text form, one per parameter, None for NULL.
    pub fn bind<'v>(
        &self,
        values: impl Iterator<Item = Option<&'v str>>,
    ) -> Result<Bound<'_>, PgError> {
        let values = values
            .zip(&self.parameters)
            .map(|(text, p)| p.datum(text))
            .collect::<Result<_, _>>()?;
        Ok(Bound {
            plans: &self.plans,
            values,
        })
    }

    /// Appends the values of one execution for [`Prepared::template`], one for each parameter.
    /// Plain spellings are read here, others by PostgreSQL's own input functions. A value of
    /// another type, such as a domain, whose conditions are a user's, is not known. Nor is one that
    /// nothing depends on, if its type is declared. Without a declared type it is read: a value
    /// that its type refuses runs as written, which is another statement.
    ///
    /// Cost: for a plain value some 10 ns, for others 100.
    pub fn access_values<'v>(
        &self,
        values: impl Iterator<Item = Option<&'v str>>,
        out: &mut Vec<Value>,
    ) -> Result<(), PgError> {
        let needed = &self.analysed()?.needed;
        for ((text, parameter), needed) in values.zip(&self.parameters).zip(needed) {
            out.push(match *needed || !parameter.declared {
                true => parameter.value(text)?,
                false => Value::Opaque,
            });
        }
        Ok(())
    }

    /// The same with values as the ledger has them.
    pub fn access_cells<'v>(
        &self,
        values: impl Iterator<Item = Option<&'v chainify_codec::Value>>,
        out: &mut Vec<Value>,
    ) -> Result<(), PgError> {
        let needed = &self.analysed()?.needed;
        for ((value, parameter), needed) in values.zip(&self.parameters).zip(needed) {
            out.push(match *needed {
                true => parameter.cell(value)?,
                false => Value::Opaque,
            });
        }
        Ok(())
    }

    /// Whether [`Prepared::template`] is known: then only reading a value may fail, and leaves
    /// nothing behind.
    pub fn is_analysed(&self) -> bool {
        self.analysed.get().is_some()
    }

    /// The access of its statements; kept. The first time costs as much as analysing
    /// them, and takes the locks that analysis takes on what functions and foreign keys add. Fails
    /// as analysing a function does; the caller then undoes the subtransaction it is in.
    pub fn template(&self) -> Result<&Template, PgError> {
        Ok(&self.analysed()?.template)
    }

    fn analysed(&self) -> Result<&Analysed, PgError> {
        if let Some(analysed) = self.analysed.get() {
            return Ok(analysed);
        }
        let mut queries = Vec::new();
        for plan in &self.plans {
            queries.extend(plan.queries()?);
        }
        let count = self.parameters.len();
        let memory = Context::child(c"chainify access");
        // SAFETY: the queries are kept by the plans, which are made from copies.
        let template = memory
            .enter(|| attempt(|| unsafe { crate::access::template(&queries, count) }))
            .inspect_err(|error| {
                let mut everything = Template::default();
                everything.widen(&error.message);
                self.keep(everything); // it would fail again
            })?;
        Ok(self.keep(template))
    }

    /// The function that it only calls.
    pub fn called(&self) -> Result<Option<Called>, PgError> {
        let mut queries = Vec::new();
        for plan in &self.plans {
            queries.extend(plan.queries()?);
        }
        // SAFETY: the queries are kept by the plans.
        attempt(|| unsafe { crate::access::call::called(&queries) })
    }

    /// Bytes of memory that its plans take.
    pub fn bytes(&self) -> usize {
        let of = |plan: &ClientPlan| plan.bytes().unwrap_or(0);
        self.plans.iter().map(of).sum()
    }

    /// Its queries in the words of the rules.
    pub fn levels(&self) -> Result<Vec<Level>, PgError> {
        let mut levels = Vec::new();
        for plan in &self.plans {
            for (list, text) in plan.queries()?.into_iter().zip(plan.texts()?) {
                // SAFETY: analysed queries that are kept by the plan; they are copied.
                levels.extend(attempt(|| unsafe { describe_list(list, text) })??);
            }
        }
        Ok(levels)
    }

    /// The names of the columns that it returns.
    pub fn columns(&self) -> Result<Vec<String>, PgError> {
        let columns: Result<Vec<_>, _> = self.plans.iter().map(ClientPlan::columns).collect();
        Ok(columns?.concat())
    }

    /// The names of its parameters' types.
    pub fn types(&self) -> Vec<String> {
        // SAFETY: types that exist; the name is a fresh C string.
        let name = |p: &ParameterType| unsafe {
            let name = pg_sys::format_type_be_qualified(p.oid);
            CStr::from_ptr(name).to_string_lossy().into_owned()
        };
        self.parameters.iter().map(name).collect()
    }

    fn keep(&self, template: Template) -> &Analysed {
        let needed = template.needs(self.parameters.len());
        self.analysed.get_or_init(|| Analysed { template, needed })
    }

    /// Whether a literal in the place of a parameter, counted from 0, may read the clock. Read as a
    /// parameter it does so in each block, and within a kept plan it did in one.
    pub fn holds_time(&self, parameter: usize) -> bool {
        self.parameters[parameter].holds_time
    }

    /// Which of the parameters from `first` on, counted from 0, mean something else than a literal
    /// in their place. They are intervals, whose literals are read with the qualifier of their
    /// column, names of sequences, and what a cast may refuse.
    pub fn unlike_literals(&self, first: usize) -> Result<Vec<usize>, PgError> {
        let mut cast = Vec::new();
        for plan in &self.plans {
            plan.cast_parameters(&mut cast)?;
        }
        let differs = |at: &usize| {
            let parameter = &self.parameters[*at];
            cast.contains(&(*at as i32 + 1))
                || parameter.is_interval()
                || stays_written(parameter.oid.to_u32())
        };
        Ok((first..self.parameters.len()).filter(differs).collect())
    }
}

/// Statements with their parameters' values, which live in the memory context they were read in.
pub struct Bound<'p> {
    plans: &'p [ClientPlan],
    values: Vec<Option<pg_sys::Datum>>,
}

impl Bound<'_> {
    /// Runs a query and gives its rows, `max` at most.
    pub fn values(self, max: u64) -> Result<Vec<Vec<Value>>, PgError> {
        match self.plans {
            [plan] => plan.values(&self.values, max),
            _ => Err(PgError::new(b"42601", "it is not one query")),
        }
    }

    /// Runs the statements in order. Returns the rows returned or changed by all together; rows
    /// returned are discarded.
    pub fn run(self) -> Result<u64, PgError> {
        self.plans
            .iter()
            .try_fold(0, |rows, plan| Ok(rows + plan.run(&self.values)?))
    }
}

/// # Safety
/// `list` must be one of analysed and rewritten queries, parsed from `text`.
unsafe fn describe_list(
    list: *mut pg_sys::List,
    text: *const c_char,
) -> Result<Vec<Level>, PgError> {
    // SAFETY: by the caller's promise; copies are this function's to complete. What raises is
    // caught by the caller.
    unsafe {
        let copy = catch_c(|| pg_sys::copyObjectImpl(list.cast()).cast::<pg_sys::List>())?;
        let queries: Vec<NonNull<pg_sys::Query>> = elements(copy);
        Ok(queries
            .into_iter()
            .filter_map(|q| level_of(q, text))
            .collect())
    }
}

/// A query completed and described; None for a command other than CALL.
///
/// # Safety
/// `query` must be an analysed and rewritten query that the caller may change, parsed from `text`.
unsafe fn level_of(query: NonNull<pg_sys::Query>, text: *const c_char) -> Option<Level> {
    // SAFETY: by the caller's promise.
    unsafe {
        let utility = query.as_ref().utilityStmt;
        if utility.is_null() {
            complete(query.as_ptr().cast());
            return Some(describe(query, text));
        }
        let is_call = (*utility).type_ == pg_sys::NodeTag::T_CallStmt;
        is_call.then(|| describe_call(utility.cast(), text))
    }
}

/// Fills in the types of parameters that were left open.
///
/// # Safety
/// `statement` must come from the parser, from this `text`.
unsafe fn infer(
    statement: NonNull<pg_sys::RawStmt>,
    text: &CStr,
    oids: &mut [pg_sys::Oid],
) -> Result<(), PgError> {
    if !oids.contains(&pg_sys::InvalidOid) {
        return Ok(());
    }
    // SAFETY: the analyser may move the array when it grows it, so it works on a palloc'd copy. It
    // scribbles on the parse tree, which only serves this call: the plan is made from the text.
    unsafe {
        let bytes = std::mem::size_of_val(oids);
        let mut types = pg_sys::palloc(bytes).cast::<pg_sys::Oid>();
        std::ptr::copy_nonoverlapping(oids.as_ptr(), types, oids.len());
        let mut count = oids.len() as i32;
        let (types_at, count_at) = (&raw mut types, &raw mut count);
        catch_c(|| {
            parse::raw::parse_analyze_varparams(
                statement.as_ptr(),
                text.as_ptr(),
                types_at,
                count_at,
                std::ptr::null_mut(),
            )
        })?;
        if count as usize > oids.len() {
            return Err(PgError::new(
                b"42P02",
                format!("there is no parameter ${count}"),
            ));
        }
        for (i, oid) in oids.iter_mut().enumerate() {
            *oid = *types.add(i);
        }
    }
    Ok(())
}

fn declared_type(name: &str) -> Result<(pg_sys::Oid, i32), PgError> {
    if name.is_empty() {
        return Ok((pg_sys::InvalidOid, -1));
    }
    let text = c_string(name)?;
    let (mut oid, mut typmod) = (pg_sys::InvalidOid, -1);
    let (oid_at, typmod_at) = (&raw mut oid, &raw mut typmod);
    // SAFETY: out parameters are valid for the call.
    unsafe { catch_c(|| major::parse_type(text.as_ptr(), oid_at, typmod_at))? };
    Ok((oid, typmod))
}

/// Types whose input functions read plain spellings as [`Plain`] does.
fn plain(oid: pg_sys::Oid) -> Option<Plain> {
    Some(match oid {
        pg_sys::INT2OID => Plain::Integer(2),
        pg_sys::INT4OID => Plain::Integer(4),
        pg_sys::INT8OID => Plain::Integer(8),
        pg_sys::NUMERICOID => Plain::Decimal,
        pg_sys::TEXTOID | pg_sys::VARCHAROID => Plain::Text,
        pg_sys::INT2ARRAYOID => Plain::Integers(2),
        pg_sys::INT4ARRAYOID => Plain::Integers(4),
        pg_sys::INT8ARRAYOID => Plain::Integers(8),
        _ => return None,
    })
}

impl ParameterType {
    fn new(oid: pg_sys::Oid, typmod: i32, declared: bool) -> Self {
        let (mut input, mut io_param) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        // SAFETY: out parameters are valid; raises for a type that does not exist.
        unsafe { pg_sys::getTypeInputInfo(oid, &mut input, &mut io_param) };
        // SAFETY: catalog look-ups; an array's elements are read by their own type's function.
        let own = unsafe {
            let element = pg_sys::get_element_type(oid);
            let read = if element == pg_sys::InvalidOid {
                oid
            } else {
                element
            };
            let (mut function, mut io_param) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            pg_sys::getTypeInputInfo(read, &mut function, &mut io_param);
            [pg_sys::TYPTYPE_BASE, pg_sys::TYPTYPE_ENUM]
                .contains(&(pg_sys::get_typtype(read) as u8))
                && function.to_u32() < pg_sys::FirstNormalObjectId
        };
        ParameterType {
            oid,
            typmod,
            input,
            io_param,
            own,
            declared,
            plain: plain(oid).filter(|_| own && typmod == -1),
            holds_time: holds_time(oid),
        }
    }

    fn value(&self, text: Option<&str>) -> Result<Value, PgError> {
        // The time is that of the block when the statement runs.
        let by_clock = |text| self.holds_time && has_word(text);
        if text.is_some_and(|text| !self.own || by_clock(text)) {
            return Ok(Value::Opaque);
        }
        if let Some(value) = self.plain.and_then(|plain| plain.read(text?)) {
            return Ok(value);
        }
        // SAFETY: the datum was read by the type's input function.
        self.datum(text)
            .map(|datum| unsafe { crate::access::value_of(datum, self.oid) })
    }

    fn cell(&self, value: Option<&chainify_codec::Value>) -> Result<Value, PgError> {
        match (value, self.plain) {
            (Some(chainify_codec::Value::Int(value)), Some(Plain::Integer(_))) => {
                Ok(Value::Integer(*value))
            }
            (value, _) => self.value(value.map(|value| value.to_text()).as_deref()),
        }
    }

    fn is_interval(&self) -> bool {
        // SAFETY: catalog look-ups of a type that exists.
        unsafe {
            let base = pg_sys::getBaseType(self.oid);
            [base, pg_sys::get_element_type(base)].contains(&pg_sys::INTERVALOID)
        }
    }

    fn datum(&self, text: Option<&str>) -> Result<Option<pg_sys::Datum>, PgError> {
        let text = text.map(c_string).transpose()?;
        let Some(text) = text else {
            return Ok(None);
        };
        debug_assert_ne!(self.oid, pg_sys::InvalidOid);
        // SAFETY: input functions do not keep or change their text; the datum lives in the current
        // memory context.
        let datum = unsafe {
            catch_c(|| {
                raw::OidInputFunctionCall(
                    self.input,
                    text.as_ptr().cast_mut(),
                    self.io_param,
                    self.typmod,
                )
            })?
        };
        Ok(Some(datum))
    }
}
