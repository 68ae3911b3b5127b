//! Pins the settings that decide how values print (DateStyle and others) to the ledger's.
use std::ffi::{c_char, c_int, CStr};

use pgrx::pg_sys;

mod raw {
    use super::{c_char, c_int, pg_sys};
    c_functions! {
        pub(crate) fn NewGUCNestLevel() -> c_int;
        pub(crate) fn AtEOXact_GUC(commit: bool, level: c_int);
        pub(crate) fn pg_get_timezone_name(zone: *mut pg_sys::pg_tz) -> *const c_char;
    }
    extern "C" {
        pub(crate) static bytea_output: c_int;
        pub(crate) static locale_monetary: *const c_char;
    }
}

/// As they are while a block runs.
pub(crate) const TEXTS: &[(&CStr, &CStr)] = &[
    (c"TimeZone", c"UTC"),
    (c"DateStyle", c"ISO, MDY"),
    (c"IntervalStyle", c"postgres"),
    (c"extra_float_digits", c"1"),
    (c"bytea_output", c"hex"),
    (c"lc_monetary", c"C"),
];

/// bytea.h: BYTEA_OUTPUT_HEX.
const HEX: c_int = 1;

/// Runs `f`, which writes values as text, under the settings that decide about their texts. Cost:
/// some 20 ns where these hold already, as in a block.
pub(crate) fn values_pinned<T>(f: impl FnOnce() -> T) -> T {
    if hold() {
        return f();
    }
    // SAFETY: the nest level opened here is closed here; names and values are static.
    unsafe {
        let level = raw::NewGUCNestLevel();
        for (name, value) in TEXTS {
            set(name, value);
        }
        let result = f();
        raw::AtEOXact_GUC(true, level);
        result
    }
}

/// Whether values have the texts that they have under [`TEXTS`]. The variables behind the settings
/// tell it sooner than their own texts.
fn hold() -> bool {
    // SAFETY: reads variables of the process; the texts are C strings.
    unsafe {
        pg_sys::extra_float_digits > 0
            && pg_sys::DateStyle == pg_sys::USE_ISO_DATES as c_int
            && pg_sys::IntervalStyle == pg_sys::INTSTYLE_POSTGRES as c_int
            && raw::bytea_output == HEX
            && CStr::from_ptr(raw::locale_monetary) == c"C"
            && CStr::from_ptr(raw::pg_get_timezone_name(pg_sys::session_timezone)) == c"UTC"
    }
}

/// # Safety
/// A GUC nest level must be open, to which the change belongs.
pub(crate) unsafe fn set(name: &CStr, value: &CStr) {
    // SAFETY: the current value is a C string that is read at once.
    unsafe {
        let current = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        // Those of a language that is not loaded yet and that nobody has set will be as it is made.
        if current.is_null() || CStr::from_ptr(current) == value {
            return; // each setting changed makes every later nest level dearer
        }
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}
