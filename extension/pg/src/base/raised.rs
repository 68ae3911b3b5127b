//! Notes errors at the moment when they are raised, because a function that catches an error leaves
//! no other trace of it.
//!
//! PostgreSQL calls the callbacks of `error_context_stack` for every report, before anything can
//! catch it. Our callback is below those of the transaction's statements, and adds nothing to the
//! report.
use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr};

use pgrx::pg_sys;

use crate::base::error::{note_name, without_raising, PgError, SqlState};

/// Which of the errors wanted were raised.
#[derive(Default)]
pub struct Raised {
    /// The first one that PostgreSQL, or code in C, raised.
    pub first: Option<PgError>,
    /// A statement RAISE of PL/pgSQL raised such a one.
    pub by_statement: bool,
}

/// The errors to watch for: `state` says whether one with this SQLSTATE may be, `error` whether it
/// is.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub state: fn(SqlState) -> bool,
    pub error: fn(&PgError) -> bool,
    /// Whether it is one about a name ([`PgError::of_a_name`]).
    pub name: fn(&PgError) -> bool,
}

struct Watching {
    wanted: Wanted,
    raised: Raised,
}

thread_local! {
    static WATCHING: RefCell<Option<Watching>> = const { RefCell::new(None) };
    /// Where reports are copied to: an error may say that memory is short, so it is taken
    /// beforehand.
    static COPIES: pg_sys::MemoryContext = copies();
}

fn copies() -> pg_sys::MemoryContext {
    // SAFETY: lives as long as the backend; the name is static.
    unsafe {
        pg_sys::AllocSetContextCreateExtended(
            pg_sys::TopMemoryContext,
            c"chainify errors".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}

/// The name that our callback is known by.
static OURS: u8 = 0;

fn ours() -> *mut c_void {
    (&raw const OURS).cast_mut().cast()
}

/// How many error contexts there are above that of [`watched`]; None outside of it.
pub(crate) fn contexts() -> Option<usize> {
    let mut count = 0;
    // SAFETY: a list of live frames that ends with null.
    unsafe {
        let mut at = pg_sys::error_context_stack;
        while !at.is_null() {
            if (*at).arg == ours() {
                return Some(count);
            }
            count += 1;
            at = (*at).previous;
        }
    }
    None
}

/// Runs `f`, C code that may raise, with an error context that says nothing: what is called without
/// the server's interface for queries counts like what is called through it.
///
/// # Safety
/// Only inside `catch_c`, which takes the context away when `f` raises.
pub(crate) unsafe fn in_context<T>(f: impl FnOnce() -> T) -> T {
    unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}
    // SAFETY: the frame lives until it is taken away here or by the caller.
    unsafe {
        let mut context = pg_sys::ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(nothing),
            arg: std::ptr::null_mut(),
        };
        pg_sys::error_context_stack = &raw mut context;
        let result = f();
        pg_sys::error_context_stack = context.previous;
        result
    }
}

/// Takes our callback away, also while unwinding.
struct Below(*mut pg_sys::ErrorContextCallback);

impl Drop for Below {
    fn drop(&mut self) {
        // SAFETY: what was there before outlives this frame.
        unsafe { pg_sys::error_context_stack = self.0 };
        WATCHING.set(None);
    }
}

/// Whether, in [`watched`] so far, a statement RAISE raised such an error, and nothing else did.
pub fn by_statement_alone() -> bool {
    WATCHING.with_borrow(|watching| {
        let raised = watching.as_ref().map(|watching| &watching.raised);
        raised.is_some_and(|raised| raised.by_statement && raised.first.is_none())
    })
}

/// Runs `f` and tells which `wanted` errors were raised in it, caught or not. Not to be nested.
pub fn watched<T>(wanted: Wanted, f: impl FnOnce() -> T) -> (T, Raised) {
    COPIES.with(|_| ());
    WATCHING.set(Some(Watching {
        wanted,
        raised: Raised::default(),
    }));
    let mut callback = pg_sys::ErrorContextCallback {
        // SAFETY: reads a variable of the backend.
        previous: unsafe { pg_sys::error_context_stack },
        callback: Some(on_report),
        arg: ours(),
    };
    let _below = Below(callback.previous);
    // SAFETY: `callback` lives until `_below` has taken it away.
    unsafe { pg_sys::error_context_stack = &raw mut callback };
    let result = f();
    let raised = WATCHING.take().map(|w| w.raised).unwrap_or_default();
    (result, raised)
}

c_functions! {
    fn geterrcode() -> i32;
    fn CopyErrorData() -> *mut pg_sys::ErrorData;
}

/// elog.h: the level that ends a statement.
const ERROR: i32 = 21;

unsafe extern "C-unwind" fn on_report(_: *mut c_void) {
    // SAFETY: called by errfinish, with a report on the stack of errors; nothing here is to be
    // dropped when a copy raises.
    unsafe {
        let state = SqlState::unpacked(geterrcode());
        let wanted =
            || WATCHING.with_borrow(|w| w.as_ref().is_some_and(|w| (w.wanted.state)(state)));
        if without_raising("watching errors", wanted) != Some(true) {
            return;
        }
        let context = COPIES.with(|c| *c);
        let old = pg_sys::MemoryContextSwitchTo(context);
        let report = CopyErrorData();
        pg_sys::MemoryContextSwitchTo(old);
        if (*report).elevel >= ERROR {
            without_raising("noting an error", || note(state, &*report));
        }
        pg_sys::MemoryContextReset(context);
    }
}

/// # Safety
/// `report` must be a copy that CopyErrorData made.
unsafe fn note(state: SqlState, report: &pg_sys::ErrorData) {
    // SAFETY: its texts are null or C strings.
    unsafe {
        let by_statement = text(report.funcname).as_deref() == Some("exec_stmt_raise")
            && text(report.filename).as_deref() == Some("pl_exec.c");
        let error = PgError {
            sqlstate: state,
            message: text(report.message).unwrap_or_default(),
            detail: text(report.detail),
            hint: text(report.hint),
            of_a_name: false,
        };
        WATCHING.with_borrow_mut(|watching| {
            let Some(Watching { raised, wanted }) = watching else {
                return;
            };
            if (wanted.name)(&error) && !by_statement {
                note_name(&error);
            }
            if !(wanted.error)(&error) {
                return;
            }
            if by_statement {
                raised.by_statement = true;
            } else if raised.first.is_none() {
                raised.first = Some(error);
            }
        });
    }
}

/// # Safety
/// The pointer must be null or a C string.
unsafe fn text(s: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!s.is_null()).then(|| unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned())
}
