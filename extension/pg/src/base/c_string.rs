//! Rust text as a C string.
use std::ffi::CString;

use crate::base::error::PgError;

/// Fails with 22021 for a text with a zero byte, as PostgreSQL's own input does.
pub(crate) fn c_string(text: &str) -> Result<CString, PgError> {
    CString::new(text).map_err(|_| {
        PgError::new(
            b"22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )
    })
}
