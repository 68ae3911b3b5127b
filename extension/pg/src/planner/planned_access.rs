//! The accesses that queries inside functions may make: noted when they are planned, when values
//! are not known yet, and compared with what is declared when they run.
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use chainify_sched::declared::Declared;
use chainify_sched::template::Template;
use pgrx::pg_sys;

use crate::access::{show, template_of_query};
use crate::base::error::PgError;
use crate::base::subtransaction::subtransaction;
use crate::planner::plan_notes::{self, values, Notes, Subject};

thread_local! {
    static NOTING: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Notes> = RefCell::new(Notes::on(Subject::Accesses));
    static DECLARED: RefCell<Option<Rc<[Declared]>>> = const { RefCell::new(None) };
}

/// Whether queries are noted from now on. Between transactions of a block only: it may make all
/// plans be made anew.
pub fn note(wanted: bool) {
    let full = NOTES.with_borrow(|notes| notes.full);
    if full || wanted && !NOTING.get() {
        NOTES.with_borrow_mut(Notes::clear);
        forget_plans();
    }
    NOTING.set(wanted);
}

/// Makes every kept plan be made anew when it is used next.
pub fn forget_plans() {
    // SAFETY: marks plans as invalid; those in use are kept by their users.
    unsafe { pg_sys::ResetPlanCache() }
}

/// Runs `f`, whose queries must keep to what is `declared` for it: one that does not raises 40001.
pub fn within<T>(declared: Option<Rc<[Declared]>>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Rc<[Declared]>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DECLARED.set(self.0.take());
        }
    }
    let _restore = Restore(DECLARED.replace(declared));
    f()
}

/// Notes a query about to be planned; gives its number. None: queries are not noted, or it accesses
/// nothing.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(crate) unsafe fn note_query(query: NonNull<pg_sys::Query>) -> Option<u32> {
    if !NOTING.get() {
        return None;
    }
    // A query that cannot be analysed accesses everything; it is for the planner to say so.
    // Resources that analysis held when it failed go with the subtransaction.
    // SAFETY: by the caller's promise.
    let template = subtransaction(|| Ok(unsafe { template_of_query(query) }));
    let template = template.unwrap_or_else(|error| {
        let mut everything = Template::default();
        everything.widen(error.message);
        everything
    });
    if template.everything().is_none() && template.accesses().is_empty() {
        return None;
    }
    NOTES.with_borrow_mut(|notes| notes.add(template))
}

/// Gives a plan the number of its note.
///
/// # Safety
/// `plan` must be what the planner just made.
pub(crate) unsafe fn mark(plan: *mut pg_sys::PlannedStmt, number: u32) {
    // SAFETY: by the caller's promise.
    unsafe { plan_notes::mark(plan, Subject::Accesses, number) }
}

/// Raises when a query that is about to run does not keep to what is declared.
///
/// # Safety
/// `description` must be what ExecutorStart is given.
pub(crate) unsafe fn check(description: *mut pg_sys::QueryDesc) {
    let Some(declared) = DECLARED.with_borrow(Clone::clone) else {
        return;
    };
    // SAFETY: by the caller's promise; a plan lists the relations it uses.
    unsafe {
        let (plan, params) = ((*description).plannedstmt, (*description).params);
        let Some(used) = declared.iter().find(|d| uses(plan, d.relation)) else {
            return;
        };
        let outside = match NOTES.with_borrow(|notes| notes.of(plan)) {
            Some(note) => note.template.outside(&values(&note, params), &declared),
            None => Some(used.relation), // planned before anybody asked
        };
        if let Some(relation) = outside {
            let name = show::relation_name(relation);
            PgError::new(
                b"40001",
                format!("it accesses {name} outside of what is declared"),
            )
            .raise();
        }
    }
}

unsafe fn uses(plan: *mut pg_sys::PlannedStmt, relation: u32) -> bool {
    // SAFETY: a list of oids.
    unsafe { pg_sys::list_member_oid((*plan).relationOids, relation.into()) }
}
