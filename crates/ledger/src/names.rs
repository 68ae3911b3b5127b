//! Names that organisations exchange.

use crate::WireError;

/// Bytes of a chain id; CometBFT's own limit.
pub const CHAIN_ID_BYTES_MAX: usize = 50;
/// Bytes of an organisation's or a role's name; PostgreSQL's limit for names.
pub const NAME_BYTES_MAX: usize = 63;
const TABLE_BYTES_MAX: usize = NAME_BYTES_MAX + 1 + NAME_BYTES_MAX;

/// A chain id: 1 to 50 bytes of `[a-z][a-z0-9_-]*`.
pub fn check_chain_id(name: &str) -> Result<(), WireError> {
    check_length("chain_id", name, CHAIN_ID_BYTES_MAX)?;
    check_letters("chain_id", name)
}

/// An organisation: 1 to 63 bytes of `[a-z][a-z0-9_-]*`.
pub fn check_organisation(name: &str) -> Result<(), WireError> {
    check_length("organisation", name, NAME_BYTES_MAX)?;
    check_letters("organisation", name)
}

/// A database role: 1 to 63 bytes, none of them zero.
pub fn check_role(name: &str) -> Result<(), WireError> {
    check_length("role", name, NAME_BYTES_MAX)?;
    check_text("role", name)
}

/// Text that PostgreSQL can hold: no zero byte.
pub(crate) fn check_text(field: &str, text: &str) -> Result<(), WireError> {
    if text.contains('\0') {
        return Err(WireError::new(field, "contains a zero byte"));
    }
    Ok(())
}

/// A table, `schema.name` unquoted: two names of at most 63 bytes with a dot between them.
pub(crate) fn check_table(field: &str, name: &str) -> Result<(), WireError> {
    check_length(field, name, TABLE_BYTES_MAX)?;
    check_text(field, name)?;
    let inside = name.as_bytes().get(1..name.len() - 1);
    if !inside.is_some_and(|inside| inside.contains(&b'.')) {
        return Err(WireError::new(field, "has no dot between a schema and a name"));
    }
    Ok(())
}

fn check_length(field: &str, name: &str, bytes_max: usize) -> Result<(), WireError> {
    if name.is_empty() {
        return Err(WireError::new(field, "is empty"));
    }
    if name.len() > bytes_max {
        return Err(WireError::new(field, format!("longer than {bytes_max} bytes")));
    }
    Ok(())
}

fn check_letters(field: &str, name: &str) -> Result<(), WireError> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase());
    let rest = name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    if !first || !rest {
        return Err(WireError::new(field, "does not match [a-z][a-z0-9_-]*"));
    }
    Ok(())
}
