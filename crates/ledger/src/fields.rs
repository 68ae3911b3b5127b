//! Reads fields of JSON that another organisation sent. Nothing in it is trusted; errors name the
//! field.

use chainify_codec::from_hex;
use serde_json::Value;

pub(crate) fn member<'v>(of: &'v Value, field: &str) -> Result<&'v Value, String> {
    of.get(field).ok_or_else(|| format!("{field} is missing"))
}

pub(crate) fn text<'v>(of: &'v Value, field: &str) -> Result<&'v str, String> {
    let text = member(of, field)?.as_str();
    text.ok_or_else(|| format!("{field} is no text"))
}

pub(crate) fn integer<T: std::str::FromStr>(of: &Value, field: &str) -> Result<T, String> {
    number(member(of, field)?).ok_or_else(|| format!("{field} is no such number"))
}

pub(crate) fn bytes(of: &Value, field: &str) -> Result<Vec<u8>, String> {
    from_hex(text(of, field)?).ok_or_else(|| format!("{field} is not hexadecimal"))
}

/// A whole number that the type has.
pub(crate) fn number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    value.is_number().then(|| value.to_string().parse().ok()).flatten()
}
