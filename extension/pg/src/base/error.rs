//! PostgreSQL errors as Rust values, and Rust failures as PostgreSQL errors.
//!
//! pgrx maps a SQLSTATE it does not know to XX000; outcomes and our own codes need the true one. So
//! C calls that run a client's code go through [`catch_c`], and our C entry points through
//! [`enter`].
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CStr};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use chainify_rules::refusal::Refusal;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;

use crate::base::settings;

/// Five characters of `[0-9A-Z]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SqlState([u8; 5]);

impl SqlState {
    pub const fn new(code: &[u8; 5]) -> Self {
        SqlState(*code)
    }

    /// `None` when the text is no SQLSTATE of an error.
    pub fn parse(code: &str) -> Option<Self> {
        let code: [u8; 5] = code.as_bytes().try_into().ok()?;
        let valid = code
            .iter()
            .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
            && !code.starts_with(b"00");
        valid.then_some(SqlState(code))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// PostgreSQL packs six bits per character (`MAKE_SQLSTATE`).
    pub(crate) fn packed(self) -> c_int {
        self.0.iter().rev().fold(0, |code, c| {
            (code << 6) | ((c.wrapping_sub(b'0') & 0x3f) as c_int)
        })
    }

    pub(crate) fn unpacked(mut code: c_int) -> Self {
        let mut state = [0; 5];
        for c in &mut state {
            *c = (code & 0x3f) as u8 + b'0';
            code >>= 6;
        }
        SqlState(state)
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of class ERROR.
#[derive(Clone, Debug)]
pub struct PgError {
    pub sqlstate: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// It may follow from a name that one database alone has ([`take_name`]).
    pub of_a_name: bool,
}

impl PgError {
    pub fn new(sqlstate: &[u8; 5], message: impl Into<String>) -> Self {
        PgError {
            message: message.into(),
            ..PgError::of_state(SqlState(*sqlstate))
        }
    }

    /// Without a message.
    pub fn of_state(sqlstate: SqlState) -> Self {
        PgError {
            sqlstate,
            message: String::new(),
            detail: None,
            hint: None,
            of_a_name: false,
        }
    }

    /// An error that came as text. A SQLSTATE that is none becomes XX000.
    pub fn told(sqlstate: &str, message: impl Into<String>) -> Self {
        PgError::new(
            &SqlState::parse(sqlstate).map_or(*b"XX000", |state| state.0),
            message,
        )
    }

    /// The same error as one of a name: of a relation that one database alone may have.
    pub fn of_a_name(self) -> Self {
        PgError {
            of_a_name: true,
            ..self
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Ends the current SQL function with this error; destructors on the way run.
    pub fn raise(self) -> ! {
        resume_unwind(Box::new(self))
    }
}

impl From<Refusal> for PgError {
    fn from(refusal: Refusal) -> Self {
        PgError {
            detail: refusal.detail,
            hint: refusal.hint,
            ..PgError::new(refusal.sqlstate, refusal.message)
        }
    }
}

/// Raises the error of a result.
pub trait OrRaise<T> {
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T, PgError> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|e| e.raise())
    }
}

thread_local! {
    /// See [`take_name`].
    static NAME: RefCell<Option<PgError>> = const { RefCell::new(None) };
    /// How many calls of [`attempt_undone`] are under way.
    static UNDONE: Cell<u32> = const { Cell::new(0) };
}

/// An error about a name is being raised in PostgreSQL.
pub(crate) fn note_name(error: &PgError) {
    NAME.set(Some(error.clone()));
}

/// The error about a name that PostgreSQL raises, or raised last: one that `raised::watched` saw,
/// or one of ours ([`PgError::of_a_name`]). None once it is a value, which carries that itself.
pub(crate) fn take_name() -> Option<PgError> {
    NAME.take()
}

/// Counts a call of [`attempt_undone`], also while it unwinds.
struct Undone;

impl Drop for Undone {
    fn drop(&mut self) {
        UNDONE.set(UNDONE.get() - 1);
    }
}

/// Runs Rust code; an error raised in it, by us or by PostgreSQL, becomes a value. A Rust panic (a
/// defect) passes through.
///
/// # Safety
/// After an `Err` the caller must roll back the subtransaction or the transaction in which `f` ran,
/// before it does anything else in the database, as for PL/pgSQL's EXCEPTION.
pub(crate) unsafe fn attempt_undone<T>(f: impl FnOnce() -> T) -> Result<T, PgError> {
    UNDONE.set(UNDONE.get() + 1);
    let _counted = Undone;
    catch_unwind(AssertUnwindSafe(f)).map_err(as_pg_error)
}

/// Runs Rust code inside a subtransaction, or what else is rolled back after an error
/// ([`attempt_undone`]). An error raised in it becomes a value, which the caller hands on to there.
/// Elsewhere nobody would roll back, so that the error goes on as it was raised.
pub fn attempt<T>(f: impl FnOnce() -> T) -> Result<T, PgError> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| match UNDONE.get() {
        0 => resume_unwind(payload),
        _ => as_pg_error(payload),
    })
}

fn as_pg_error(payload: Box<dyn Any + Send>) -> PgError {
    let payload = match payload.downcast::<PgError>() {
        Ok(error) => return *error,
        Err(payload) => payload,
    };
    match payload.downcast::<CaughtError>() {
        Ok(caught) => match *caught {
            CaughtError::PostgresError(e) | CaughtError::ErrorReport(e) => PgError {
                sqlstate: SqlState::unpacked(e.sql_error_code() as c_int),
                message: e.message().to_owned(),
                detail: e.detail().map(str::to_owned),
                hint: e.hint().map(str::to_owned),
                of_a_name: take_name().is_some(),
            },
            defect @ CaughtError::RustPanic { .. } => defect.rethrow(),
        },
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs C code that may end in `ereport(ERROR)`, keeping the error's own SQLSTATE. Panics of `f`
/// itself pass through. A callback that C code calls inside of `f` must wrap everything that may
/// unwind in [`enter`].
///
/// # Safety
/// `f` must do little but call C functions, and own nothing that needs dropping.
pub(crate) unsafe fn catch_c<T>(f: impl FnOnce() -> T) -> Result<T, PgError> {
    let mut result = MaybeUninit::<std::thread::Result<T>>::uninit();
    // SAFETY: a backend has one thread; the saved values are put back on both ways out, as PG_TRY
    // does.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let exception_stack = pg_sys::PG_exception_stack;
        let context_stack = pg_sys::error_context_stack;
        let jumped = cee_scape::call_with_sigsetjmp(false, |buffer| {
            pg_sys::PG_exception_stack = std::mem::transmute::<
                *const cee_scape::SigJmpBufFields,
                *mut pg_sys::sigjmp_buf,
            >(buffer);
            result.write(catch_unwind(AssertUnwindSafe(f)));
            0
        });
        pg_sys::PG_exception_stack = exception_stack;
        pg_sys::error_context_stack = context_stack;
        if jumped == 0 {
            let result = result.assume_init();
            return Ok(result.unwrap_or_else(|payload| resume_unwind(payload)));
        }
        pg_sys::CurrentMemoryContext = context;
        let data = pg_sys::CopyErrorData();
        let error = PgError {
            sqlstate: SqlState::unpacked((*data).sqlerrcode),
            message: text(&(*data).message).unwrap_or_default(),
            detail: text(&(*data).detail),
            hint: text(&(*data).hint),
            of_a_name: take_name().is_some(),
        };
        pg_sys::FreeErrorData(data);
        pg_sys::FlushErrorState();
        Err(error)
    }
}

/// # Safety
/// The pointer must be null or a C string.
unsafe fn text(s: &*mut c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!s.is_null()).then(|| unsafe { CStr::from_ptr(*s) }.to_string_lossy().into_owned())
}

/// Body of every C function that PostgreSQL calls: turns what unwinds into `ereport(ERROR)`.
///
/// # Safety
/// Only as the whole body of an `extern "C-unwind"` function without values to drop.
pub(crate) unsafe fn enter<R>(f: impl FnOnce() -> R) -> R {
    let payload = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => return result,
        Err(payload) => payload,
    };
    match payload.downcast::<PgError>() {
        Ok(error) => report(error),
        // SAFETY: the same promise; pgrx knows the payloads of its own errors and of panics.
        Err(payload) => unsafe {
            pg_sys::panic::pgrx_extern_c_guard(move || resume_unwind(payload))
        },
    }
}

/// Body of a callback of PostgreSQL in which raising is not allowed: what unwinds is logged, and
/// the result is None. The state that the callback keeps is then not known to be right, so the
/// session ends at its next look for interrupts.
pub(crate) fn without_raising<T>(callback: &str, f: impl FnOnce() -> T) -> Option<T> {
    let payload = match catch_unwind(AssertUnwindSafe(|| {
        assert!(!settings::panics(callback), "a test has it panic");
        f()
    })) {
        Ok(result) => return Some(result),
        Err(payload) => payload,
    };
    let said = said(&*payload);
    // It is logged already, and to drop it might unwind again.
    std::mem::forget(payload);
    let text = format!("chainify: {callback} failed, the session ends: {said}");
    // SAFETY: the text is copied; a report below ERROR returns. The flags are looked at by
    // PostgreSQL.
    unsafe {
        pg_sys::ProcDiePending = 1;
        pg_sys::InterruptPending = 1;
        if errstart(LOG, std::ptr::null()) {
            errmsg_internal(c"%s".as_ptr(), copy(Some(&text)));
            errfinish(c"chainify".as_ptr(), 0, std::ptr::null());
        }
    }
    None
}

/// The message of a payload that unwinds.
fn said(payload: &(dyn Any + Send)) -> String {
    if let Some(error) = payload.downcast_ref::<PgError>() {
        return error.message.clone();
    }
    match payload.downcast_ref::<CaughtError>() {
        Some(CaughtError::PostgresError(e) | CaughtError::ErrorReport(e)) => e.message().to_owned(),
        Some(CaughtError::RustPanic { ereport, .. }) => ereport.message().to_owned(),
        None => payload
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic".to_owned()),
    }
}

/// elog.h: what the server's log alone is told.
const LOG: c_int = 15;
/// elog.h: the level that ends a statement.
const ERROR: c_int = 21;

extern "C-unwind" {
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
    fn errcode(code: c_int) -> c_int;
    fn errmsg_internal(format: *const c_char, ...) -> c_int;
    fn errdetail_internal(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
}

fn report(error: Box<PgError>) -> ! {
    if error.of_a_name {
        note_name(&error);
    }
    // SAFETY: the strings are copied into PostgreSQL's memory and the Rust value is dropped before
    // the jump.
    unsafe {
        let code = error.sqlstate.packed();
        let message = copy(Some(&error.message));
        let detail = copy(error.detail.as_ref());
        let hint = copy(error.hint.as_ref());
        drop(error);
        if errstart(ERROR, std::ptr::null()) {
            errcode(code);
            errmsg_internal(c"%s".as_ptr(), message);
            if !detail.is_null() {
                errdetail_internal(c"%s".as_ptr(), detail);
            }
            if !hint.is_null() {
                errhint(c"%s".as_ptr(), hint);
            }
            errfinish(c"chainify".as_ptr(), 0, std::ptr::null());
        }
    }
    // Not a panic: it would cross the C frame behind the caller.
    std::process::abort()
}

/// # Safety
/// A memory context must be current; the copy lives as long as that.
unsafe fn copy(s: Option<&String>) -> *mut c_char {
    let Some(s) = s else {
        return std::ptr::null_mut();
    };
    // SAFETY: palloc gives len + 1 bytes, of which all are written.
    unsafe {
        let to = pg_sys::palloc(s.len() + 1).cast::<u8>();
        for (i, b) in s.bytes().enumerate() {
            to.add(i).write(if b == 0 { b' ' } else { b });
        }
        to.add(s.len()).write(0);
        to.cast()
    }
}
