//! Subtransactions: a failure inside one undoes it alone.
use std::cell::RefCell;

use pgrx::pg_sys;

use crate::base::error::{attempt_undone, without_raising, PgError};

/// Runs `f` in a subtransaction; an error raised or returned rolls it back. A Rust panic ends the
/// whole transaction.
pub fn subtransaction<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    // SAFETY: the pattern of PL/pgSQL's EXCEPTION: memory context and resource owner are put back
    // after either end.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = attempt_undone(f).and_then(|result| result);
        match result {
            Ok(_) => pg_sys::ReleaseCurrentSubTransaction(),
            Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// Runs `f`, which may change nothing in the database.
pub fn read_only<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    subtransaction(|| {
        // SAFETY: the end of the subtransaction puts back what was before.
        unsafe { pg_sys::XactReadOnly = true };
        f()
    })
}

/// Whether the transaction may change nothing in the database.
pub fn is_read_only() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::XactReadOnly }
}

/// The effect of a transaction's end on state kept in the backend; nothing when the backend itself
/// ends (FATAL), which may happen while that state is in use.
pub struct Hooks {
    /// A subtransaction begins.
    pub begin: fn(),
    /// The innermost subtransaction became part of its parent.
    pub release: fn(),
    /// The innermost subtransaction is undone.
    pub undo: fn(),
    /// The transaction is over, either way.
    pub end: fn(),
}

thread_local! {
    static HOOKS: RefCell<Vec<&'static Hooks>> = RefCell::default();
}

/// Calls one hook of each. One that fails does not keep the others from running.
fn each(of: fn(&Hooks) -> fn()) {
    // SAFETY: a variable of this process.
    if unsafe { pg_sys::proc_exit_inprogress } {
        return;
    }
    HOOKS.with_borrow(|hooks| {
        for hook in hooks.iter().map(|hooks| of(hooks)) {
            without_raising("a hook of the end of a transaction", hook);
        }
    });
}

/// While the library is loaded. The hooks must not raise.
pub fn watch(hooks: &'static Hooks) {
    let first = HOOKS.with_borrow_mut(|all| {
        all.push(hooks);
        all.len() == 1
    });
    if !first {
        return;
    }
    // SAFETY: the callbacks are static functions; they are registered once.
    unsafe {
        pg_sys::RegisterSubXactCallback(Some(on_subtransaction), std::ptr::null_mut());
        pg_sys::RegisterXactCallback(Some(on_transaction), std::ptr::null_mut());
    }
}

unsafe extern "C-unwind" fn on_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    _: pg_sys::SubTransactionId,
    _: pg_sys::SubTransactionId,
    _: *mut std::ffi::c_void,
) {
    match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_START_SUB => each(|h| h.begin),
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => each(|h| h.release),
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => each(|h| h.undo),
        _ => (),
    }
}

unsafe extern "C-unwind" fn on_transaction(
    event: pg_sys::XactEvent::Type,
    _: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if matches!(
        event,
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE
    ) {
        each(|h| h.end);
    }
}
