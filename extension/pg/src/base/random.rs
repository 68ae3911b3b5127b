//! Random bytes that nobody else can know.

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise, PgError};

/// A secret key. Raises XX000 when the system has no randomness.
pub fn key() -> [u8; 32] {
    let mut key = [0; 32];
    // SAFETY: the buffer is as long as said.
    let drawn = unsafe { catch_c(|| pg_sys::pg_strong_random(key.as_mut_ptr().cast(), key.len())) };
    if !drawn.or_raise() {
        PgError::new(b"XX000", "could not draw random bytes").raise();
    }
    key
}
