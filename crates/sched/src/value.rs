//! Values of columns as key bytes: `spec/scheduling.md`, "Values".
//!
//! The encoding of a class keeps its order and is prefix-free: no value's bytes begin with all of
//! another's. So the encodings of a key's columns, one after the other, keep the order of the rows.

/// How the values of a column compare. Columns of one class compare exactly, whatever their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// false, true.
    Bool,
    /// Integers of any width.
    Integer,
    /// Decimals with any scale; equal when they are the same number.
    Decimal,
    /// Texts by their bytes.
    Text,
    /// Texts by their bytes without spaces at the end: `char(n)`.
    Padded,
    /// Byte strings.
    Bytes,
    /// 16 bytes.
    Uuid,
    /// Days.
    Date,
    /// Microseconds without a time zone.
    Timestamp,
    /// Microseconds with a time zone.
    Instant,
    /// Names without an order here: enumerations.
    Symbol,
}

/// A value that a statement is run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A decimal as PostgreSQL prints it.
    Decimal(String),
    /// A text, without zero bytes.
    Text(Vec<u8>),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// Days.
    Date(i32),
    /// Microseconds.
    Timestamp(i64),
    /// Microseconds.
    Instant(i64),
    /// The number of a name.
    Symbol(u32),
    /// An array of one dimension whose elements are numbered from 1.
    Array(Vec<Value>),
    /// The elements of another array.
    Elements(Vec<Value>),
    /// A value without encoding, or too long for one.
    Opaque,
}

/// In front of a value, and instead of one.
const PRESENT: u8 = 1;
const NULL: u8 = 2;

/// Appends the encoding of `value`, which is NULL or belongs to `class`; otherwise appends nothing
/// and returns false. NULL comes after all others. Cost: linear.
pub fn encode(class: Class, value: &Value, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.push(PRESENT);
    match (class, value) {
        (_, Value::Null) => out[start] = NULL,
        (Class::Bool, Value::Bool(value)) => out.push(u8::from(*value)),
        (Class::Integer, Value::Integer(value))
        | (Class::Timestamp, Value::Timestamp(value))
        | (Class::Instant, Value::Instant(value)) => out.extend(ordered(*value)),
        (Class::Date, Value::Date(value)) => out.extend(ordered(i64::from(*value))),
        (Class::Decimal, Value::Integer(value)) => return decimal(&value.to_string(), start, out),
        (Class::Decimal, Value::Decimal(value)) => return decimal(value, start, out),
        (Class::Text, Value::Text(value)) => ended(value, out),
        (Class::Padded, Value::Text(value)) => ended(trimmed(value), out),
        (Class::Bytes, Value::Bytes(value)) => ended(value, out),
        (Class::Uuid, Value::Uuid(value)) => out.extend(value),
        (Class::Symbol, Value::Symbol(value)) => out.extend(value.to_be_bytes()),
        _ => {
            out.truncate(start);
            return false;
        }
    }
    true
}

/// Where the values that are not NULL begin, and where they end.
pub(crate) const VALUES: (u8, u8) = (PRESENT, NULL);

fn ordered(value: i64) -> [u8; 8] {
    ((value as u64) ^ (1 << 63)).to_be_bytes()
}

fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// A zero byte is followed by ff, the end is marked by two zero bytes: it comes before every longer
/// string.
fn ended(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 0]);
}

/// Kinds of decimals, ascending.
const MINUS_INFINITY: u8 = 1;
const NEGATIVE: u8 = 2;
const ZERO: u8 = 3;
const POSITIVE: u8 = 4;
const INFINITY: u8 = 5;
const NOT_A_NUMBER: u8 = 6;

/// The kind. In numbers but zero the place of the first digit follows, then the digits plus one up
/// to the last that is not zero, then a zero. Negative numbers have everything after the kind
/// inverted.
fn decimal(text: &str, start: usize, out: &mut Vec<u8>) -> bool {
    let special = match text {
        "NaN" => Some(NOT_A_NUMBER),
        "Infinity" => Some(INFINITY),
        "-Infinity" => Some(MINUS_INFINITY),
        _ => None,
    };
    if let Some(kind) = special {
        out.push(kind);
        return true;
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = || integer.bytes().chain(fraction.bytes());
    if integer.is_empty() || !all().all(|digit| digit.is_ascii_digit()) {
        out.truncate(start);
        return false;
    }
    let Some(first) = all().position(|digit| digit != b'0') else {
        out.push(ZERO);
        return true;
    };
    let last = all().count() - all().rev().position(|digit| digit != b'0').unwrap_or(0);
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let number = out.len();
    let place = integer.len() as i64 - first as i64;
    out.extend(ordered(place));
    out.extend(all().take(last).skip(first).map(|digit| digit - b'0' + 1));
    out.push(0);
    if negative {
        out[number..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    true
}
