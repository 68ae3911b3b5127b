//! PostgreSQL's texts of values.
use std::fmt::Write;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};

use crate::calendar::{Day, DAY};
use crate::error::SqlError;
use crate::float;

/// Whether the dialect has the type.
pub(crate) fn is_known(of: &DataType) -> bool {
    use DataType::*;
    matches!(
        of,
        Boolean
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(_, 0..)
            | Utf8
            | LargeUtf8
            | Utf8View
            | Date32
            | Time64(TimeUnit::Microsecond)
            | Timestamp(TimeUnit::Microsecond, _)
            | Duration(TimeUnit::Microsecond)
            | FixedSizeBinary(16)
            | Binary
            | BinaryView
    )
}

/// Appends the text that PostgreSQL's output function gives, with ISO dates and times in UTC.
/// False: the value is NULL, and nothing is appended. 0A000 for a type that the dialect does not
/// have. Panics on a row that the array does not have. Cost: linear in the text.
pub fn write_text(array: &dyn Array, row: usize, out: &mut String) -> Result<bool, SqlError> {
    if array.data_type().is_null() || array.is_null(row) {
        return Ok(false);
    }
    match array.data_type() {
        DataType::Boolean => out.push(if array.as_boolean().value(row) { 't' } else { 'f' }),
        DataType::Int16 => shown(out, array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => shown(out, array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => shown(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => float::write(array.as_primitive::<Float32Type>().value(row), out),
        DataType::Float64 => float::write(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal128(_, scale @ 0..) => {
            let scale = usize::from(scale.unsigned_abs());
            decimal(out, array.as_primitive::<Decimal128Type>().value(row), scale);
        }
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => out.push_str(array.as_string::<i64>().value(row)),
        DataType::Utf8View => out.push_str(array.as_string_view().value(row)),
        DataType::Binary => bytes(out, array.as_binary::<i32>().value(row)),
        DataType::BinaryView => bytes(out, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(16) => uuid(out, array.as_fixed_size_binary().value(row)),
        DataType::Date32 => date(out, array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(TimeUnit::Microsecond) => {
            time(out, array.as_primitive::<Time64MicrosecondType>().value(row));
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
            timestamp(out, value, zone.is_some());
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            interval(out, array.as_primitive::<DurationMicrosecondType>().value(row));
        }
        of => return Err(SqlError::unsupported(format!("a value of type {of}"))),
    }
    Ok(true)
}

fn shown(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String does not fail.
    let _ = write!(out, "{value}");
}

fn decimal(out: &mut String, value: i128, scale: usize) {
    if scale == 0 {
        return shown(out, value);
    }
    let digits = value.unsigned_abs().to_string();
    let whole = digits.len().saturating_sub(scale);
    let sign = if value < 0 { "-" } else { "" };
    let before = if whole == 0 { "0" } else { &digits[..whole] };
    shown(out, format_args!("{sign}{before}.{:0>scale$}", &digits[whole..]));
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        shown(out, format_args!("{byte:02x}"));
    }
}

fn bytes(out: &mut String, bytes: &[u8]) {
    out.push_str("\\x");
    hex(out, bytes);
}

fn uuid(out: &mut String, mut bytes: &[u8]) {
    for length in [4, 2, 2, 2, 6] {
        let (group, rest) = bytes.split_at(length.min(bytes.len()));
        hex(out, group);
        bytes = rest;
        if !rest.is_empty() {
            out.push('-');
        }
    }
}

/// The day without the mark of years before 1; true: it follows.
fn day(out: &mut String, number: i64) -> bool {
    let Day { year, month, day } = Day::of(number);
    let shown_year = if year > 0 { year } else { 1 - year };
    shown(out, format_args!("{shown_year:04}-{month:02}-{day:02}"));
    year <= 0
}

fn date(out: &mut String, number: i32) {
    match number {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            if day(out, number.into()) {
                out.push_str(" BC");
            }
        }
    }
}

fn time(out: &mut String, micros: i64) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    shown(out, format_args!("{hours:02}:{minutes:02}:{:02}", seconds % 60));
    if fraction > 0 {
        shown(out, format_args!(".{fraction:06}"));
        let length = out.trim_end_matches('0').len();
        out.truncate(length);
    }
}

/// An interval of days and a time, in the style `postgres`.
fn interval(out: &mut String, micros: i64) {
    let (days, rest) = (micros / DAY, micros % DAY);
    if days != 0 {
        shown(out, format_args!("{days} day{}", if days == 1 { "" } else { "s" }));
    }
    if rest != 0 || days == 0 {
        out.push_str(if days == 0 { "" } else { " " });
        out.push_str(if rest < 0 { "-" } else { "" });
        time(out, rest.abs());
    }
}

fn timestamp(out: &mut String, micros: i64, zone: bool) {
    match micros {
        i64::MAX => out.push_str("infinity"),
        i64::MIN => out.push_str("-infinity"),
        _ => {
            let before_christ = day(out, micros.div_euclid(DAY));
            out.push(' ');
            time(out, micros.rem_euclid(DAY));
            out.push_str(if zone { "+00" } else { "" });
            out.push_str(if before_christ { " BC" } else { "" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{
        BinaryArray, BinaryViewArray, FixedSizeBinaryArray, ListArray, NullArray, StringArray,
    };

    fn text(array: &dyn Array) -> String {
        let mut out = String::new();
        write_text(array, 0, &mut out).expect("a type of the dialect");
        out
    }

    #[test]
    fn bytes_and_texts() {
        let bytes: &[u8] = &[0, 255, 16];
        assert_eq!(text(&BinaryArray::from(vec![bytes])), r"\x00ff10");
        assert_eq!(text(&BinaryViewArray::from(vec![bytes])), r"\x00ff10");
        let uuid: Vec<u8> = (0..16).collect();
        let array = FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).expect("16 bytes");
        assert_eq!(text(&array), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(text(&StringArray::from(vec!["it's"])), "it's");
    }

    #[test]
    fn nulls_and_other_types() {
        let mut out = String::new();
        assert_eq!(write_text(&NullArray::new(1), 0, &mut out), Ok(false));
        let null = StringArray::from(vec![None::<&str>]);
        assert_eq!(write_text(&null, 0, &mut out), Ok(false));
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
        let error = write_text(&list, 0, &mut out).expect_err("a list");
        assert_eq!(error.sqlstate, "0A000");
        assert_eq!(out, "");
    }
}
