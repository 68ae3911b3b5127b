//! Functions of texts. Places and lengths count characters.
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryViewBuilder, FixedSizeBinaryBuilder};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;

use crate::call::{is_text, is_whole, Call, Function, Types};
use crate::error::SqlError;
use crate::like::Pattern;

/// Bytes of the longest text of PostgreSQL.
const TEXT_BYTES_MAX: usize = (1 << 30) - 1;

/// The functions of this file.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new("pg_bpchar_key", 1..=1, texts, bpchar_key),
        Function::new("pg_length", 1..=1, |t| texts_to(t, DataType::Int32), length),
        Function::new("pg_octet_length", 1..=1, |t| texts_to(t, DataType::Int32), octet_length),
        Function::new("pg_substring", 2..=3, text_and_numbers, substring),
        Function::new("pg_left", 2..=2, text_and_numbers, |call| part(call, left)),
        Function::new("pg_right", 2..=2, text_and_numbers, |call| part(call, right)),
        Function::new("pg_position", 2..=2, |t| texts_to(t, DataType::Int32), position),
        Function::new("pg_btrim", 2..=2, texts, |call| trim(call, true, true)),
        Function::new("pg_ltrim", 2..=2, texts, |call| trim(call, true, false)),
        Function::new("pg_rtrim", 2..=2, texts, |call| trim(call, false, true)),
        Function::new("pg_concat", 2..=2, texts, concat),
        Function::new("pg_upper", 1..=1, texts, |call| in_case(call, char::to_uppercase)),
        Function::new("pg_lower", 1..=1, texts, |call| in_case(call, char::to_lowercase)),
        Function::new("pg_upper_ascii", 1..=1, texts, |call| {
            in_case_of_ascii(call, str::make_ascii_uppercase)
        }),
        Function::new("pg_lower_ascii", 1..=1, texts, |call| {
            in_case_of_ascii(call, str::make_ascii_lowercase)
        }),
        Function::new("pg_replace", 3..=3, texts, replace),
        Function::new("pg_like", 2..=2, |t| texts_to(t, DataType::Boolean), is_like),
        Function::new("pg_starts_with", 2..=2, |t| texts_to(t, DataType::Boolean), starts_with),
        Function::new("pg_text", 1..=1, any_value, text),
        Function::new("pg_uuid", 1..=1, |t| texts_to(t, DataType::FixedSizeBinary(16)), uuid),
        Function::new("pg_bytea", 1..=1, |t| texts_to(t, DataType::BinaryView), bytea),
    ]
}

fn texts(types: &Types) -> Option<DataType> {
    texts_to(types, DataType::Utf8View)
}

fn texts_to(types: &Types, gives: DataType) -> Option<DataType> {
    types.of.iter().all(is_text).then_some(gives)
}

fn text_and_numbers(types: &Types) -> Option<DataType> {
    let (first, rest) = types.of.split_first()?;
    (is_text(first) && rest.iter().all(is_whole)).then_some(DataType::Utf8View)
}

fn any_value(types: &Types) -> Option<DataType> {
    crate::text::is_known(types.of.first()?).then_some(DataType::Utf8View)
}

/// PostgreSQL counts in 32 bits, and its texts are shorter than that.
fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

fn characters(of: &str) -> usize {
    of.bytes().filter(|b| b & 0xc0 != 0x80).count()
}

/// The byte at which a character begins, or the end of the text.
fn byte_of(text: &str, character: usize) -> usize {
    match text.is_ascii() {
        true => character.min(text.len()),
        false => text.char_indices().nth(character).map_or(text.len(), |(at, _)| at),
    }
}

fn bpchar_key(call: &Call) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    call.slices(|row| Ok(of.get(row).trim_end_matches(' ')))
}

fn length(call: &Call) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    call.primitive::<Int32Type>(|row| Ok(count(characters(of.get(row)))))
}

fn octet_length(call: &Call) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    call.primitive::<Int32Type>(|row| Ok(count(of.get(row).len())))
}

fn substring(call: &Call) -> Result<ArrayRef> {
    let (of, from) = (call.texts(0)?, call.integers(1)?);
    if call.count() == 2 {
        return call.slices(|row| slice(of.get(row), from.get_i32(row), None));
    }
    let length = call.integers(2)?;
    call.slices(|row| slice(of.get(row), from.get_i32(row), Some(length.get_i32(row))))
}

/// `substr`: the first character is 1, and what lies before it counts as well.
fn slice(text: &str, from: i32, length: Option<i32>) -> Result<&str, SqlError> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let start = from.max(1);
    let rest = &text[byte_of(text, start as usize - 1)..];
    // An end beyond 32 bits is the end of the text.
    Ok(match length.and_then(|length| from.checked_add(length)) {
        None => rest,
        Some(end) => &rest[..byte_of(rest, end.saturating_sub(start).max(0) as usize)],
    })
}

fn part<'a>(call: &'a Call, f: fn(&'a str, i32) -> &'a str) -> Result<ArrayRef> {
    let (of, n) = (call.texts(0)?, call.integers(1)?);
    call.slices(|row| Ok(f(of.get(row), n.get_i32(row))))
}

/// The first characters; of a negative number, all but the last.
fn left(text: &str, n: i32) -> &str {
    let n = match n < 0 {
        true => characters(text).saturating_sub(n.unsigned_abs() as usize),
        false => n as usize,
    };
    &text[..byte_of(text, n)]
}

/// The last characters; of a negative number, all but the first.
fn right(text: &str, n: i32) -> &str {
    let dropped = match n < 0 {
        true => n.unsigned_abs() as usize,
        false => characters(text).saturating_sub(n as usize),
    };
    &text[byte_of(text, dropped)..]
}

fn position(call: &Call) -> Result<ArrayRef> {
    let (text, sought) = (call.texts(0)?, call.texts(1)?);
    call.primitive::<Int32Type>(|row| {
        let text = text.get(row);
        let found = text.find(sought.get(row));
        Ok(found.map_or(0, |at| count(characters(&text[..at]) + 1)))
    })
}

fn trim(call: &Call, from_left: bool, from_right: bool) -> Result<ArrayRef> {
    let (text, set) = (call.texts(0)?, call.texts(1)?);
    call.slices(|row| {
        let (mut text, set) = (text.get(row), set.get(row));
        if from_left {
            text = text.trim_start_matches(|c| set.contains(c));
        }
        if from_right {
            text = text.trim_end_matches(|c| set.contains(c));
        }
        Ok(text)
    })
}

fn concat(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.texts(0)?, call.texts(1)?);
    call.written(|row, out| {
        out.push_str(left.get(row));
        out.push_str(right.get(row));
        Ok(())
    })
}

fn replace(call: &Call) -> Result<ArrayRef> {
    let bytes_max = call.text_bytes_max();
    let (text, from, to) = (call.texts(0)?, call.texts(1)?, call.texts(2)?);
    call.written(|row, out| {
        let (text, from, to) = (text.get(row), from.get(row), to.get(row));
        if from.is_empty() {
            out.push_str(text);
            return Ok(());
        }
        let parts = text.split(from);
        for (at, part) in parts.enumerate() {
            if at > 0 {
                out.push_str(to);
            }
            out.push_str(part);
            if out.len() > bytes_max {
                return Err(SqlError::too_much_memory());
            }
            if out.len() > TEXT_BYTES_MAX {
                return Err(SqlError::new("54000", "out of memory"));
            }
        }
        Ok(())
    })
}

/// Whether the other case of a letter is the same in all versions of Unicode, or it has none in any:
/// scripts with letters of two cases that are complete, and some without cases.
fn has_known_case(letter: char) -> bool {
    match u32::from(letter) {
        // i without a dot or with one, and letters that are two in the other case.
        0x130 | 0x131 | 0x149 | 0x17f => false,
        0..=0x17f | 0x391..=0x3a1 | 0x3a3..=0x3c9 | 0x400..=0x45f => true,
        0x5d0..=0x6ff | 0x2010..=0x20bf | 0x3040..=0x30ff | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => {
            true
        }
        0x1f300..=0x1f9ff => true,
        _ => false,
    }
}

/// `upper` or `lower` under "C.UTF-8": a letter for a letter. 0A000 for a letter whose other case
/// the operating system may know or not.
fn in_case<I: Iterator<Item = char>>(call: &Call, other: fn(char) -> I) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    call.written(|row, out| {
        for letter in of.get(row).chars() {
            if !has_known_case(letter) {
                let message = format!("the case of the letter U+{:04X}", u32::from(letter));
                return Err(SqlError::unsupported(message));
            }
            let mut changed = other(letter);
            out.push(match (changed.next(), changed.next()) {
                (Some(changed), None) => changed,
                _ => letter,
            });
        }
        Ok(())
    })
}

/// The same under "C".
fn in_case_of_ascii(call: &Call, change: fn(&mut str)) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    call.written(|row, out| {
        out.push_str(of.get(row));
        change(out);
        Ok(())
    })
}

fn is_like(call: &Call) -> Result<ArrayRef> {
    let (text, pattern) = (call.texts(0)?, call.texts(1)?);
    // Of a constant every row has the same text.
    let mut read: Option<(&str, Pattern)> = None;
    call.booleans(|row| {
        let wanted = pattern.get(row);
        match &read {
            Some((of, pattern)) if std::ptr::eq(*of, wanted) => pattern.matches(text.get(row)),
            _ => read.insert((wanted, Pattern::new(wanted))).1.matches(text.get(row)),
        }
    })
}

fn starts_with(call: &Call) -> Result<ArrayRef> {
    let (text, start) = (call.texts(0)?, call.texts(1)?);
    call.booleans(|row| Ok(text.get(row).starts_with(start.get(row))))
}

/// The texts of values of any type.
pub(crate) fn text(call: &Call) -> Result<ArrayRef> {
    let (array, at) = call.array(0);
    let boolean = array.data_type() == &DataType::Boolean;
    call.written(|row, out| {
        crate::text::write_text(array, at(row), out)?;
        if boolean {
            // A cast spells them out.
            out.push_str(if out == "t" { "rue" } else { "alse" });
        }
        Ok(())
    })
}

/// The bytes of hexadecimal digits.
fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

fn uuid(call: &Call) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    let mut builder = FixedSizeBinaryBuilder::new(16);
    for row in call.rows() {
        let Some(row) = row else {
            builder.append_null();
            continue;
        };
        let text = of.get(row);
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        let bytes = from_hex(&digits).filter(|bytes| bytes.len() == 16);
        let message = || format!("invalid input syntax for type uuid: \"{text}\"");
        builder.append_value(bytes.ok_or_else(|| SqlError::new("22P02", message()))?)?;
    }
    Ok(Arc::new(builder.finish()))
}

fn bytea(call: &Call) -> Result<ArrayRef> {
    let of = call.texts(0)?;
    let mut builder = BinaryViewBuilder::new();
    for row in call.rows() {
        let Some(row) = row else {
            builder.append_null();
            continue;
        };
        let bytes = from_hex(of.get(row).as_bytes());
        let invalid = || SqlError::new("22023", "invalid hexadecimal data");
        builder.append_value(bytes.ok_or_else(invalid)?);
    }
    Ok(Arc::new(builder.finish()))
}
