//! Says why a cancelled session was cancelled.
//!
//! PostgreSQL 15 gives an extension no interrupt of its own: what reaches another backend is a
//! cancel or a termination, whose errors blame the user and the administrator. The log hook sees an
//! error last of all, after every handler of PL/pgSQL and just before it is logged and sent. It
//! gets the very structure that is sent, and exchanges its words. So handlers still see
//! query_canceled, which WHEN OTHERS does not swallow. An error that is not logged
//! (log_min_messages above ERROR) keeps PostgreSQL's words.
use std::ffi::{c_char, c_int};

use pgrx::pg_sys;

use crate::base::error::{without_raising, PgError, SqlState};

/// elog.h
const ERROR: c_int = 21;
const FATAL: c_int = 22;

/// The error to report instead of a cancel (`false`) or a termination (`true`), if there is one to
/// say. Must not raise.
pub type Explain = fn(bool) -> Option<PgError>;

/// Puts the words of `explain` into the error of a cancelled session that is about to be reported.
///
/// # Safety
/// `error` must be the entry that PostgreSQL is about to report.
pub(crate) unsafe fn put_into_words(error: *mut pg_sys::ErrorData, explain: Explain) {
    // SAFETY: texts are freed with the entry's memory context, so the copies belong there. Raising
    // here would recurse, so a panic ends here too.
    unsafe {
        let fatal = match ((*error).elevel, SqlState::unpacked((*error).sqlerrcode)) {
            (ERROR, state) if state.as_str() == "57014" => false,
            (FATAL, state) if state.as_str() == "57P01" => true,
            _ => return,
        };
        let explained = without_raising("saying why it is cancelled", || explain(fatal)).flatten();
        if let Some(new) = explained {
            let context = (*error).assoc_context;
            (*error).sqlerrcode = new.sqlstate.packed();
            (*error).message = copy(context, Some(&new.message));
            (*error).detail = copy(context, new.detail.as_ref());
            (*error).hint = copy(context, new.hint.as_ref());
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
