//! A bound on the memory of this process while it runs clients' statements.
//!
//! PostgreSQL bounds the size of a value (1 GB), but not the number of values that a statement
//! keeps. A statement that collects values in an array can take all memory of the machine. The
//! kernel then ends the server, in every organisation alike, and again each time the block is
//! executed. So a timer measures this process, and cancels the statement. The process can exceed
//! the bound by the values made between two measurements.
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pgrx::pg_sys;

use crate::base::error::PgError;
use crate::base::interrupts::drop_cancel;
use crate::base::settings;

/// timeout.h: any number from `USER_TIMEOUT` on stands for the next that is free.
const A_USER_TIMEOUT: c_int = 14;
const EVERY_MS: c_int = 20;

extern "C-unwind" {
    fn RegisterTimeout(id: c_int, handler: unsafe extern "C" fn()) -> c_int;
    fn enable_timeout_every(id: c_int, first: pg_sys::TimestampTz, delay_ms: c_int);
    fn disable_timeout(id: c_int, keep_indicator: bool);
}

thread_local! {
    static TIMEOUT: c_int = {
        // SAFETY: the handler does what a signal handler may; called in a session or worker, whose
        // start has prepared timeouts.
        unsafe { RegisterTimeout(A_USER_TIMEOUT, look) }
    };
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static EXCEEDED: AtomicBool = AtomicBool::new(false);

/// Runs `f`; what runs in it is cancelled when the process has more memory than
/// `chainify.block_memory` and `maintenance_work_mem`. The error is one of a cancel, of which
/// [`explained`] tells the reason. Cost: two settings of a timer.
pub fn bounded<T>(f: impl FnOnce() -> T) -> T {
    let Some(limit) = settings::block_memory().filter(|_| !RUNNING.get()) else {
        return f();
    };
    // SAFETY: a variable of this process, in kB.
    let maintenance = unsafe { pg_sys::maintenance_work_mem } as usize * 1024;
    LIMIT.store(limit.saturating_add(maintenance), Ordering::Relaxed);
    EXCEEDED.store(false, Ordering::Relaxed);
    RUNNING.set(true);
    let _watched = Watched;
    // SAFETY: the timeout is registered; the clock is read.
    unsafe {
        let first = pg_sys::GetCurrentTimestamp() + i64::from(EVERY_MS) * 1000;
        enable_timeout_every(TIMEOUT.with(|id| *id), first, EVERY_MS);
    }
    f()
}

/// The error of what [`bounded`] cancelled, with its reason; another one as it is. Freed memory
/// goes back to the machine. For use inside `bounded`.
pub fn explained(error: PgError) -> PgError {
    if !EXCEEDED.swap(false, Ordering::Relaxed) {
        return error;
    }
    // SAFETY: gives back what is free, and touches nothing else.
    unsafe { libc::malloc_trim(0) };
    let megabytes = LIMIT.load(Ordering::Relaxed) >> 20;
    PgError::new(
        b"53400",
        format!("it needs more memory than {megabytes} MB, the bound of one process"),
    )
    .hint("The bound is chainify.block_memory and maintenance_work_mem together.")
}

/// Ends the looks, also while unwinding.
struct Watched;

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.set(false);
        // SAFETY: sets variables of the process; raises nothing for a timeout that is registered.
        unsafe { disable_timeout(TIMEOUT.with(|id| *id), false) };
        if EXCEEDED.load(Ordering::Relaxed) {
            drop_cancel(); // what it was for has ended
        }
    }
}

/// Called by the timer's signal, in the middle of whatever runs.
unsafe extern "C" fn look() {
    if own_bytes().is_none_or(|bytes| bytes <= LIMIT.load(Ordering::Relaxed)) {
        return;
    }
    EXCEEDED.store(true, Ordering::Relaxed);
    // SAFETY: what PostgreSQL's own handler of a cancel does.
    unsafe {
        pg_sys::InterruptPending = 1;
        pg_sys::QueryCancelPending = 1;
        pg_sys::SetLatch(pg_sys::MyLatch);
    }
}

/// Memory of this process that no file and no other process shares, in bytes. None: unknown. Calls
/// only what a signal handler may.
fn own_bytes() -> Option<usize> {
    let mut text = [0_u8; 128];
    // SAFETY: the path is static, and `text` is writable for as long as it is.
    let length = unsafe {
        let file = libc::open(
            c"/proc/self/statm".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let mut pages = text[..usize::try_from(length).ok()?]
        .split(|byte| *byte == b' ')
        .skip(1)
        .map_while(number);
    let (resident, shared) = (pages.next()?, pages.next()?);
    // SAFETY: asks for a constant of the machine.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some(resident.saturating_sub(shared) * page)
}

fn number(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0_usize, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(usize::from(digit))
    })
}
