//! What queries inside functions may read and write: noted when they are planned, when values are
//! not known yet, and compared with what is declared when they run.
//!
//! A plan is copied before it is kept, so it carries the number of its note as an invalidation item
//! of a cache that there is not: such items are copied with the plan, and this one never matches.
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::rc::Rc;

use chainify_sched::declared::Declared;
use chainify_sched::template::Template;
use chainify_sched::value::Value;
use pgrx::pg_sys;

use crate::pg::access::{show, template_of_query, value_of};
use crate::pg::base::error::PgError;
use crate::pg::base::lists::elements;
use crate::pg::base::subtransaction::subtransaction;

/// Notes kept in a session; when there are no more, all plans are made anew before the next block.
const NOTES_MAX: usize = 4_096;
/// The cache that there is not.
const NO_CACHE: i32 = -1;

struct Note {
    template: Template,
    /// The numbers of the parameters it depends on, from 0.
    needed: Vec<usize>,
}

#[derive(Default)]
struct Notes {
    next: u32,
    by_number: HashMap<u32, Rc<Note>>,
    /// SQL functions plan their queries at every call: what is the same has one number.
    numbers: HashMap<String, u32>,
    /// Plans were made that are not noted.
    full: bool,
}

impl Notes {
    fn add(&mut self, template: Template) -> Option<u32> {
        let text = format!("{template:?}");
        if let Some(number) = self.numbers.get(&text) {
            return Some(*number);
        }
        if self.by_number.len() == NOTES_MAX {
            self.full = true;
            return None;
        }
        let needed = (0..).zip(template.needs(usize::from(u16::MAX)));
        let needed = needed.filter(|(_, needed)| *needed);
        let note = Note {
            needed: needed.map(|(number, _)| number).collect(),
            template,
        };
        self.next = self.next.wrapping_add(1);
        self.by_number.insert(self.next, Rc::new(note));
        self.numbers.insert(text, self.next);
        Some(self.next)
    }

    fn clear(&mut self) {
        self.by_number.clear();
        self.numbers.clear();
        self.full = false;
    }
}

thread_local! {
    static NOTING: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Notes> = RefCell::default();
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
pub(in crate::pg) unsafe fn note_query(query: NonNull<pg_sys::Query>) -> Option<u32> {
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
pub(in crate::pg) unsafe fn mark(plan: *mut pg_sys::PlannedStmt, number: u32) {
    // SAFETY: the item is a node of its kind, allocated where the plan is.
    unsafe {
        let size = size_of::<pg_sys::PlanInvalItem>();
        let item = pg_sys::palloc0(size).cast::<pg_sys::PlanInvalItem>();
        (*item).type_ = pg_sys::NodeTag::T_PlanInvalItem;
        (*item).cacheId = NO_CACHE;
        (*item).hashValue = number;
        (*plan).invalItems = pg_sys::lappend((*plan).invalItems, item.cast());
    }
}

/// Raises when a query that is about to run does not keep to what is declared.
///
/// # Safety
/// `description` must be what ExecutorStart is given.
pub(in crate::pg) unsafe fn check(description: *mut pg_sys::QueryDesc) {
    let Some(declared) = DECLARED.with_borrow(Clone::clone) else {
        return;
    };
    // SAFETY: by the caller's promise; a plan lists the relations it uses.
    unsafe {
        let (plan, params) = ((*description).plannedstmt, (*description).params);
        let Some(used) = declared.iter().find(|d| uses(plan, d.relation)) else {
            return;
        };
        let note =
            number(plan).and_then(|n| NOTES.with_borrow(|notes| notes.by_number.get(&n).cloned()));
        let outside = match note {
            Some(note) => note
                .template
                .outside(&values(&note.needed, params), &declared),
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

/// Whether nothing can invalidate a plan by an item of its own: a note never does.
pub(in crate::pg) fn has_note_at_most(plan: &pg_sys::PlannedStmt) -> bool {
    // SAFETY: a list of such items.
    let items = unsafe { elements::<pg_sys::PlanInvalItem>(plan.invalItems) };
    // SAFETY: as above.
    items
        .iter()
        .all(|item| unsafe { item.as_ref() }.cacheId == NO_CACHE)
}

unsafe fn uses(plan: *mut pg_sys::PlannedStmt, relation: u32) -> bool {
    // SAFETY: a list of oids.
    unsafe { pg_sys::list_member_oid((*plan).relationOids, relation.into()) }
}

unsafe fn number(plan: *mut pg_sys::PlannedStmt) -> Option<u32> {
    // SAFETY: a list of such items.
    let items = unsafe { elements::<pg_sys::PlanInvalItem>((*plan).invalItems) };
    // SAFETY: as above.
    let mut items = items.iter().map(|item| unsafe { item.as_ref() });
    items
        .find(|item| item.cacheId == NO_CACHE)
        .map(|item| item.hashValue)
}

/// The values of parameters, by number; those that nobody needs are opaque.
unsafe fn values(needed: &[usize], params: pg_sys::ParamListInfo) -> Vec<Value> {
    let count = needed.last().map_or(0, |last| last + 1);
    let mut values = vec![Value::Opaque; count];
    // SAFETY: as ExecEvalParamExtern does it: who gives parameters on demand is asked, otherwise
    // there are `numParams` of them.
    unsafe {
        for number in needed {
            if params.is_null() || *number >= (*params).numParams as usize {
                continue;
            }
            let mut place = pg_sys::ParamExternData::default();
            let param = match (*params).paramFetch {
                Some(fetch) => fetch(params, *number as i32 + 1, false, &mut place),
                None => (*params).params.as_mut_ptr().add(*number),
            };
            let param = &*param;
            if param.ptype != pg_sys::InvalidOid {
                values[*number] = value_of((!param.isnull).then_some(param.value), param.ptype);
            }
        }
    }
    values
}
