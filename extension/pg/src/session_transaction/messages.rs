//! Watches the protocol messages from a session to its client, and can hold them back.
use std::cell::Cell;
use std::ffi::{c_char, c_int};

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

/// Sends one message: its kind, its text and its length.
pub(super) type PutMessage = unsafe extern "C-unwind" fn(c_char, *const c_char, usize) -> c_int;
/// Has the client get all that was sent.
pub(super) type Flush = unsafe extern "C-unwind" fn() -> c_int;

thread_local! {
    static SENDING: Cell<Option<&'static Methods>> = const { Cell::new(None) };
}

/// Has this session's messages come by at two functions, from the first call on.
pub(super) fn watch(put_message: PutMessage, flush: Flush) {
    if SENDING.get().is_some() {
        return;
    }
    // SAFETY: the structure is PostgreSQL's, which is there for as long as the session; ours is
    // never freed.
    unsafe {
        let Some(theirs) = PqCommMethods.as_ref() else {
            return;
        };
        SENDING.set(Some(theirs));
        PqCommMethods = Box::leak(Box::new(Methods {
            flush,
            put_message,
            ..*theirs
        }));
    }
}

/// Sends a message as it came.
///
/// # Safety
/// The text must have the length.
pub(super) unsafe fn pass_on(kind: c_char, text: *const c_char, length: usize) -> c_int {
    // SAFETY: by the caller's promise. None: set before any message came by.
    SENDING.get().map_or(-1, |theirs| unsafe {
        (theirs.put_message)(kind, text, length)
    })
}

/// Sends a message that was held back. A connection that is lost shows with the next one.
pub(super) fn send(kind: u8, message: &[u8]) {
    // SAFETY: the length is the message's; their own function copies it.
    unsafe { pass_on(kind as c_char, message.as_ptr().cast(), message.len()) };
}

/// Has the client get what was passed on.
pub(super) fn flush_on() -> c_int {
    // SAFETY: their own function.
    SENDING
        .get()
        .map_or(-1, |theirs| unsafe { (theirs.flush)() })
}
