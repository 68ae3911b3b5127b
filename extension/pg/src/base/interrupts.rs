//! Holds back cancels of the session's statement that come at the wrong moment.
use pgrx::pg_sys;

/// Runs `f` without being cancelled. A cancel that comes meanwhile is met at the next look for
/// interrupts after it. `f` must be short, or have a limit of its own.
pub fn without_cancels<T>(f: impl FnOnce() -> T) -> T {
    /// An ERROR inside of `f` sets the count to 0.
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            change(|count| count.saturating_sub(1));
        }
    }
    change(|count| count + 1);
    let _held = Held;
    f()
}

/// Drops a cancel that came for something that is done by now.
pub fn drop_cancel() {
    // SAFETY: a variable of this process. A cancel of this very moment is too late as well.
    unsafe { pg_sys::QueryCancelPending = 0 }
}

fn change(by: fn(u32) -> u32) {
    // SAFETY: a variable of this process, which signal handlers only read.
    unsafe { pg_sys::QueryCancelHoldoffCount = by(pg_sys::QueryCancelHoldoffCount) }
}
