//! Queries of the rows of some ranges of keys.
use chainify_codec::KeyRanges;

/// A query of those of `rows` (columns `k` and `v`) in these ranges.
pub fn rows_in(ranges: &KeyRanges, rows: &str) -> String {
    format!("SELECT k, v FROM ({rows}) r WHERE {}", key_in(ranges, "k"))
}

/// A query of those outside of them.
pub fn rows_outside(ranges: &KeyRanges, rows: &str) -> String {
    let inside = key_in(ranges, "k");
    format!("SELECT k, v FROM ({rows}) r WHERE NOT {inside}")
}

/// A condition on a canonical key.
pub fn key_in(ranges: &KeyRanges, key: &str) -> String {
    let list: Vec<_> = ranges.ranges().iter().map(u32::to_string).collect();
    format!(
        "(chainify_ledger.key_range({key}, {}) = ANY ('{{{}}}'))",
        ranges.bits(),
        list.join(",")
    )
}
