//! Plans of a client's statements, which run as the client and under its search_path.
use std::ffi::{c_char, CStr};
use std::ptr::{null_mut, NonNull};

use chainify_sched::value::Value;
use pgrx::pg_sys;

use crate::access::value_of;
use crate::base::error::{catch_c, PgError};
use crate::base::lists::nodes;
use crate::base::outermost;
use crate::base::spi::Plan;
use crate::run::direct_call;
use crate::run::executor_cache;
use crate::tree::constants;

/// A plan kept until dropped.
pub(crate) struct ClientPlan {
    plan: Plan,
    /// When it may be run by [`direct_call`].
    call: Option<NonNull<pg_sys::CachedPlanSource>>,
    /// How many statements CALL a procedure that returns a row: PostgreSQL does not count those.
    returned_by_calls: u64,
}

impl ClientPlan {
    /// Analyses and keeps `sql` (one or more statements) with parameters of these types.
    pub(crate) fn prepare(sql: &str, types: &[pg_sys::Oid]) -> Result<Self, PgError> {
        let plan = Plan::prepare(sql, types)?;
        let sources = plan.sources()?;
        // SAFETY: the sources are the plan's, with their analysed queries.
        unsafe {
            let call = match sources[..] {
                [source] => {
                    catch_c(|| direct_call::is_call(source.as_ref().query_list))?.then_some(source)
                }
                _ => None,
            };
            let returned = sources
                .iter()
                .map(|s| returned_by_calls(s.as_ref().query_list));
            Ok(ClientPlan {
                returned_by_calls: returned.sum(),
                plan,
                call,
            })
        }
    }

    /// The analysed and rewritten queries of its statements: lists that live as long as the plan,
    /// or until it is made anew.
    pub(crate) fn queries(&self) -> Result<Vec<*mut pg_sys::List>, PgError> {
        let sources = self.plan.sources()?;
        // SAFETY: the sources are kept by the plan.
        let of = |source: &NonNull<pg_sys::CachedPlanSource>| unsafe { source.as_ref().query_list };
        Ok(sources.iter().map(of).collect())
    }

    /// The texts that its statements were parsed from, in the order of [`ClientPlan::queries`].
    pub(crate) fn texts(&self) -> Result<Vec<*const c_char>, PgError> {
        let sources = self.plan.sources()?;
        // SAFETY: the sources are kept by the plan, with their texts.
        let of =
            |source: &NonNull<pg_sys::CachedPlanSource>| unsafe { source.as_ref().query_string };
        Ok(sources.iter().map(of).collect())
    }

    /// The names of the columns that its queries return.
    pub(crate) fn columns(&self) -> Result<Vec<String>, PgError> {
        let sources = self.plan.sources()?;
        // SAFETY: the sources are kept by the plan; the descriptor of one that returns nothing is
        // null.
        let of = |source: &NonNull<pg_sys::CachedPlanSource>| unsafe {
            let descriptor = source.as_ref().resultDesc;
            let columns = descriptor.as_ref().map_or(0, |d| d.natts);
            let name = |column| CStr::from_ptr(pg_sys::SPI_fname(descriptor, column));
            let names = (1..=columns).map(name);
            names.map(|n| n.to_string_lossy().into_owned()).collect()
        };
        let names: Vec<Vec<String>> = sources.iter().map(of).collect();
        Ok(names.concat())
    }

    /// Bytes of memory that it takes, with the plan that PostgreSQL keeps for its executions once
    /// there was one.
    pub(crate) fn bytes(&self) -> Result<usize, PgError> {
        let sources = self.plan.sources()?;
        // SAFETY: the contexts are those of the sources, which are kept by the plan, and of plans
        // that they keep.
        let of = |source: &NonNull<pg_sys::CachedPlanSource>| unsafe {
            let source = source.as_ref();
            let plan = source.gplan.as_ref();
            pg_sys::MemoryContextMemAllocated(source.context, true)
                + plan.map_or(0, |p| pg_sys::MemoryContextMemAllocated(p.context, true))
        };
        Ok(sources.iter().map(of).sum())
    }

    /// Adds the numbers, from 1, of parameters that a cast may refuse where a literal is refused at
    /// once.
    pub(crate) fn cast_parameters(&self, found: &mut Vec<i32>) -> Result<(), PgError> {
        for queries in self.queries()? {
            // SAFETY: analysed queries that are kept by the plan.
            unsafe { catch_c(|| constants::cast_parameters(queries, found))? }
        }
        Ok(())
    }

    /// Runs it, discards result rows, returns how many rows were returned or changed.
    pub(crate) fn run(&self, values: &[Option<pg_sys::Datum>]) -> Result<u64, PgError> {
        if let Some(source) = self.call {
            let types = self.plan.types();
            assert_eq!(values.len(), types.len(), "one value per parameter");
            outermost::outermost();
            // SAFETY: the source belongs to the plan, which is kept by self; the values are of its
            // types.
            let ran = unsafe { catch_c(|| direct_call::run(source.as_ptr(), types, values))? };
            if ran {
                return Ok(1);
            }
        }
        // SAFETY: the receiver lives as long as the session; the parameters live until the call
        // returns.
        let rows = unsafe { self.plan.execute(values, executor_cache::discarding(), 0)? };
        Ok(rows + self.returned_by_calls)
    }

    /// Runs a query and gives its rows, `max` at most.
    pub(crate) fn values(
        &self,
        values: &[Option<pg_sys::Datum>],
        max: u64,
    ) -> Result<Vec<Vec<Value>>, PgError> {
        // SAFETY: the caller's values are of the plan's types; the table of tuples is there until
        // it is freed.
        unsafe {
            self.plan.execute(values, null_mut(), max)?;
            let Some(table) = NonNull::new(pg_sys::SPI_tuptable) else {
                return Ok(Vec::new());
            };
            let descriptor = table.as_ref().tupdesc;
            let row = |i: usize| {
                let tuple = *table.as_ref().vals.add(i);
                let value = |column: i32| {
                    let mut null = false;
                    let datum = pg_sys::SPI_getbinval(tuple, descriptor, column, &mut null);
                    let oid = pg_sys::SPI_gettypeid(descriptor, column);
                    value_of((!null).then_some(datum), oid)
                };
                (1..=(*descriptor).natts).map(value).collect()
            };
            let rows = (0..table.as_ref().numvals as usize).map(row).collect();
            pg_sys::SPI_freetuptable(table.as_ptr());
            Ok(rows)
        }
    }
}

/// How many of the queries are calls of procedures that return a row.
///
/// # Safety
/// `queries` must be null or a list of queries.
unsafe fn returned_by_calls(queries: *mut pg_sys::List) -> u64 {
    // SAFETY: by the caller's promise; the tag says which structure follows.
    let returns = |query: NonNull<pg_sys::Node>| unsafe {
        let utility = query.cast::<pg_sys::Query>().as_ref().utilityStmt;
        !utility.is_null()
            && (*utility).type_ == pg_sys::NodeTag::T_CallStmt
            && !(*utility.cast::<pg_sys::CallStmt>()).outargs.is_null()
    };
    // SAFETY: by the caller's promise.
    unsafe { nodes(queries) }.filter(|q| returns(*q)).count() as u64
}
