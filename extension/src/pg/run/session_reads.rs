//! The rows that the queries of a session read, as predicates: noted when a query is planned, shown
//! when it runs.
//!
//! Source: precision locking, by the bounds that conditions put on columns (spec/scheduling.md,
//! "What a statement contributes").
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::OnceLock;

use chainify_sched::template::Template;
use pgrx::pg_sys;

pub use crate::pg::access::reads::RowsRead;
use crate::pg::access::{reads, template_of_reads};
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::run::plan_notes::{mark, values, Notes, Subject};

/// The callbacks of the extension.
pub struct Watch {
    /// Whether the session's reads are wanted; asked first, for every query.
    pub wanted: fn() -> bool,
    /// Whether they are wanted with their bounds, which takes time when a query is planned.
    pub with_bounds: fn() -> bool,
    /// Shown the rows that a query is about to read.
    pub read: fn(RowsRead),
}

static WATCH: OnceLock<&'static Watch> = OnceLock::new();

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::new(Notes::on(Subject::Reads));
}

/// Installs the callbacks; once, while the library is loaded.
pub fn watch(watch: &'static Watch) {
    let _ = WATCH.set(watch);
}

/// Whether the bounds of reads are noted.
pub(super) fn are_noted() -> bool {
    WATCH.get().is_some_and(|watch| (watch.with_bounds)())
}

/// Notes the reads of a query about to be planned; gives the number of the note. None: they are not
/// wanted, or there is no room.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(super) unsafe fn note_query(query: NonNull<pg_sys::Query>) -> Option<u32> {
    if !are_noted() {
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

/// Shows what a query that is about to run reads. Of one that is not noted these are all rows of
/// its tables. The checks of foreign keys are left out: each organisation makes them itself.
///
/// # Safety
/// `description` must be what ExecutorStart is given.
pub(super) unsafe fn show(description: *mut pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise; a plan lists the relations it uses.
    unsafe {
        let Some(watch) = WATCH.get().filter(|watch| (watch.wanted)()) else {
            return;
        };
        if pg_sys::InNoForceRLSOperation() {
            return;
        }
        let (plan, params) = ((*description).plannedstmt, (*description).params);
        let noted = NOTES
            .with_borrow(|notes| notes.of(plan))
            .and_then(|note| reads::of(&note.template, &values(&note, params)));
        match noted {
            Some(noted) => noted.into_iter().for_each(watch.read),
            None => all_of(plan).for_each(|relation| (watch.read)(RowsRead::all(relation))),
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
