//! Loading of the library.
use pgrx::pg_sys;

use crate::base::error::{enter, PgError};

/// Runs `f` when loaded by the postmaster; refuses a library loaded later, by one session only.
pub fn init(f: impl FnOnce()) {
    // SAFETY: the whole body of _PG_init; the flag is set by the postmaster before any thread could
    // exist.
    unsafe {
        enter(|| {
            if !pg_sys::process_shared_preload_libraries_in_progress {
                PgError::new(b"55000", "chainify must be loaded by the server, not by a session")
                    .hint("Add chainify to shared_preload_libraries in postgresql.conf and restart the server.")
                    .raise();
            }
            f();
        })
    }
}

/// Exports `_PG_init`, which runs `$f` by [`init`].
#[macro_export]
macro_rules! at_load {
    ($f:path) => {
        #[allow(non_snake_case)]
        #[no_mangle]
        pub extern "C-unwind" fn _PG_init() {
            $crate::base::startup::init($f);
        }
    };
}
