//! Writes policies, and the agreements that they still need, as text.

use std::fmt;

/// Whether a column's name needs no quotes.
pub(crate) fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// `AND(a, b)`, `OR(a, b)` or `2 OF (a, b, c)`.
pub(crate) fn write_list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, count: usize, parts: &[T]) -> fmt::Result {
    match count {
        _ if count == parts.len() => f.write_str("AND(")?,
        1 => f.write_str("OR(")?,
        _ => write!(f, "{count} OF (")?,
    }
    for (i, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
    }
    f.write_str(")")
}
