//! Settings and time as they are while a block runs: equal on every node.
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::pg::base::activity::show_query;
use crate::pg::base::major;

/// PostgreSQL's functions without pgrx's boundary, for every transaction: they raise nothing.
mod raw {
    use std::ffi::{c_char, c_int};
    c_functions! {
        pub fn NewGUCNestLevel() -> c_int;
        pub fn AtEOXact_GUC(commit: bool, level: c_int);
        pub fn pgstat_report_appname(text: *const c_char);
    }
}

/// 1970-01-01 to 2000-01-01 in microseconds.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Temporary objects last: they hide nothing.
const SEARCH_PATH: &CStr = c"public, pg_temp";

/// Settings that decide about the texts of values.
const TEXTS: &[(&CStr, &CStr)] = &[
    (c"TimeZone", c"UTC"),
    (c"DateStyle", c"ISO, MDY"),
    (c"extra_float_digits", c"1"),
    (c"bytea_output", c"hex"),
];

/// Other settings that change results, wording that can reach a result, or plans.
const PINNED: &[(&CStr, &CStr)] = &[
    (c"search_path", SEARCH_PATH),
    (c"timezone_abbreviations", c"Default"),
    (c"IntervalStyle", c"postgres"),
    (c"xmloption", c"content"),
    (c"xmlbinary", c"base64"),
    (c"lc_messages", c"C"),
    (c"lc_monetary", c"C"),
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
    (c"max_parallel_workers_per_gather", c"0"),
    (major::FORCES_PARALLEL, c"off"),
    (c"jit", c"off"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"0"),
    (c"gin_fuzzy_search_limit", c"0"),
    (c"max_stack_depth", c"2MB"),
    // A plan made for values computes `$1 + 1` while it is made, and fails where a plan for any
    // value would not come to it. Which of the two a statement gets would follow from how often
    // this session ran it.
    (c"plan_cache_mode", c"force_generic_plan"),
    (c"constraint_exclusion", c"partition"),
    (c"enable_partition_pruning", c"on"),
    (c"enable_partitionwise_join", c"off"),
    (c"enable_partitionwise_aggregate", c"off"),
    (c"enable_seqscan", c"on"),
    (c"enable_indexscan", c"on"),
    (c"enable_indexonlyscan", c"on"),
    (c"enable_bitmapscan", c"on"),
    (c"enable_tidscan", c"on"),
    (c"enable_sort", c"on"),
    (c"enable_incremental_sort", c"on"),
    (c"enable_hashagg", c"on"),
    (c"enable_hashjoin", c"on"),
    (c"enable_mergejoin", c"on"),
    (c"enable_nestloop", c"on"),
    (c"enable_material", c"on"),
    (c"enable_memoize", c"on"),
    (c"enable_gathermerge", c"on"),
    (c"geqo", c"off"),
    (c"from_collapse_limit", c"8"),
    (c"join_collapse_limit", c"8"),
    (c"cursor_tuple_fraction", c"0.1"),
    (c"default_table_access_method", c"heap"),
    (c"default_toast_compression", c"pglz"),
    (c"default_tablespace", c""),
    (c"client_min_messages", c"warning"),
    (c"plpgsql.variable_conflict", c"error"),
    (c"plpgsql.check_asserts", c"on"),
    (c"plpgsql.extra_errors", c"none"),
    (c"plpgsql.extra_warnings", c"none"),
    (c"plpgsql.print_strict_params", c"off"),
];

/// Runs `f` under the pinned settings. When `f` raises, abort processing puts the session's own
/// back.
pub fn pinned<T>(f: impl FnOnce() -> T) -> T {
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

/// Runs `f`, which writes values as text, under the settings that decide about their texts.
pub(in crate::pg) fn values_pinned<T>(f: impl FnOnce() -> T) -> T {
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

/// Those of the pinned settings that decide about a statement's result, or its values' texts.
const DECIDE: &[&CStr] = &[
    c"TimeZone",
    c"timezone_abbreviations",
    c"DateStyle",
    c"IntervalStyle",
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
/// everything with its schema ([`crate::pg::base::spi::as_caller`]).
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

/// # Safety
/// A GUC nest level must be open, to which the change belongs.
unsafe fn set(name: &CStr, value: &CStr) {
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

/// Puts the transaction's start time back, also while unwinding: setting it cannot raise.
struct StartTimes(i64, i64);

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
        crate::pg::base::error::PgError::new(
            b"22008",
            format!("block time {unix_micros} is out of range"),
        )
        .raise()
    };
    // SAFETY: reads and sets two static variables.
    let _restore = unsafe {
        let saved = StartTimes(
            pg_sys::GetCurrentTransactionStartTimestamp(),
            pg_sys::GetCurrentStatementStartTimestamp(),
        );
        pg_sys::SetParallelStartTimestamps(time, time);
        saved
    };
    f()
}

/// timestamp.h: 4713-01-01 BC, and the end of 294276.
const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;

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
