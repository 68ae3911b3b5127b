//! The predicates under which a session's queries read rows. The planner's hook notes them, and the
//! executor's hook reports them with values.
//!
//! Source: precision locking, by the bounds that conditions put on columns (spec/scheduling.md,
//! "What a statement contributes").
use std::cell::RefCell;
use std::ptr::NonNull;

use chainify_sched::template::Template;
use pgrx::pg_sys;

pub use crate::access::reads::RowsRead;
use crate::access::{reads, template_of_reads};
use crate::base::above::Above;
use crate::base::backend::is_own_work;
use crate::base::subtransaction::subtransaction;
use crate::planner::plan_notes::{mark, values, Notes, Subject};

/// The answers of the rooms above about the reads of a session.
pub struct Reads {
    /// Whether the extension wants the session's reads; asked first, for every query.
    pub wanted: fn() -> bool,
    /// Whether it wants them with their bounds, which takes the planner's time.
    pub with_bounds: fn() -> bool,
    /// Gets the rows that a query is about to read.
    pub read: fn(RowsRead),
}

pub(crate) static ABOVE: Above<Reads> = Above::new();

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::new(Notes::on(Subject::Reads));
}

/// Whether the planner's hook notes bounds of reads.
pub(super) fn are_noted() -> bool {
    (ABOVE.get().with_bounds)()
}

/// Notes the reads of a query before the planner gets it; gives the number of the note. None:
/// nobody wants them, or there is no room.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(super) unsafe fn note_query(query: NonNull<pg_sys::Query>) -> Option<u32> {
    // SAFETY: reads a variable of the process. In parallel mode, as of a utility statement, no
    // subtransaction may begin.
    if !are_noted() || unsafe { pg_sys::IsInParallelMode() } {
        return None;
    }
    // SAFETY: by the caller's promise.
    let template = subtransaction(|| Ok(unsafe { template_of_reads(query) }));
    let template = template.unwrap_or_else(|error| {
        let mut everything = Template::default();
        everything.widen(error.message);
        everything
    });
    NOTES.with_borrow_mut(|notes| {
        if notes.full {
            notes.clear(); // plans with older notes count as not noted
        }
        notes.add(template)
    })
}

/// Gives a plan the number of its note.
///
/// # Safety
/// `plan` must be what the planner just made.
pub(super) unsafe fn mark_plan(plan: *mut pg_sys::PlannedStmt, number: u32) {
    // SAFETY: by the caller's promise.
    unsafe { mark(plan, Subject::Reads, number) }
}

/// Shows what a query that is about to run reads. Of one without a note these are all rows of its
/// tables. It leaves out the checks of foreign keys: each organisation makes them itself.
///
/// # Safety
/// `description` must be what ExecutorStart is given.
pub(super) unsafe fn show(description: *mut pg_sys::QueryDesc) {
    if is_own_work() {
        return;
    }
    // SAFETY: by the caller's promise; a plan lists the relations it uses.
    unsafe {
        let above = ABOVE.get();
        if !(above.wanted)() || pg_sys::InNoForceRLSOperation() {
            return;
        }
        run_alone(description);
        let (plan, params) = ((*description).plannedstmt, (*description).params);
        let noted = NOTES
            .with_borrow(|notes| notes.of(plan))
            .and_then(|note| reads::of(&note.template, &values(&note, params)));
        match noted {
            Some(noted) => noted.into_iter().for_each(above.read),
            None => all_of(plan).for_each(|relation| (above.read)(RowsRead::all(relation))),
        }
    }
}

/// Has a plan run in this process alone: another process would note the reads of functions, and end
/// with its notes. Transactions without notes keep the plan as it is.
///
/// # Safety
/// As for [`show`].
unsafe fn run_alone(description: *mut pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise; the copy of the head lives as long as the statement runs.
    unsafe {
        let plan = (*description).plannedstmt;
        if (*plan).parallelModeNeeded {
            let alone = pg_sys::palloc(size_of::<pg_sys::PlannedStmt>()).cast();
            std::ptr::copy_nonoverlapping(plan, alone, 1);
            (*alone).parallelModeNeeded = false;
            (*description).plannedstmt = alone;
        }
    }
}

unsafe fn all_of(plan: *mut pg_sys::PlannedStmt) -> impl Iterator<Item = pg_sys::Oid> {
    // SAFETY: a list of oids.
    let oids: Vec<pg_sys::Oid> = unsafe {
        match (*plan).relationOids.as_ref() {
            Some(list) => std::slice::from_raw_parts(list.elements, list.length as usize)
                .iter()
                .map(|cell| cell.oid_value)
                .collect(),
            None => Vec::new(),
        }
    };
    oids.into_iter()
}
