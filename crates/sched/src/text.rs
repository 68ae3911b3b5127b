//! Reads values from the texts that clients send, without PostgreSQL's input functions.
//!
//! Only spellings that every version of a type's input function reads the same way are read here.
//! `None` means that the caller has to ask the input function, for errors too.

use crate::value::Value;
use crate::KEY_BYTES_MAX;

/// Elements of an array that is read here.
pub const ELEMENTS_MAX: usize = 256;

/// Types whose plain spellings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Integers of so many bytes: 2, 4 or 8.
    Integer(u8),
    /// Numbers without a bound on their digits.
    Decimal,
    /// Texts without a bound on their length.
    Text,
    /// Arrays of integers of so many bytes.
    Integers(u8),
}

impl Plain {
    /// The value that `text` spells: decimal digits with a minus at most in front. Decimals may
    /// have a point with digits on both sides. Arrays are such integers in one pair of braces,
    /// separated by commas alone. Cost: linear.
    pub fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Integer(bytes) => integer(bytes, text),
            Self::Decimal => decimal(text).then(|| Value::Decimal(text.to_owned())),
            Self::Text if text.len() > KEY_BYTES_MAX => None,
            Self::Text => (!text.contains('\0')).then(|| Value::Text(text.as_bytes().to_vec())),
            Self::Integers(bytes) => {
                let inner = text.strip_prefix('{')?.strip_suffix('}')?;
                if inner.is_empty() {
                    return Some(Value::Array(Vec::new()));
                }
                let elements = inner.split(',').take(ELEMENTS_MAX + 1).map(|element| integer(bytes, element));
                let elements: Vec<Value> = elements.collect::<Option<_>>()?;
                (elements.len() <= ELEMENTS_MAX).then_some(Value::Array(elements))
            }
        }
    }
}

fn integer(bytes: u8, text: &str) -> Option<Value> {
    if text.starts_with('+') {
        return None;
    }
    let value = match bytes {
        2 => text.parse::<i16>().ok()?.into(),
        4 => text.parse::<i32>().ok()?.into(),
        _ => text.parse::<i64>().ok()?,
    };
    Some(Value::Integer(value))
}

fn decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.strip_prefix('-').unwrap_or(text);
    text.len() <= KEY_BYTES_MAX
        && match number.split_once('.') {
            Some((integer, fraction)) => digits(integer) && digits(fraction),
            None => digits(number),
        }
}

#[cfg(test)]
mod tests {
    use super::{Plain, ELEMENTS_MAX};
    use crate::value::Value;

    #[test]
    fn only_plain_spellings_are_read() {
        let some = [
            (Plain::Integer(2), "-32768", Value::Integer(-32768)),
            (Plain::Integer(4), "007", Value::Integer(7)),
            (Plain::Integer(8), "9223372036854775807", Value::Integer(i64::MAX)),
            (Plain::Decimal, "-0.50", Value::Decimal("-0.50".into())),
            (Plain::Text, " a'", Value::Text(b" a'".to_vec())),
            (Plain::Integers(4), "{}", Value::Array(vec![])),
            (Plain::Integers(4), "{1,-2}", Value::Array(vec![Value::Integer(1), Value::Integer(-2)])),
        ];
        for (plain, text, value) in some {
            assert_eq!(plain.read(text), Some(value), "{plain:?} {text}");
        }
        let many = format!("{{{}1}}", "1,".repeat(ELEMENTS_MAX));
        let none = [
            (Plain::Integer(2), "32768"),
            (Plain::Integer(4), " 1"),
            (Plain::Integer(4), "+1"),
            (Plain::Integer(4), "1_000"),
            (Plain::Integer(4), ""),
            (Plain::Integer(4), "-"),
            (Plain::Integer(8), "0x10"),
            (Plain::Decimal, "1e5"),
            (Plain::Decimal, ".5"),
            (Plain::Decimal, "5."),
            (Plain::Decimal, "NaN"),
            (Plain::Text, "a\0"),
            (Plain::Integers(4), "{1, 2}"),
            (Plain::Integers(4), "{1,NULL}"),
            (Plain::Integers(4), "[0:1]={1,2}"),
            (Plain::Integers(4), "{{1},{2}}"),
            (Plain::Integers(4), "{1,}"),
            (Plain::Integers(4), &many),
        ];
        for (plain, text) in none {
            assert_eq!(plain.read(text), None, "{plain:?} {text}");
        }
    }
}
