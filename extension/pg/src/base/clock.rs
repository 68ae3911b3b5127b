//! The time that `now()` and its like give.
use pgrx::pg_sys;

use crate::base::error::PgError;

/// 1970-01-01 to 2000-01-01 in microseconds.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// timestamp.h: 4713-01-01 BC, and the end of 294276.
const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;

/// The session's clock under another time; back also while unwinding: setting it cannot raise.
struct StartTimes(i64, i64);

impl StartTimes {
    fn set(time: i64) -> Self {
        // SAFETY: reads and sets two static variables.
        unsafe {
            let saved = StartTimes(
                pg_sys::GetCurrentTransactionStartTimestamp(),
                pg_sys::GetCurrentStatementStartTimestamp(),
            );
            pg_sys::SetParallelStartTimestamps(time, time);
            saved
        }
    }
}

impl Drop for StartTimes {
    fn drop(&mut self) {
        // SAFETY: sets two static variables.
        unsafe { pg_sys::SetParallelStartTimestamps(self.0, self.1) }
    }
}

/// Runs `f` with `now()` and its like at `unix_micros`. Raises 22008 for a time PostgreSQL does not
/// have.
pub fn at_time<T>(unix_micros: i64, f: impl FnOnce() -> T) -> T {
    let Some(time) = unix_micros
        .checked_sub(EPOCH_MICROS)
        .filter(|t| (MIN_TIMESTAMP..END_TIMESTAMP).contains(t))
    else {
        PgError::new(
            b"22008",
            format!("block time {unix_micros} is out of range"),
        )
        .raise()
    };
    let _restore = StartTimes::set(time);
    f()
}

/// Runs `f` at a time that is none: an input function that reads the clock, and `current_date` and
/// its like, raise 22008. `now()` gives -infinity.
pub fn without_clock<T>(f: impl FnOnce() -> T) -> T {
    at_moment(i64::MIN, f)
}

/// Runs `f` at a time of PostgreSQL's, in microseconds from the beginning of 2000.
pub(crate) fn at_moment<T>(micros: i64, f: impl FnOnce() -> T) -> T {
    let _restore = StartTimes::set(micros);
    f()
}
