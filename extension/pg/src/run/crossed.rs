//! Errors of statements that do not fail alike in every organisation (X14).
//!
//! Such a statement looks at several rows. The place in which a row is stored decides which row
//! fails first, and a function that catches the error could see which one it was. So the
//! transaction fails even when a function caught the error. When no function catches the error,
//! the transaction fails anyway.
//!
//! An error leaves the executor without passing its end. The undo of a subtransaction then finds
//! more such statements under way than there were at its beginning.
//!
//! A function cannot catch errors about names either, nor refusals of statements for their reads.
//! One organisation may have a table of that name beside the ledger, and there the name gives
//! another error. The transaction fails with the error that was caught.
use std::cell::{Cell, RefCell};

use pgrx::pg_sys;

use crate::base::error::{take_name, PgError};
use crate::base::subtransaction::Hooks;
use crate::planner::plan_notes::{self, Subject};

thread_local! {
    /// Such statements under way.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Those at the beginning of each subtransaction.
    static BEGINNINGS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static CROSSED: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<PgError>> = const { RefCell::new(None) };
}

/// At the ends of transactions.
pub(crate) const ENDS: Hooks = Hooks {
    begin: || BEGINNINGS.with_borrow_mut(|all| all.push(DEPTH.get())),
    release: || {
        BEGINNINGS.with_borrow_mut(Vec::pop);
    },
    undo: || {
        let before = BEGINNINGS.with_borrow_mut(Vec::pop).unwrap_or(0);
        if DEPTH.replace(before) > before {
            CROSSED.set(true);
        }
        if let Some(error) = take_name() {
            CAUGHT.with_borrow_mut(|first| _ = first.get_or_insert(error));
        }
    },
    end: || {
        BEGINNINGS.with_borrow_mut(Vec::clear);
        DEPTH.set(0);
    },
};

/// Runs `f`, the executor on a query.
///
/// # Safety
/// `query` must be one that started. Nothing to drop may be on the stack.
#[inline]
pub(crate) unsafe fn running(query: *mut pg_sys::QueryDesc, f: impl FnOnce()) {
    // SAFETY: by the caller's promise; its state is there until its end.
    unsafe {
        if !plan_notes::is_first((*query).plannedstmt, Subject::Order) {
            return f();
        }
        DEPTH.set(DEPTH.get() + 1);
        f();
        let state = &*(*query).estate;
        let later = state.es_top_eflags & pg_sys::EXEC_FLAG_SKIP_TRIGGERS as i32 != 0;
        if !later || state.es_processed < 2 {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
}

/// The same at its end, with the triggers of its rows. Among them are those of rows that foreign
/// keys had changed or deleted, in statements whose triggers come later.
///
/// # Safety
/// As for [`running`].
#[inline]
pub(crate) unsafe fn finishing(query: *mut pg_sys::QueryDesc, f: impl FnOnce()) {
    let before = DEPTH.get();
    // SAFETY: by the caller's promise.
    unsafe { running(query, f) };
    DEPTH.set(before);
}

/// A transaction begins.
pub(super) fn forget() {
    CROSSED.set(false);
    CAUGHT.take();
    take_name();
}

/// The error of the transaction, if a subtransaction inside of it was undone for such an error.
pub(super) fn refusal() -> Option<PgError> {
    let crossed = CROSSED.replace(false).then(|| {
        PgError::new(b"CH006", "an error of a statement over several rows, which a function may catch, is not deterministic")
            .detail("Which of the rows fails first follows from where they are stored, which differs between organisations.")
            .hint("Take the rows one by one, in a loop over a query with ORDER BY over the primary key, or look for what fails before.")
    });
    CAUGHT.take().or(crossed)
}
