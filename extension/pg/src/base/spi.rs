//! SQL from inside: plans kept across calls, run through the server programming interface.
//!
//! Invariant X11: the ledger's own SQL runs under `pg_catalog, pg_temp` and nothing else, whatever
//! the caller, its role or a function has set. Its only ways are [`query`], [`execute`],
//! [`query_once`], [`crate::base::cursor::Cursor`] and [`crate::base::pieces`], which set that
//! path. The client's own texts are parsed as the client, under the client's path: names by
//! [`as_caller`], statements by `run/client_plan.rs`.
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr::NonNull;

use pgrx::{pg_sys, FromDatum, IntoDatum};

use crate::base::c_string::c_string;
use crate::base::cell::{reads_as, Cell};
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::lists::elements;
use crate::base::outermost;
use crate::base::own_search_path::own_path;

/// The interface PostgreSQL gives without pgrx's boundary, so that a client's own SQLSTATE is kept.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn SPI_prepare_cursor(
            sql: *const std::ffi::c_char,
            n: i32,
            types: *mut pg_sys::Oid,
            options: i32,
        ) -> pg_sys::SPIPlanPtr;
        pub(crate) fn SPI_plan_get_plan_sources(plan: pg_sys::SPIPlanPtr) -> *mut pg_sys::List;
        pub(crate) fn SPI_execute_plan_extended(
            plan: pg_sys::SPIPlanPtr,
            options: *const pg_sys::SPIExecuteOptions,
        ) -> i32;
        pub(crate) fn SPI_execute_snapshot(
            plan: pg_sys::SPIPlanPtr,
            values: *mut pg_sys::Datum,
            nulls: *const std::ffi::c_char,
            snapshot: pg_sys::Snapshot,
            crosscheck: pg_sys::Snapshot,
            read_only: bool,
            fire_triggers: bool,
            tcount: std::ffi::c_long,
        ) -> i32;
        pub(crate) fn HoldPinnedPortals();
        pub(crate) fn SPI_rollback();
        pub(crate) fn SPI_rollback_and_chain();
    }
}

/// Whether the procedure that runs may end the session's transaction now.
pub(crate) fn may_end_transaction() -> bool {
    // SAFETY: reads variables of this process.
    unsafe { pg_sys::SPI_inside_nonatomic_context() }
}

/// Has the cursors of loops keep their rows over the end of the transaction, as PostgreSQL does
/// before a procedure ends it. Raises when one of them cannot.
pub(crate) fn hold_cursors() {
    // SAFETY: a transaction is in progress.
    unsafe { catch_c(|| raw::HoldPinnedPortals()) }.or_raise();
}

/// ROLLBACK of the procedure that runs, which may end the transaction; a new one begins, with the
/// characteristics of the old one if `chain`.
pub(crate) fn roll_back(chain: bool) {
    // SAFETY: PostgreSQL checks that the procedure may.
    let rolled_back = unsafe {
        catch_c(|| match chain {
            true => raw::SPI_rollback_and_chain(),
            false => raw::SPI_rollback(),
        })
    };
    rolled_back.or_raise();
}

/// Runs `f` with SPI connected; everything in this module needs that. When `f` raises, abort
/// processing disconnects.
pub fn connected<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: balanced connect and finish in one memory context frame.
    unsafe {
        pg_sys::SPI_connect();
        let result = f();
        pg_sys::SPI_finish();
        result
    }
}

/// Shows that SPI is connected.
pub struct SpiClient<'c>(PhantomData<&'c ()>);

/// As [`connected`], for readers by [`crate::base::cursor::Cursor`].
pub fn connect<T>(f: impl FnOnce(&SpiClient<'_>) -> T) -> T {
    connected(|| f(&SpiClient(PhantomData)))
}

/// A plan kept until dropped.
pub(crate) struct Plan {
    plan: NonNull<pg_sys::_SPI_plan>,
    types: Vec<pg_sys::Oid>,
}

impl Plan {
    /// Analyses and keeps `sql` (one or more statements) with parameters of these types.
    pub(crate) fn prepare(sql: &str, types: &[pg_sys::Oid]) -> Result<Plan, PgError> {
        let text = c_string(sql)?;
        let mut types = types.to_vec();
        // The plan never depends on parameter values: a choice between plans would depend on how
        // often a node ran it.
        let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
        // SAFETY: text and types are valid for the call, which copies them.
        unsafe {
            let plan = catch_c(|| {
                raw::SPI_prepare_cursor(
                    text.as_ptr(),
                    types.len() as i32,
                    types.as_mut_ptr(),
                    options,
                )
            })?;
            let Some(plan) = NonNull::new(plan) else {
                return Err(PgError::new(b"0A000", "statement cannot be prepared"));
            };
            pg_sys::SPI_keepplan(plan.as_ptr());
            Ok(Plan { plan, types })
        }
    }

    /// The types of its parameters.
    pub(crate) fn types(&self) -> &[pg_sys::Oid] {
        &self.types
    }

    /// The sources that PostgreSQL keeps of its statements, in order; as long as self.
    pub(crate) fn sources(&self) -> Result<Vec<NonNull<pg_sys::CachedPlanSource>>, PgError> {
        // SAFETY: the plan is kept by self, and so are its sources.
        unsafe {
            let sources = catch_c(|| raw::SPI_plan_get_plan_sources(self.plan.as_ptr()))?;
            Ok(elements(sources))
        }
    }

    /// Runs it and returns how many rows were returned or changed; `tcount`: rows at most, 0 for
    /// all of them.
    ///
    /// # Safety
    /// `values` must be of the plan's types; `dest` null or a live receiver.
    pub(crate) unsafe fn execute(
        &self,
        values: &[Option<pg_sys::Datum>],
        dest: *mut pg_sys::DestReceiver,
        tcount: u64,
    ) -> Result<u64, PgError> {
        // SAFETY: the options are valid for the call; the plan is kept by self.
        unsafe {
            let options = pg_sys::SPIExecuteOptions {
                params: self.parameters(values),
                dest,
                tcount,
                ..Default::default()
            };
            let options = &raw const options;
            let plan = self.plan.as_ptr();
            outermost::outermost();
            let code = catch_c(|| raw::SPI_execute_plan_extended(plan, options))?;
            processed(code)
        }
    }

    /// Its parameters with these values; null for none.
    fn parameters(&self, values: &[Option<pg_sys::Datum>]) -> pg_sys::ParamListInfo {
        assert_eq!(values.len(), self.types.len(), "one value per parameter");
        if values.is_empty() {
            return std::ptr::null_mut();
        }
        // SAFETY: the list has room for as many parameters as asked for.
        unsafe {
            let list = pg_sys::makeParamList(values.len() as i32);
            for (i, value) in values.iter().enumerate() {
                let param = (*list).params.as_mut_ptr().add(i);
                (*param).value = value.unwrap_or(pg_sys::Datum::from(0));
                (*param).isnull = value.is_none();
                (*param).pflags = pg_sys::PARAM_FLAG_CONST as u16;
                (*param).ptype = self.types[i];
            }
            list
        }
    }

    /// The same, but its AFTER triggers are left to the end of the query around it.
    ///
    /// # Safety
    /// `values` must be of the plan's types; a query level of AFTER triggers must be open.
    pub(crate) unsafe fn execute_within(
        &self,
        values: &[Option<pg_sys::Datum>],
    ) -> Result<u64, PgError> {
        assert_eq!(values.len(), self.types.len(), "one value per parameter");
        let null = |value: &Option<pg_sys::Datum>| if value.is_some() { b' ' } else { b'n' } as i8;
        let nulls: Vec<std::ffi::c_char> = values.iter().map(null).collect();
        let value = |value: &Option<pg_sys::Datum>| value.unwrap_or(pg_sys::Datum::from(0));
        let mut values: Vec<_> = values.iter().map(value).collect();
        let (plan, newest) = (self.plan.as_ptr(), std::ptr::null_mut());
        outermost::outermost();
        // SAFETY: there is a value and a mark for each parameter; the plan is kept by self.
        unsafe {
            let code = catch_c(|| {
                let (values, nulls) = (values.as_mut_ptr(), nulls.as_ptr());
                raw::SPI_execute_snapshot(plan, values, nulls, newest, newest, false, false, 0)
            })?;
            processed(code)
        }
    }
}

/// The rows that the statement just run returned or changed.
fn processed(code: i32) -> Result<u64, PgError> {
    if code < 0 {
        return Err(PgError::new(
            b"0A000",
            format!("statement cannot run here (SPI code {code})"),
        ));
    }
    // SAFETY: a variable of this process.
    Ok(unsafe { pg_sys::SPI_processed })
}

impl Drop for Plan {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // a plan is small; a second ERROR would end the backend
        }
        // SAFETY: kept by `prepare` and freed once.
        unsafe {
            pg_sys::SPI_freeplan(self.plan.as_ptr());
        }
    }
}

thread_local! {
    /// Plans of our own statements, by their text; as many as the source has, and one for each
    /// table whose rows write sets name.
    static OWN: RefCell<HashMap<String, &'static Plan>> = RefCell::default();
}

/// A row of a result.
pub struct Row<'a> {
    tuple: pg_sys::HeapTuple,
    table: &'a pg_sys::SPITupleTable,
}

impl Row<'_> {
    /// Column from 1; None when NULL. Raises when the column is not of `T`'s type.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: i32) -> Option<T> {
        let mut null = false;
        // SAFETY: the tuple belongs to the table; the type is compared before the datum is read as
        // `T`.
        unsafe {
            let oid = pg_sys::SPI_gettypeid(self.table.tupdesc, column);
            if !reads_as(oid, T::type_oid()) {
                PgError::new(
                    b"XX000",
                    format!(
                        "column {column} has type {}, want {}",
                        oid.to_u32(),
                        T::type_oid().to_u32()
                    ),
                )
                .raise();
            }
            let datum = pg_sys::SPI_getbinval(self.tuple, self.table.tupdesc, column, &mut null);
            T::from_datum(datum, null)
        }
    }

    /// Whether a column is of `T`'s type.
    pub fn is<T: IntoDatum>(&self, column: i32) -> bool {
        // SAFETY: the descriptor is the table's.
        let oid = unsafe { pg_sys::SPI_gettypeid(self.table.tupdesc, column) };
        reads_as(oid, T::type_oid())
    }

    /// A column that is never NULL.
    pub fn must<T: FromDatum + IntoDatum>(&self, column: i32) -> T {
        self.get(column)
            .unwrap_or_else(|| PgError::new(b"XX000", format!("column {column} is null")).raise())
    }
}

/// Runs one of our own statements, keeping its plan for the session; `f` sees each result row.
/// Returns the rows returned or changed. Needs [`connected`].
pub fn query(sql: &str, args: &[Cell], mut f: impl FnMut(&Row)) -> u64 {
    rows(own_path(|| run(kept(sql, args), args)), &mut f)
}

/// The plan of one of our own statements, which is kept for the session.
fn kept(sql: &str, args: &[Cell]) -> &'static Plan {
    let types: Vec<_> = args.iter().map(Cell::oid).collect();
    let found = OWN.with_borrow(|own| own.get(sql).copied());
    found.filter(|plan| plan.types == types).unwrap_or_else(|| {
        let plan: &'static Plan = Box::leak(Box::new(Plan::prepare(sql, &types).or_raise()));
        OWN.with_borrow_mut(|own| own.insert(sql.to_owned(), plan));
        plan
    })
}

/// Starts one of our own queries, which changes nothing, under the snapshot of the calling
/// statement. It lives in `memory`; what it holds belongs to the query that calls. Its plan is kept
/// for the session. Needs [`connected`].
pub(crate) fn start(
    sql: &str,
    args: &[Cell],
    memory: pg_sys::MemoryContext,
) -> *mut pg_sys::QueryDesc {
    own_path(|| started(kept(sql, args), sql, args, memory))
}

/// The same of a query whose text is made up; its plan is not kept.
pub(crate) fn start_once(sql: &str, memory: pg_sys::MemoryContext) -> *mut pg_sys::QueryDesc {
    own_path(|| started(&Plan::prepare(sql, &[]).or_raise(), sql, &[], memory))
}

fn started(
    plan: &Plan,
    sql: &str,
    args: &[Cell],
    memory: pg_sys::MemoryContext,
) -> *mut pg_sys::QueryDesc {
    let text = c_string(sql).or_raise();
    let values: Vec<_> = args.iter().map(Cell::datum).collect();
    let parameters = plan.parameters(&values);
    // SAFETY: SPI is connected, and our own queries have one statement. The query refers to copies
    // in its own memory.
    unsafe {
        let owner = pg_sys::CurrentResourceOwner;
        let cached = pg_sys::SPI_plan_get_cached_plan(plan.plan.as_ptr());
        let statement = elements::<pg_sys::PlannedStmt>((*cached).stmt_list)[0];
        let caller = pg_sys::MemoryContextSwitchTo(memory);
        let query = pg_sys::CreateQueryDesc(
            pg_sys::copyObjectImpl(statement.as_ptr().cast()).cast(),
            pg_sys::pstrdup(text.as_ptr()),
            pg_sys::GetActiveSnapshot(),
            std::ptr::null_mut(),
            pg_sys::None_Receiver,
            pg_sys::copyParamList(parameters),
            std::ptr::null_mut(),
            0,
        );
        pg_sys::ExecutorStart(query, pg_sys::EXEC_FLAG_SKIP_TRIGGERS as i32);
        pg_sys::MemoryContextSwitchTo(caller);
        pg_sys::ReleaseCachedPlan(cached, owner);
        query
    }
}

/// Runs a statement whose text is made up; its plan is not kept.
pub fn execute(sql: &str, args: &[Cell]) -> u64 {
    rows(own_path(|| once(sql, args)), &mut |_| ())
}

/// Runs a query whose text is made up; its plan is not kept. `f` sees each row.
pub fn query_once(sql: &str, args: &[Cell], mut f: impl FnMut(&Row)) {
    rows(own_path(|| once(sql, args)), &mut f);
}

/// Runs a query under the search_path that there is, for names that the caller gives and functions
/// of its own: as the caller or the function's owner, never with more rights. All else in `sql` is
/// qualified, operators and types too.
pub fn as_caller(sql: &str, args: &[Cell], mut f: impl FnMut(&Row)) {
    rows(once(sql, args), &mut f);
}

fn once(sql: &str, args: &[Cell]) -> u64 {
    let types: Vec<_> = args.iter().map(Cell::oid).collect();
    run(&Plan::prepare(sql, &types).or_raise(), args)
}

fn run(plan: &Plan, args: &[Cell]) -> u64 {
    let values: Vec<_> = args.iter().map(Cell::datum).collect();
    // SAFETY: the cells carry their types, which are the plan's.
    unsafe { plan.execute(&values, std::ptr::null_mut(), 0).or_raise() }
}

/// Gives the rows of what has just run, of which so many were returned or changed.
fn rows(processed: u64, f: &mut dyn FnMut(&Row)) -> u64 {
    // SAFETY: the tuple table is that of the call just ended, and valid until freed below.
    unsafe {
        if let Some(table) = NonNull::new(pg_sys::SPI_tuptable) {
            let table = table.as_ref();
            for i in 0..table.numvals as usize {
                f(&Row {
                    tuple: *table.vals.add(i),
                    table,
                });
            }
            pg_sys::SPI_freetuptable(std::ptr::from_ref(table).cast_mut());
        }
        processed
    }
}
