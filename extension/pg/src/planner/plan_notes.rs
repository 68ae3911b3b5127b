//! Notes on plans: templates of what a query accesses, made while it is planned and needed when it
//! runs, with values.
//!
//! A plan is copied before it is kept. So the number of its note travels in the plan as an
//! invalidation item for a cache that does not exist. PostgreSQL copies such items with the plan,
//! and this one never matches.
use std::collections::HashMap;
use std::ptr::NonNull;
use std::rc::Rc;

use chainify_sched::template::Template;
use chainify_sched::value::Value;
use pgrx::pg_sys;

use crate::access::value_of;
use crate::base::lists::elements;

/// Notes kept in a session.
const NOTES_MAX: usize = 4_096;

/// The subject of a note: the number of a cache that there is not.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Subject {
    /// All accesses of a query inside a function.
    Accesses = -1,
    /// The reads of a session's query.
    Reads = -2,
    /// The order of rows decides which error comes first; it stands first.
    Order = -3,
}

/// A template with what filling it takes.
pub(crate) struct Note {
    pub template: Template,
    /// The numbers of the parameters it depends on, from 0.
    needed: Vec<usize>,
}

/// The notes on one subject.
pub(crate) struct Notes {
    subject: Subject,
    next: u32,
    by_number: HashMap<u32, Rc<Note>>,
    /// SQL functions plan their queries at every call: what is the same has one number.
    numbers: HashMap<String, u32>,
    /// Plans were made that are not noted.
    pub(crate) full: bool,
}

impl Notes {
    pub(crate) fn on(subject: Subject) -> Self {
        Notes {
            subject,
            next: 0,
            by_number: HashMap::new(),
            numbers: HashMap::new(),
            full: false,
        }
    }

    /// The number of a note; None when there is no room for more.
    pub fn add(&mut self, template: Template) -> Option<u32> {
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

    pub fn clear(&mut self) {
        self.by_number.clear();
        self.numbers.clear();
        self.full = false;
    }

    /// The note that a plan carries.
    ///
    /// # Safety
    /// `plan` must be one of the planner's.
    pub unsafe fn of(&self, plan: *mut pg_sys::PlannedStmt) -> Option<Rc<Note>> {
        // SAFETY: a list of such items.
        let items = unsafe { elements::<pg_sys::PlanInvalItem>((*plan).invalItems) };
        // SAFETY: as above.
        let mut items = items.iter().map(|item| unsafe { item.as_ref() });
        let item = items.find(|item| item.cacheId == self.subject as i32)?;
        self.by_number.get(&item.hashValue).cloned()
    }
}

/// Gives a plan the number of its note.
///
/// # Safety
/// `plan` must be what the planner just made.
pub(crate) unsafe fn mark(plan: *mut pg_sys::PlannedStmt, subject: Subject, number: u32) {
    // SAFETY: by the caller's promise.
    unsafe { (*plan).invalItems = pg_sys::lappend((*plan).invalItems, item(subject, number)) }
}

/// Marks a plan, once all notes are there.
///
/// # Safety
/// As for [`mark`].
pub(crate) unsafe fn mark_first(plan: *mut pg_sys::PlannedStmt, subject: Subject) {
    // SAFETY: by the caller's promise.
    unsafe { (*plan).invalItems = pg_sys::lcons(item(subject, 0), (*plan).invalItems) }
}

/// Whether a plan has the mark of [`mark_first`].
///
/// # Safety
/// `plan` must be one of the planner's.
#[inline]
pub(crate) unsafe fn is_first(plan: *mut pg_sys::PlannedStmt, subject: Subject) -> bool {
    // SAFETY: by the caller's promise, a list of items; one that is there is not empty.
    unsafe {
        let items = (*plan).invalItems.as_ref();
        items.is_some_and(|items| {
            let first = (*items.elements).ptr_value.cast::<pg_sys::PlanInvalItem>();
            (*first).cacheId == subject as i32
        })
    }
}

/// An item of a cache that there is not.
fn item(subject: Subject, number: u32) -> *mut std::ffi::c_void {
    // SAFETY: a node of its kind, in the current memory context.
    unsafe {
        let size = size_of::<pg_sys::PlanInvalItem>();
        let item = pg_sys::palloc0(size).cast::<pg_sys::PlanInvalItem>();
        (*item).type_ = pg_sys::NodeTag::T_PlanInvalItem;
        (*item).cacheId = subject as i32;
        (*item).hashValue = number;
        item.cast()
    }
}

/// Whether nothing can invalidate a plan by an item of its own: a note never does.
pub(crate) fn has_notes_at_most(plan: &pg_sys::PlannedStmt) -> bool {
    // SAFETY: a list of such items.
    let items = unsafe { elements::<pg_sys::PlanInvalItem>(plan.invalItems) };
    let is_note = |item: &NonNull<pg_sys::PlanInvalItem>| {
        // SAFETY: as above.
        let cache = unsafe { item.as_ref() }.cacheId;
        [Subject::Accesses, Subject::Reads, Subject::Order]
            .iter()
            .any(|subject| *subject as i32 == cache)
    };
    items.iter().all(is_note)
}

/// The values of the parameters that a note needs, by number; the others are opaque.
///
/// # Safety
/// `params` must be what the executor is given, or null.
pub(crate) unsafe fn values(note: &Note, params: pg_sys::ParamListInfo) -> Vec<Value> {
    let count = note.needed.last().map_or(0, |last| last + 1);
    let mut values = vec![Value::Opaque; count];
    // SAFETY: as ExecEvalParamExtern does it: who gives parameters on demand is asked, otherwise
    // there are `numParams` of them.
    unsafe {
        for number in &note.needed {
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
