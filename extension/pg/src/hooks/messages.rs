//! Watches the protocol messages from a session to its client, and can hold them back.
use std::cell::Cell;
use std::ffi::{c_char, c_int};

use crate::session_transaction;

/// `PQcommMethods` of libpq.h, the same in PostgreSQL 15 to 18: pgrx does not read that header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Methods {
    reset: unsafe extern "C-unwind" fn(),
    flush: unsafe extern "C-unwind" fn() -> c_int,
    flush_if_writable: unsafe extern "C-unwind" fn() -> c_int,
    is_send_pending: unsafe extern "C-unwind" fn() -> bool,
    put_message: unsafe extern "C-unwind" fn(c_char, *const c_char, usize) -> c_int,
    put_message_without_waiting: unsafe extern "C-unwind" fn(c_char, *const c_char, usize),
}

extern "C" {
    static mut PqCommMethods: *const Methods;
}

thread_local! {
    /// PostgreSQL's own functions, once ours stand in front of them.
    static THEIRS: Cell<Option<&'static Methods>> = const { Cell::new(None) };
}

/// Has this session's messages come by here, from the first call on.
pub(super) fn follow() {
    if THEIRS.get().is_some() {
        return;
    }
    // SAFETY: the structure is PostgreSQL's, which is there for as long as the session; ours is
    // never freed.
    unsafe {
        let Some(theirs) = PqCommMethods.as_ref() else {
            return;
        };
        THEIRS.set(Some(theirs));
        PqCommMethods = Box::leak(Box::new(Methods {
            flush: on_flush,
            put_message: on_message,
            ..*theirs
        }));
    }
}

unsafe extern "C-unwind" fn on_message(kind: c_char, text: *const c_char, length: usize) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { session_transaction::message(kind as u8, text, length, send) }
}

unsafe extern "C-unwind" fn on_flush() -> c_int {
    session_transaction::flush(&|kind, message| {
        // SAFETY: the length is the message's; their own function copies it.
        unsafe { send(kind, message.as_ptr().cast(), message.len()) };
    });
    // SAFETY: their own function. None: set before any message came by.
    THEIRS
        .get()
        .map_or(-1, |theirs| unsafe { (theirs.flush)() })
}

/// Sends a message as PostgreSQL does.
///
/// # Safety
/// The text must have the length.
unsafe fn send(kind: u8, text: *const c_char, length: usize) -> c_int {
    // SAFETY: by the caller's promise. None: set before any message came by.
    THEIRS.get().map_or(-1, |theirs| unsafe {
        (theirs.put_message)(kind as c_char, text, length)
    })
}
