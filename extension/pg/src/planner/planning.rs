//! The planner's hook: describes every query before it is planned.
//!
//! The planner is where a query is whole: views, defaults, generated columns and policies are in.
//! Every statement of a function, stored as text or as tree, comes by before it runs for the first
//! time. Earlier hooks miss such statements. Later ones see plans with folded constants: functions
//! have run already.
use std::cell::Cell;
use std::ffi::c_char;
use std::ptr::NonNull;

pub use chainify_rules::plans::Origin;
use pgrx::pg_sys;

use crate::base::above::Above;
use crate::base::error::enter;
use crate::base::outermost;
use crate::describe::analysis::describe;
use crate::describe::call::describe_call;
use crate::describe::complete_query::complete;
use crate::describe::function_facts::is_sql;
use crate::describe::query_level::Level;
use crate::planner::agreed_order;
use crate::planner::agreed_plans;
pub use crate::planner::agreed_plans::Agreed;
use crate::planner::block_settings;
use crate::planner::own_plans;
use crate::planner::plan_notes::{self, Subject};
pub use crate::planner::planned_access::forget_plans;
use crate::planner::planned_access::{check, mark, note_query};
use crate::planner::session_reads;
use crate::tree::conditions::may_raise;
use crate::tree::nesting::check_calls;

/// The answers of the rooms above about queries. `query` raises to refuse.
pub struct Queries {
    /// Asked first, for every query of every session.
    pub wanted: fn() -> bool,
    /// For every query before the planner gets it. Whether the order of rows decides which of its
    /// errors comes first.
    pub query: fn(&Level, Origin) -> bool,
    /// Whether nobody else changes what it reads, so that it need not lock rows.
    pub alone: fn() -> bool,
    /// Asked for a query after `wanted` said no: whether it draws from the ledger's sequences all
    /// the same.
    pub draws: fn() -> bool,
}

pub(crate) static ABOVE: Above<Queries> = Above::new();

thread_local! {
    /// Plans of submitted statements may have the texts of SQL functions in place of their calls.
    static MAY_INLINE: Cell<bool> = const { Cell::new(false) };
    /// The query that the planner works on is such a one.
    static INLINES: Cell<bool> = const { Cell::new(false) };
}

/// Checks the call of a procedure, whose arguments are computed without a plan, and completes it.
/// Null when nobody wants to see queries; else the statement to run in place of the one given,
/// which belongs to a kept plan.
///
/// # Safety
/// `statement` must hold an analysed CALL, parsed from `text`.
pub(crate) unsafe fn check_call(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
) -> *mut pg_sys::PlannedStmt {
    let origin = origin(std::ptr::null());
    let above = ABOVE.get();
    if !(above.wanted)() {
        return std::ptr::null_mut();
    }
    // SAFETY: by the caller's promise; the copy is this function's to change.
    unsafe {
        let own = pg_sys::copyObjectImpl(statement.cast()).cast::<pg_sys::PlannedStmt>();
        (above.query)(&describe_call((*own).utilityStmt.cast(), text), origin);
        own
    }
}

/// Runs `f`, whose statements are planned with the texts of the SQL functions that they call,
/// unwatched. No transaction of the ledger, nor a function that one may call, comes upon these
/// plans.
pub fn inlining<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_INLINE.set(self.0);
        }
    }
    let _restore = Restore(MAY_INLINE.replace(true));
    f()
}

/// The origin of the query that the planner gets now, from the text that it is a part of.
fn origin(text: *const c_char) -> Origin {
    // SAFETY: reads a variable of the process. The pointers are compared, not followed.
    let sent = unsafe { (&raw const pg_sys::debug_query_string).read() };
    match outermost::take() {
        true => Origin::Submitted,
        // A plan that is kept has a copy of its text, and so has a function's.
        false if !text.is_null() && text == sent => Origin::Session,
        false => Origin::Function,
    }
}

/// Has a query planned by `plan`, which calls what stands behind our hook.
///
/// # Safety
/// The arguments must be those of the planner's hook: the query is as the rewriter left it, and the
/// planner's to change. `plan` must own nothing that needs dropping.
pub(crate) unsafe fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    plan: impl FnOnce() -> *mut pg_sys::PlannedStmt,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise.
    unsafe {
        let (note, reads, order) = enter(|| {
            let origin = origin(text);
            INLINES.set(origin == Origin::Submitted && MAY_INLINE.get());
            let above = ABOVE.get();
            let wanted = (above.wanted)();
            agreed_plans::of_session(wanted && origin == Origin::Function);
            if let Some(query) = NonNull::new(query).filter(|_| wanted) {
                complete(query.as_ptr().cast());
                let order = (above.query)(&describe(query, text), origin);
                let note = (origin == Origin::Function)
                    .then(|| note_query(query))
                    .flatten();
                if (above.alone)() {
                    lock_no_rows(query);
                }
                return (note, None, order);
            }
            if !query.is_null() && (above.draws)() {
                complete(query.cast());
            }
            (
                None,
                NonNull::new(query).and_then(|query| session_reads::note_query(query)),
                false,
            )
        });
        let planner = enter(|| own_plans::planner_of(NonNull::new(query)?));
        let plan = || match planner {
            Some(role) => own_plans::planned_as(role, plan),
            None => plan(),
        };
        let plan = match block_settings::are_pinned() {
            true => {
                let may_raise = enter(|| may_raise(query));
                agreed_plans::planned(query, may_raise, plan)
            }
            false => plan(),
        };
        if let Some(note) = note {
            enter(|| mark(plan, note));
        }
        if let Some(reads) = reads {
            enter(|| session_reads::mark_plan(plan, reads));
        }
        if order {
            enter(|| plan_notes::mark_first(plan, Subject::Order));
        }
        plan
    }
}

/// Takes FOR UPDATE and its like from a query; privileges and policies that they ask for stay.
/// PostgreSQL writes each lock into its row, and keeps those of all subtransactions there. A row
/// that a block changes often, or that foreign keys refer to, has as many as there are
/// transactions.
///
/// # Safety
/// The query must be the planner's to change.
unsafe fn lock_no_rows(mut query: NonNull<pg_sys::Query>) {
    // SAFETY: by the caller's promise.
    let query = unsafe { query.as_mut() };
    (query.rowMarks, query.hasForUpdate) = (std::ptr::null_mut(), false);
}

/// A query is about to start.
///
/// # Safety
/// `description` must be what ExecutorStart is given.
pub(crate) unsafe fn before_start(description: *mut pg_sys::QueryDesc) {
    outermost::running();
    // SAFETY: by the caller's promise.
    unsafe {
        enter(|| {
            check_calls();
            check(description);
            session_reads::show(description);
            if block_settings::are_pinned() {
                agreed_order::arrange_targets(&*(*description).plannedstmt);
            }
        });
    }
}

/// Whether the planner must not copy the text of an SQL function into the query that calls it: it
/// would not come by here.
pub(crate) fn keeps_call(function: pg_sys::Oid) -> bool {
    let watched = || (ABOVE.get().wanted)() || session_reads::are_noted();
    !INLINES.get() && watched() && is_sql(function)
}
