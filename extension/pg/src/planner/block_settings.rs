//! Settings and time as they are while a block runs: equal on every node.
use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::base::activity::show_query;
use crate::base::major;
use crate::base::value_settings::{set, TEXTS};

/// PostgreSQL's functions without pgrx's boundary, for every transaction: they raise nothing.
mod raw {
    use std::ffi::{c_char, c_int};
    c_functions! {
        pub(crate) fn NewGUCNestLevel() -> c_int;
        pub(crate) fn AtEOXact_GUC(commit: bool, level: c_int);
        pub(crate) fn pgstat_report_appname(text: *const c_char);
    }
}

/// Temporary objects last: they hide nothing.
const SEARCH_PATH: &CStr = c"public, pg_temp";

/// Other settings that change results, or wording that can reach a result. Those of the planner are
/// in [`agreed_plans`](crate::planner::agreed_plans).
const PINNED: &[(&CStr, &CStr)] = &[
    (c"search_path", SEARCH_PATH),
    (c"timezone_abbreviations", c"Default"),
    (c"xmloption", c"content"),
    (c"xmlbinary", c"base64"),
    (c"lc_messages", c"C"),
    (c"lc_numeric", c"C"),
    (c"lc_time", c"C"),
    (c"default_text_search_config", c"pg_catalog.english"),
    (c"standard_conforming_strings", c"on"),
    (c"escape_string_warning", c"on"),
    (c"backslash_quote", c"safe_encoding"),
    (c"array_nulls", c"on"),
    (c"transform_null_equals", c"off"),
    (c"quote_all_identifiers", c"off"),
    (c"check_function_bodies", c"on"),
    (c"row_security", c"on"),
    (c"session_replication_role", c"origin"),
    (c"synchronize_seqscans", c"off"),
    (major::FORCES_PARALLEL, c"off"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"0"),
    (c"gin_fuzzy_search_limit", c"0"),
    (c"max_stack_depth", c"2MB"),
    // A plan made for values computes `$1 + 1` while it is made, and fails where a plan for any
    // value would not come to it. Which of the two a statement gets would follow from how often
    // this session ran it.
    (c"plan_cache_mode", c"force_generic_plan"),
    (c"default_table_access_method", c"heap"),
    (c"default_toast_compression", c"pglz"),
    (c"default_tablespace", c""),
    (c"temp_tablespaces", c""),
    (c"zero_damaged_pages", c"off"),
    (c"ignore_checksum_failure", c"off"),
    (c"exit_on_error", c"off"),
    (c"client_min_messages", c"warning"),
    (c"plpgsql.variable_conflict", c"error"),
    (c"plpgsql.check_asserts", c"on"),
    (c"plpgsql.extra_errors", c"none"),
    (c"plpgsql.extra_warnings", c"none"),
    (c"plpgsql.print_strict_params", c"off"),
    (c"isn.weak", c"off"), // since 18
];

thread_local! {
    static PINNED_NOW: Cell<bool> = const { Cell::new(false) };
}

/// Whether the pinned settings are in force: plans are those that all organisations have.
#[inline]
pub(crate) fn are_pinned() -> bool {
    PINNED_NOW.get()
}

/// Runs `f` under the pinned settings, without the session's temporary schema. When `f` raises,
/// abort processing puts the session's own settings back.
pub fn pinned<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PINNED_NOW.set(self.0);
        }
    }
    let _restore = Restore(PINNED_NOW.replace(true));
    let _hidden = TemporarySchema::hide();
    // SAFETY: the nest level opened here is closed here; names and values are static.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in TEXTS.iter().chain(PINNED).chain(major::PINNED) {
            set(name, value);
        }
        let result = f();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// A session that has had a temporary object, of a repair for example, has a schema for them. Names
/// in it are then unknown with another SQLSTATE than in a session without one. Dropped, it is
/// there again.
struct TemporarySchema {
    schema: pg_sys::Oid,
    toast: pg_sys::Oid,
}

impl TemporarySchema {
    fn hide() -> Self {
        let mut own = Self {
            schema: pg_sys::InvalidOid,
            toast: pg_sys::InvalidOid,
        };
        // SAFETY: both places are writable.
        unsafe { pg_sys::GetTempNamespaceState(&mut own.schema, &mut own.toast) };
        own.have(pg_sys::InvalidOid, pg_sys::InvalidOid);
        own
    }

    fn have(&self, schema: pg_sys::Oid, toast: pg_sys::Oid) {
        if self.schema != pg_sys::InvalidOid {
            // SAFETY: none, or the session's own.
            unsafe { pg_sys::SetTempNamespaceState(schema, toast) }
        }
    }
}

impl Drop for TemporarySchema {
    fn drop(&mut self) {
        self.have(self.schema, self.toast);
    }
}

/// Those of the pinned settings that decide about a statement's result, or its values' texts.
const DECIDE: &[&CStr] = &[
    c"TimeZone",
    c"timezone_abbreviations",
    c"DateStyle",
    c"IntervalStyle",
    c"extra_float_digits",
    c"xmloption",
    c"xmlbinary",
    c"bytea_output",
    c"default_text_search_config",
    c"standard_conforming_strings",
    c"array_nulls",
    c"transform_null_equals",
    c"row_security",
    c"session_replication_role",
];

/// Whether a statement means in this session what it means in a block: names and literals are read
/// alike.
pub fn reads_as_in_a_block() -> bool {
    let alike = |(name, value): &(&CStr, &CStr)| {
        // SAFETY: the value is a C string that is read at once, or null.
        let current = unsafe {
            let current = pg_sys::GetConfigOption(name.as_ptr(), true, false);
            current.as_ref().map(|current| CStr::from_ptr(current))
        };
        current == Some(value)
            || *name == c"TimeZone" && current.is_some_and(|zone| zone == c"Etc/UTC")
            // Drivers set them to 2 or 3, which means the same.
            || *name == c"extra_float_digits" && current.is_some_and(|n| [c"2", c"3"].contains(&n))
    };
    let decide = TEXTS.iter().chain(PINNED);
    let decide = decide.filter(|(name, _)| DECIDE.contains(name));
    decide.copied().collect::<Vec<_>>().iter().all(alike) && {
        let of_session = schemas();
        under_path(schemas) == of_session
    }
}

/// The schemas in which names are looked up, in their order.
fn schemas() -> Vec<pg_sys::Oid> {
    // SAFETY: a list of OIDs in the current memory context.
    unsafe {
        let list = pg_sys::fetch_search_path(true);
        match list.as_ref() {
            Some(list) => (0..list.length as usize)
                .map(|at| (*list.elements.add(at)).oid_value)
                .collect(),
            None => Vec::new(),
        }
    }
}

/// The same as [`pinned`], giving up a lock that is not to be had within [`IMPATIENCE`].
pub fn pinned_impatiently<T>(f: impl FnOnce() -> T) -> T {
    pinned(|| {
        // SAFETY: inside the nest level of `pinned`; name and value are static.
        unsafe { set(c"lock_timeout", IMPATIENCE) }
        f()
    })
}

/// Runs `f` under the search_path of a block, which a user's conditions and defaults are written
/// for: to write a user's table, as its owner, outside of a block. SQL that `f` runs names
/// everything with its schema ([`crate::base::spi::as_caller`]).
pub fn under_path<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the nest level opened here is closed here; name and value are static.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        set(c"search_path", SEARCH_PATH);
        let result = f();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Long enough for what two writers of one table wait for each other anyway: that it grows by a
/// page, on a busy machine. Shorter than what the conflict worker waits (`PART_WAIT_MAX`).
const IMPATIENCE: &CStr = c"100ms";

/// Runs `f` and takes back whatever settings it changed; on an error abort processing does.
pub fn settings_undone<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the nest level opened here is closed here.
    unsafe {
        let level = raw::NewGUCNestLevel();
        let result = f();
        raw::AtEOXact_GUC(false, level);
        result
    }
}

/// `setseed(float8)` in pg_proc.
const SETSEED: pg_sys::Oid = pg_sys::Oid::from_u32(1599);

/// Makes `random()` give the sequence that belongs to `seed`.
pub fn seed_random(seed: &[u8; 32]) {
    let mut high = [0; 8];
    high.copy_from_slice(&seed[..8]);
    // 53 bits over 2^53: in [0, 1), the range of setseed.
    let fraction = (u64::from_be_bytes(high) >> 11) as f64 / (1u64 << 53) as f64;
    // SAFETY: setseed takes one float8 by value.
    unsafe {
        pg_sys::OidFunctionCall1Coll(
            SETSEED,
            pg_sys::InvalidOid,
            pg_sys::Datum::from(fraction.to_bits()),
        );
    }
}

/// Shows `text` as the session's application name until the next call, as far as a name may be
/// long; None puts the session's own name back.
pub fn show_activity(text: Option<&str>) {
    let mut name = [0; pg_sys::NAMEDATALEN as usize];
    // SAFETY: copied into shared memory, by whole characters, from a C string: `name` ends with a
    // zero, and application_name is always one.
    unsafe {
        raw::pgstat_report_appname(match text {
            Some(text) => {
                let length = text.len().min(name.len() - 1);
                name[..length].copy_from_slice(&text.as_bytes()[..length]);
                name.as_ptr().cast()
            }
            None => pg_sys::application_name.cast_const(),
        })
    }
    // A function may have a setting application_name of its own; the query shown is out of its
    // reach.
    show_query(&match text {
        Some(text) => format!("{text}: execute_block()"),
        None => "execute_block()".to_owned(),
    });
}
