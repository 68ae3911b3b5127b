//! The search path of the ledger's own SQL (invariant X11).
use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

/// PostgreSQL's functions without pgrx's boundary: the name and the value are right, so that they
/// raise nothing.
mod raw {
    use super::pg_sys;
    use std::ffi::{c_char, c_int};
    c_functions! {
        pub(crate) fn NewGUCNestLevel() -> c_int;
        pub(crate) fn AtEOXact_GUC(commit: bool, level: c_int);
        pub(crate) fn set_config_option(
            name: *const c_char,
            value: *const c_char,
            context: pg_sys::GucContext::Type,
            source: pg_sys::GucSource::Type,
            action: pg_sys::GucAction::Type,
            change: bool,
            level: c_int,
            reload: bool,
        ) -> c_int;
    }
}

/// Nobody but a superuser makes anything in pg_catalog. pg_temp comes last: else it would come
/// first, and temporary tables and types would hide what own SQL names. PostgreSQL never looks for
/// functions and operators there.
const OWN: &CStr = c"pg_catalog, pg_temp";

thread_local! {
    /// Own SQL is under way.
    static UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the ledger's own SQL is under way, or what it called.
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.get()
}

/// Runs `f` under [`OWN`], and puts the path back that was there. On an error abort processing does
/// that.
///
/// Cost: a comparison of two texts where the path is right already, else some microseconds.
pub(crate) fn own_path<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNDER_WAY.set(self.0);
        }
    }
    let _restore = Restore(UNDER_WAY.replace(true));
    // SAFETY: the setting is always a C string.
    match unsafe { CStr::from_ptr(pg_sys::namespace_search_path) } == OWN {
        true => f(),
        false => with_setting(c"search_path", OWN, f),
    }
}

/// Runs `f` with another value of a setting, and puts the old one back. On an error abort
/// processing does that.
pub(crate) fn with_setting<T>(name: &CStr, value: &CStr, f: impl FnOnce() -> T) -> T {
    with_settings(std::iter::once((name, value)), f)
}

/// The same with several settings. Cost: nothing when there are none.
pub(crate) fn with_settings<'s, T>(
    settings: impl Iterator<Item = (&'s CStr, &'s CStr)>,
    f: impl FnOnce() -> T,
) -> T {
    let mut level = None;
    for (name, value) in settings {
        // SAFETY: both are C strings; the nest level opened here is closed below.
        unsafe {
            level.get_or_insert_with(|| raw::NewGUCNestLevel());
            raw::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
    }
    let result = f();
    if let Some(level) = level {
        // SAFETY: opened above.
        unsafe { raw::AtEOXact_GUC(true, level) }
    }
    result
}
