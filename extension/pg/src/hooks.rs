//! The dispatcher: each hook and callback of PostgreSQL's is registered here, once.
//!
//! The function of a hook shows who is asked, in which order, and where PostgreSQL itself goes on.
//! The rooms above supply their answers in one table when the library is loaded ([`Above`]).
//!
//! The hook behind ours is called directly, not through pgrx: nothing of ours is on the stack that
//! an ERROR could skip.
//!
//! Two things are registered elsewhere, each in one place: a timer of a process
//! (`base/memory_limit.rs`), and the plugins of PL/pgSQL (`run/plpgsql.rs`,
//! `session_transaction/procedures.rs`), which change with the phase of the session.
mod messages;
mod objects;
mod utility;

use std::ffi::{c_char, c_int, c_void};

use pgrx::pg_sys;

use crate::access::plpgsql::kept;
use crate::base::error::{enter, without_raising};
use crate::base::major::{executor_run_hook, Run};
use crate::base::next::Next;
use crate::base::report::{self, Explain};
use crate::base::subtransaction::Hooks;
use crate::base::{above, catalog, generation};
pub use crate::describe::relation_use::Access;
use crate::describe::relation_use::{permissions_hook, Asked};
pub use crate::hooks::objects::{Change, Ddl};
pub use crate::hooks::utility::Utility;
use crate::planner::agreed_plans;
use crate::planner::planning;
pub use crate::planner::planning::Agreed;
use crate::planner::planning::Queries;
use crate::planner::session_reads;
use crate::planner::session_reads::Reads;
use crate::run::commit::CommitHooks;
use crate::run::crossed;
use crate::run::executor_cache;
use crate::run::plpgsql;
use crate::session_transaction::{Course, Messages, PlainSql};
use crate::shared::{conflict_memory, maintainer, pool, progress, worker};
use crate::translate::worker::Analytics;
use crate::{session_transaction, translate};

/// The answers of the rooms above, each of which may raise to refuse, unless it says otherwise.
pub struct Above {
    /// Statements that are about to run, and objects that change.
    pub statements: Statements,
    /// Queries before they are planned.
    pub queries: Queries,
    /// Tables as the planner is told of them.
    pub agreed: Agreed,
    /// The reads of a session.
    pub reads: Reads,
    /// The plain SQL of a session.
    pub plain_sql: PlainSql,
    /// Queries that the analytics worker may compute.
    pub analytics: Analytics,
    /// State that follows the ends of transactions, in the order in which it is told of them.
    pub ends: &'static [&'static Hooks],
    /// The commit of this session's transaction.
    pub commit: CommitHooks,
    /// The words of an error that cancels a session.
    pub explain: Explain,
    /// The bodies of background workers.
    pub workers: Workers,
}

/// Answers about statements that are about to run, and objects that change.
pub struct Statements {
    /// For every relation of a statement that is about to run.
    pub relation: fn(pg_sys::Oid, Access),
    /// For every utility statement.
    pub utility: fn(&Utility),
    /// For every change of an object.
    pub ddl: fn(Ddl),
    /// For every function that an expression is about to call, once per expression, whoever runs
    /// it.
    pub function: fn(pg_sys::Oid),
    /// Whether `relation` and `utility` want to be called now; asked first, because it is asked for
    /// every statement.
    pub wanted: fn() -> bool,
}

/// The bodies of background workers.
pub struct Workers {
    /// Of those that run parts of blocks.
    pub part: fn(&mut pool::Leader),
    /// Of the one that looks after sessions in the way of a block.
    pub conflicts: fn(),
    /// Of the one that looks after a database.
    pub maintenance: fn(),
}

static ABOVE: above::Above<Above> = above::Above::new();

static NEXT_REQUEST: Next<pg_sys::shmem_request_hook_type> = Next::new();
static NEXT_STARTUP: Next<pg_sys::shmem_startup_hook_type> = Next::new();
static NEXT_REPORT: Next<pg_sys::emit_log_hook_type> = Next::new();
static NEXT_PLANNER: Next<pg_sys::planner_hook_type> = Next::new();
static NEXT_FMGR: Next<pg_sys::needs_fmgr_hook_type> = Next::new();
static NEXT_RELATION: Next<pg_sys::get_relation_info_hook_type> = Next::new();
static NEXT_COLUMN: Next<pg_sys::get_relation_stats_hook_type> = Next::new();
static NEXT_INDEX: Next<pg_sys::get_index_stats_hook_type> = Next::new();
static NEXT_WIDTH: Next<pg_sys::get_attavgwidth_hook_type> = Next::new();
static NEXT_PERMISSIONS: Next<pg_sys::ExecutorCheckPerms_hook_type> = Next::new();
static NEXT_START: Next<pg_sys::ExecutorStart_hook_type> = Next::new();
static NEXT_RUN: Next<pg_sys::ExecutorRun_hook_type> = Next::new();
static NEXT_FINISH: Next<pg_sys::ExecutorFinish_hook_type> = Next::new();
static NEXT_END: Next<pg_sys::ExecutorEnd_hook_type> = Next::new();
static NEXT_UTILITY: Next<pg_sys::ProcessUtility_hook_type> = Next::new();
static NEXT_OBJECT: Next<pg_sys::object_access_hook_type> = Next::new();

/// Registers all hooks, callbacks and workers, in front of the hooks that are there already; once,
/// while the postmaster loads the library.
pub fn install(above: &'static Above) {
    supply(above);
    // SAFETY: hooks are set while the postmaster loads libraries, before any backend exists. The
    // callbacks are static functions.
    unsafe {
        NEXT_REQUEST.install(&raw mut pg_sys::shmem_request_hook, on_request);
        NEXT_STARTUP.install(&raw mut pg_sys::shmem_startup_hook, on_startup);
        NEXT_REPORT.install(&raw mut pg_sys::emit_log_hook, on_report);
        NEXT_PLANNER.install(&raw mut pg_sys::planner_hook, on_plan);
        NEXT_FMGR.install(&raw mut pg_sys::needs_fmgr_hook, on_inlining);
        NEXT_RELATION.install(&raw mut pg_sys::get_relation_info_hook, on_relation);
        NEXT_COLUMN.install(&raw mut pg_sys::get_relation_stats_hook, on_column);
        NEXT_INDEX.install(&raw mut pg_sys::get_index_stats_hook, on_index);
        NEXT_WIDTH.install(&raw mut pg_sys::get_attavgwidth_hook, on_width);
        NEXT_PERMISSIONS.install(&raw mut pg_sys::ExecutorCheckPerms_hook, permissions_hook);
        NEXT_START.install(&raw mut pg_sys::ExecutorStart_hook, on_start);
        NEXT_RUN.install(&raw mut pg_sys::ExecutorRun_hook, run_hook);
        NEXT_FINISH.install(&raw mut pg_sys::ExecutorFinish_hook, on_finish);
        NEXT_END.install(&raw mut pg_sys::ExecutorEnd_hook, on_end);
        NEXT_UTILITY.install(&raw mut pg_sys::ProcessUtility_hook, on_utility);
        NEXT_OBJECT.install(&raw mut pg_sys::object_access_hook, on_object);
        pg_sys::RegisterSubXactCallback(Some(on_subtransaction), std::ptr::null_mut());
        pg_sys::RegisterXactCallback(Some(on_transaction), std::ptr::null_mut());
        let none = pg_sys::Datum::from(0);
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relation_changed), none);
        for cache in generation::DEFINITIONS {
            pg_sys::CacheRegisterSyscacheCallback(cache, Some(on_definition), none);
        }
        pg_sys::CacheRegisterSyscacheCallback(generation::TYPES, Some(on_type), none);
    }
    executor_cache::set_watched(
        NEXT_START.get().is_some()
            || NEXT_RUN.get().is_some()
            || NEXT_FINISH.get().is_some()
            || NEXT_END.get().is_some(),
    );
    plpgsql::install();
}

/// Gives the parts of the table to the files that ask them.
fn supply(above: &'static Above) {
    ABOVE.set(above);
    planning::ABOVE.set(&above.queries);
    agreed_plans::ABOVE.set(&above.agreed);
    session_reads::ABOVE.set(&above.reads);
    session_transaction::ABOVE.set(&above.plain_sql);
    session_transaction::MESSAGES.set(&Messages {
        follow: messages::follow,
    });
    translate::worker::ABOVE.set(&above.analytics);
    pool::register(above.workers.part);
    worker::register(above.workers.conflicts);
    maintainer::register(above.workers.maintenance);
}

// Shared memory and reports.

unsafe extern "C-unwind" fn on_request() {
    // SAFETY: called where these requests are allowed, and only there.
    unsafe {
        enter(|| {
            if let Some(next) = NEXT_REQUEST.get() {
                next();
            }
            conflict_memory::request();
            progress::request();
        })
    }
}

unsafe extern "C-unwind" fn on_startup() {
    // SAFETY: runs in the postmaster, again after a crash restart, before any other process can
    // look.
    unsafe {
        enter(|| {
            if let Some(next) = NEXT_STARTUP.get() {
                next();
            }
            conflict_memory::start_up();
            progress::start_up();
        })
    }
}

unsafe extern "C-unwind" fn on_report(error: *mut pg_sys::ErrorData) {
    // SAFETY: PostgreSQL passes the entry that it is about to report.
    unsafe {
        report::put_into_words(error, ABOVE.get().explain);
        if let Some(next) = NEXT_REPORT.get() {
            next(error);
        }
    }
}

// Planning.

unsafe extern "C-unwind" fn on_plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the arguments are passed on as they came.
    unsafe {
        translate::planned::plan(query, text, options, params, || {
            planning::plan(query, text, || match NEXT_PLANNER.get() {
                Some(next) => next(query, text, options, params),
                None => raw::standard_planner(query, text, options, params),
            })
        })
    }
}

unsafe extern "C-unwind" fn on_inlining(function: pg_sys::Oid) -> bool {
    // SAFETY: the next hook gets the argument as it came.
    unsafe {
        enter(|| planning::keeps_call(function))
            || NEXT_FMGR.get().is_some_and(|next| next(function))
    }
}

unsafe extern "C-unwind" fn on_relation(
    root: *mut pg_sys::PlannerInfo,
    relation: pg_sys::Oid,
    is_parent: bool,
    info: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: the arguments are the planner's, and are passed on as they came.
    unsafe {
        enter(|| agreed_plans::relation(root, relation, is_parent, info));
        if let Some(next) = NEXT_RELATION.get() {
            next(root, relation, is_parent, info);
        }
    }
}

unsafe extern "C-unwind" fn on_column(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RangeTblEntry,
    column: pg_sys::AttrNumber,
    data: *mut pg_sys::VariableStatData,
) -> bool {
    // SAFETY: as for `on_relation`.
    unsafe {
        enter(|| agreed_plans::hides_column(table, data))
            || NEXT_COLUMN
                .get()
                .is_some_and(|next| next(root, table, column, data))
    }
}

unsafe extern "C-unwind" fn on_index(
    root: *mut pg_sys::PlannerInfo,
    index: pg_sys::Oid,
    column: pg_sys::AttrNumber,
    data: *mut pg_sys::VariableStatData,
) -> bool {
    // SAFETY: as for `on_relation`.
    unsafe {
        enter(|| agreed_plans::hides_index(index, data))
            || NEXT_INDEX
                .get()
                .is_some_and(|next| next(root, index, column, data))
    }
}

unsafe extern "C-unwind" fn on_width(relation: pg_sys::Oid, column: pg_sys::AttrNumber) -> i32 {
    // SAFETY: the relation has the column, as the planner asks for it.
    unsafe {
        match (
            enter(|| agreed_plans::width(relation, column)),
            NEXT_WIDTH.get(),
        ) {
            (0, Some(next)) => next(relation, column),
            (width, _) => width,
        }
    }
}

// The executor: what stands first sees a query first.

permissions_hook!(permissions_hook, on_permissions);

/// # Safety
/// `asked` must be of one statement, about to run.
unsafe fn on_permissions(asked: Asked, raise: bool) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        enter(|| {
            let above = &ABOVE.get().statements;
            if (above.wanted)() {
                for (relation, access) in asked.relations() {
                    (above.relation)(relation, access);
                }
            }
        });
        asked.told(NEXT_PERMISSIONS.get(), raise)
    }
}

unsafe extern "C-unwind" fn on_start(query: *mut pg_sys::QueryDesc, flags: c_int) {
    // SAFETY: the executor's caller passes a query that has not started.
    unsafe {
        session_transaction::start(query, flags, || {
            planning::before_start(query);
            executor_cache::start(query, flags, || match NEXT_START.get() {
                Some(next) => next(query, flags),
                None => raw::standard_ExecutorStart(query, flags),
            });
        });
    }
}

executor_run_hook!(run_hook, on_run);

/// # Safety
/// The arguments must be those of the hook.
unsafe fn on_run(run: Run) {
    // SAFETY: the executor's caller passes a query that has started.
    unsafe {
        translate::as_sent::run(run, |run| {
            session_transaction::run(run, |run| executor_cache::run(run, NEXT_RUN.get()));
        });
    }
}

unsafe extern "C-unwind" fn on_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor's caller passes a query that has run.
    unsafe {
        session_transaction::finish(|| {
            executor_cache::finish(query, || match NEXT_FINISH.get() {
                Some(next) => next(query),
                None => raw::standard_ExecutorFinish(query),
            });
        });
    }
}

unsafe extern "C-unwind" fn on_end(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor's caller passes a query that is over.
    unsafe {
        executor_cache::end(query, || match NEXT_END.get() {
            Some(next) => next(query),
            None => raw::standard_ExecutorEnd(query),
        });
    }
}

// Utility statements, and objects.

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn on_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    dest: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: the arguments are passed on, with a copy of a CALL that may be changed.
    unsafe {
        let (mut statement, mut read_only_tree) = (statement, read_only_tree);
        let (course, replaced) = enter(|| before_utility(statement, text, context));
        if course == Course::Later {
            if let Some(completion) = completion.as_mut() {
                completion.commandTag = pg_sys::CreateCommandTag((*statement).utilityStmt);
                completion.nprocessed = 0;
            }
            return;
        }
        if !replaced.is_null() {
            (statement, read_only_tree) = (replaced, false);
        }
        match NEXT_UTILITY.get() {
            Some(next) => next(
                statement,
                text,
                read_only_tree,
                context,
                params,
                environment,
                dest,
                completion,
            ),
            None => raw::standard_ProcessUtility(
                statement,
                text,
                read_only_tree,
                context,
                params,
                environment,
                dest,
                completion,
            ),
        }
        if course == Course::Procedure {
            enter(session_transaction::procedure_ended);
        }
    }
}

/// How a utility statement runs, and the one to run in its place; null: itself.
///
/// # Safety
/// The arguments must be those of the hook.
unsafe fn before_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    context: pg_sys::ProcessUtilityContext::Type,
) -> (Course, *mut pg_sys::PlannedStmt) {
    let mut replaced = std::ptr::null_mut();
    // SAFETY: by the caller's promise.
    unsafe {
        let node = (*statement).utilityStmt;
        let is_call = (*node).type_ == pg_sys::NodeTag::T_CallStmt;
        let own = || utility::own_statement(node);
        let course = session_transaction::utility(node, context, own);
        if course == Course::Later {
            return (course, replaced);
        }
        if !is_call {
            executor_cache::forget();
        }
        let above = &ABOVE.get().statements;
        if (above.wanted)() {
            let command = utility::command_of(node).to_string_lossy();
            (above.utility)(&Utility::of(node, &command, context));
            if is_call {
                replaced = planning::check_call(statement, text);
            }
        }
        (course, replaced)
    }
}

unsafe extern "C-unwind" fn on_object(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub: c_int,
    arg: *mut c_void,
) {
    // SAFETY: the arguments are PostgreSQL's, and are passed on as they came.
    unsafe {
        enter(|| {
            let above = &ABOVE.get().statements;
            if access == pg_sys::ObjectAccessType::OAT_FUNCTION_EXECUTE {
                (above.function)(object);
            } else if let Some(ddl) = Ddl::of(access, class, object, sub, arg) {
                if ddl.change == Change::Create && class == pg_sys::ProcedureRelationId {
                    kept::made(object);
                }
                (above.ddl)(ddl);
            }
        });
        if let Some(next) = NEXT_OBJECT.get() {
            next(access, class, object, sub, arg);
        }
    }
}

/// Whether an extension's script is being run; DDL is its own then.
pub fn creating_extension() -> bool {
    // SAFETY: reads a static variable.
    unsafe { pg_sys::creating_extension }
}

// The ends of transactions.

/// Tells all that follows the ends of transactions. One that fails does not keep the others from
/// being told.
fn tell_each(of: fn(&Hooks) -> fn()) {
    // SAFETY: a variable of this process.
    if unsafe { pg_sys::proc_exit_inprogress } {
        return;
    }
    let here = [
        &executor_cache::ENDS,
        &crossed::ENDS,
        &session_transaction::ENDS,
    ];
    for hooks in ABOVE.get().ends.iter().copied().chain(here) {
        without_raising("a hook of the end of a transaction", of(hooks));
    }
}

unsafe extern "C-unwind" fn on_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    _: pg_sys::SubTransactionId,
    _: pg_sys::SubTransactionId,
    _: *mut c_void,
) {
    match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_START_SUB => tell_each(|hooks| hooks.begin),
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => tell_each(|hooks| hooks.release),
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => tell_each(|hooks| hooks.undo),
        _ => (),
    }
}

unsafe extern "C-unwind" fn on_transaction(event: pg_sys::XactEvent::Type, _: *mut c_void) {
    use pg_sys::XactEvent::*;
    let commit = &ABOVE.get().commit;
    match event {
        // SAFETY: the whole body, in which raising is allowed.
        XACT_EVENT_PRE_COMMIT => unsafe {
            enter(|| {
                session_transaction::before_end(false);
                (commit.before)();
            })
        },
        // SAFETY: as above.
        XACT_EVENT_PRE_PREPARE => unsafe {
            enter(|| {
                session_transaction::before_end(true);
                (commit.before_prepare)();
            })
        },
        XACT_EVENT_COMMIT => {
            without_raising("a hook of commit", commit.committed);
            tell_each(|hooks| hooks.end);
        }
        XACT_EVENT_ABORT => {
            without_raising("a hook of rollback", commit.rolled_back);
            tell_each(|hooks| hooks.end);
        }
        XACT_EVENT_PREPARE => tell_each(|hooks| hooks.end),
        _ => (),
    }
}

// Changed definitions.

unsafe extern "C-unwind" fn on_relation_changed(_: pg_sys::Datum, relation: pg_sys::Oid) {
    catalog::relation_changed(relation);
    session_transaction::relation_changed(relation);
}

unsafe extern "C-unwind" fn on_definition(_: pg_sys::Datum, _: i32, _: u32) {
    generation::note_definition();
}

unsafe extern "C-unwind" fn on_type(_: pg_sys::Datum, _: i32, hash: u32) {
    generation::note_type(hash);
}

/// PostgreSQL's functions without pgrx's boundary.
mod raw {
    use super::{c_char, c_int, pg_sys};
    c_functions! {
        pub(crate) fn standard_planner(
            query: *mut pg_sys::Query,
            text: *const c_char,
            options: c_int,
            params: pg_sys::ParamListInfo,
        ) -> *mut pg_sys::PlannedStmt;
        pub(crate) fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
        pub(crate) fn standard_ExecutorFinish(query: *mut pg_sys::QueryDesc);
        pub(crate) fn standard_ExecutorEnd(query: *mut pg_sys::QueryDesc);
        pub(crate) fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            text: *const c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            environment: *mut pg_sys::QueryEnvironment,
            dest: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
    }
}
