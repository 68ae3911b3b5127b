//! Says why a cancelled session was cancelled.
//!
//! PostgreSQL 15 gives an extension no interrupt of its own: what reaches another backend is a
//! cancel or a termination, whose errors blame the user and the administrator. The log hook sees an
//! error last of all, after every handler of PL/pgSQL and just before it is logged and sent. It
//! gets the very structure that is sent, and exchanges its words. So handlers still see
//! query_canceled, which WHEN OTHERS does not swallow. An error that is not logged
//! (log_min_messages above ERROR) keeps PostgreSQL's words.
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::base::error::{without_raising, PgError, SqlState};
use crate::base::next::Next;

/// elog.h
const ERROR: c_int = 21;
const FATAL: c_int = 22;

/// The error to report instead of a cancel (`false`) or a termination (`true`), if there is one to
/// say. Must not raise.
pub(crate) type Explain = fn(bool) -> Option<PgError>;

static EXPLAIN: OnceLock<Explain> = OnceLock::new();

static NEXT: Next<pg_sys::emit_log_hook_type> = Next::new();

/// Installs the hook in front of those there already; once, while the library is loaded.
pub fn explain_cancels(explain: Explain) {
    if EXPLAIN.set(explain).is_err() {
        return;
    }
    // SAFETY: hooks are set while the postmaster loads libraries.
    unsafe {
        NEXT.install(&raw mut pg_sys::emit_log_hook, on_report);
    }
}

unsafe extern "C-unwind" fn on_report(error: *mut pg_sys::ErrorData) {
    // SAFETY: PostgreSQL passes the entry it is about to report; texts are freed with its memory
    // context, so the copies belong there. Raising here would recurse, so a panic ends here too.
    unsafe {
        let cancelled = match ((*error).elevel, SqlState::unpacked((*error).sqlerrcode)) {
            (ERROR, state) if state.as_str() == "57014" => Some(false),
            (FATAL, state) if state.as_str() == "57P01" => Some(true),
            _ => None,
        };
        let explained = cancelled.and_then(|fatal| {
            EXPLAIN.get().and_then(|explain| {
                without_raising("saying why it is cancelled", || explain(fatal))?
            })
        });
        if let Some(new) = explained {
            let context = (*error).assoc_context;
            (*error).sqlerrcode = new.sqlstate.packed();
            (*error).message = copy(context, Some(&new.message));
            (*error).detail = copy(context, new.detail.as_ref());
            (*error).hint = copy(context, new.hint.as_ref());
        }
        if let Some(next) = NEXT.get() {
            next(error);
        }
    }
}

/// # Safety
/// `context` must be a live memory context; the copy lives as long as that.
unsafe fn copy(context: pg_sys::MemoryContext, text: Option<&String>) -> *mut c_char {
    let Some(text) = text else {
        return std::ptr::null_mut();
    };
    // SAFETY: len + 1 bytes are allocated and written; our texts hold no zero byte.
    unsafe {
        let to = pg_sys::MemoryContextAlloc(context, text.len() + 1).cast::<u8>();
        to.copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
        to.cast()
    }
}
