//! Constants.
use super::value::{quoted, Form, Value};
use super::Writer;
use crate::query::Typed;
use crate::types::{width, Type, DIGITS_MAX};
use crate::{Kind, Refusal};

/// Bytes from which on a text is long, and of all long ones that the worker may repeat.
const LONG_TEXT_BYTES: usize = 64;
const LONG_TEXTS_BYTES_MAX: usize = 32 << 10;

impl Writer {
    pub(super) fn constant(&self, typed: Typed, text: Option<&str>) -> Result<Value, Refusal> {
        let Some(text) = text else {
            return Ok(null(typed.of));
        };
        let mut value = Value::new(literal(typed.of, text)?, typed.of);
        if typed.of == Type::Numeric {
            let scale = digits_behind_point(text);
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            value.form = Form::Decimal(scale);
            value.before = u8::try_from(digits).ok().map(|digits| digits.saturating_sub(scale));
        }
        let padded = |n: &usize| typed.of == Type::Bpchar && text.chars().count() == *n;
        value.width = width(typed.typmod).filter(padded);
        value.constant = Some(Some(text.to_owned()));
        value.not_null = true;
        Ok(value)
    }

    /// The same where the worker may repeat it for each row: not as an argument of a call.
    pub(super) fn repeated(&mut self, typed: Typed, text: Option<&str>) -> Result<Value, Refusal> {
        let bytes = text.map_or(0, str::len);
        if matches!(typed.of, Type::Text | Type::Bpchar | Type::Bytea) && bytes > LONG_TEXT_BYTES {
            self.text_bytes += bytes;
        }
        match self.text_bytes > LONG_TEXTS_BYTES_MAX {
            true => Err(Refusal::new(
                Kind::LongTexts,
                format!("constants of more than {LONG_TEXTS_BYTES_MAX} bytes together"),
            )),
            false => self.constant(typed, text),
        }
    }
}

fn null(of: Type) -> Value {
    let sql = match (of.cast_name(), of.arrow_name()) {
        (Some(name), _) => format!("CAST(NULL AS {name})"),
        (None, Some(name)) => format!("arrow_cast(NULL, '{name}')"),
        (None, None) => "CAST(NULL AS DECIMAL(38,0))".to_owned(),
    };
    Value { constant: Some(None), ..Value::new(sql, of) }
}

fn literal(of: Type, text: &str) -> Result<String, Refusal> {
    let refused = || Err(Refusal::new(Kind::Value, format!("the value {}", quoted(text))));
    if text.contains('\0') {
        return refused();
    }
    Ok(match of {
        Type::Bool => (if text == "t" { "TRUE" } else { "FALSE" }).to_owned(),
        // The smallest number is not one with a sign before it.
        Type::Int8 if text == "-9223372036854775808" => format!("CAST('{text}' AS BIGINT)"),
        Type::Int2 | Type::Int4 | Type::Int8 => {
            format!("CAST({text} AS {})", of.cast_name().unwrap_or("BIGINT"))
        }
        Type::Float4 | Type::Float8 => {
            if !text.bytes().all(|b| b"0123456789.e+-".contains(&b)) {
                return refused(); // NaN and infinities
            }
            format!("CAST('{text}' AS {})", of.cast_name().unwrap_or("DOUBLE"))
        }
        Type::Numeric => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let plain = text.bytes().all(|b| b"0123456789.-".contains(&b));
            let scale = digits_behind_point(text);
            if !plain || digits > usize::from(DIGITS_MAX) {
                return refused();
            }
            format!("CAST('{text}' AS DECIMAL({},{scale}))", digits.max(1))
        }
        Type::Text | Type::Bpchar => quoted(text),
        Type::Date if is_plain_date(text) => format!("CAST('{text}' AS DATE)"),
        Type::Timestamp
            if is_plain_date(text.get(..10).unwrap_or("")) && text.len() <= 26 && !text.ends_with(" BC") =>
        {
            arrow_cast(of, text)
        }
        Type::TimestampTz if is_plain_date(text.get(..10).unwrap_or("")) => {
            match text.strip_suffix("+00").filter(|text| text.len() <= 26) {
                Some(text) => arrow_cast(of, text),
                None => return refused(),
            }
        }
        Type::Time if !text.starts_with("24") => arrow_cast(of, text),
        Type::Uuid => format!("pg_uuid('{text}')"),
        Type::Bytea => match text.strip_prefix("\\x") {
            Some(digits) => format!("pg_bytea('{digits}')"),
            None => return refused(),
        },
        _ => return refused(),
    })
}

fn arrow_cast(of: Type, text: &str) -> String {
    format!("arrow_cast('{text}', '{}')", of.arrow_name().unwrap_or(""))
}

/// `YYYY-MM-DD` alone: no infinities, no years beyond four digits, none before Christ.
fn is_plain_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit_or_dash = |(at, b): (usize, &u8)| match at {
        4 | 7 => *b == b'-',
        _ => b.is_ascii_digit(),
    };
    bytes.len() == 10 && bytes.iter().enumerate().all(digit_or_dash)
}

fn digits_behind_point(text: &str) -> u8 {
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    u8::try_from(digits).unwrap_or(u8::MAX)
}
