//! Values in the text form that PostgreSQL's input functions read, whatever the session's settings.

use crate::decode::{RangeValue, Value};
use crate::hex;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const MICROS_PER_SECOND: u64 = 1_000_000;

impl Value {
    /// The text that the input function of the value's type reads as this value. Cost: linear.
    pub fn to_text(&self) -> String {
        match self {
            Value::Bool(v) => if *v { "t" } else { "f" }.to_owned(),
            Value::Int(v) => v.to_string(),
            Value::Numeric(v) | Value::Text(v) | Value::Json(v) | Value::Enum(v) | Value::Net(v) => v.clone(),
            Value::Float(v) => float(*v),
            Value::Bytea(v) => format!("\\x{}", hex(v)),
            Value::Date(v) => infinite(*v).unwrap_or_else(|| date(*v, "")),
            Value::Time(v) => time(v.unsigned_abs()),
            Value::Timestamp(v) => timestamp(*v, ""),
            Value::TimestampTz(v) => timestamp(*v, "+00"),
            Value::Uuid(v) => uuid(v),
            Value::Array { dimensions, elements, .. } => array(dimensions, elements),
            Value::Composite { attributes, fields } => composite(*attributes, fields),
            Value::Interval { months, days, micros } => {
                let sign = if *micros < 0 { "-" } else { "" };
                format!("{months} mons {days} days {sign}{}", time(micros.unsigned_abs()))
            }
            Value::Range(range) => range_text(range),
            Value::Multirange(ranges) => format!("{{{}}}", joined(ranges.iter().map(range_text))),
            Value::Other { text, .. } => text.clone(),
        }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn float(v: f64) -> String {
    match v {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        v => format!("{v:e}"),
    }
}

/// The text of a date or a timestamp beyond all others.
fn infinite(v: i64) -> Option<String> {
    match v {
        i64::MAX => Some("infinity".to_owned()),
        i64::MIN => Some("-infinity".to_owned()),
        _ => None,
    }
}

/// Days since 1970-01-01 as year, month and day of the proleptic Gregorian calendar, with `rest`
/// before the era.
fn date(days: i64, rest: &str) -> String {
    // Eras of 400 years begin on 1 March, so that a leap day is the last of its year.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        1.. => format!("{year:04}-{month:02}-{day_of_month:02}{rest}"),
        _ => format!("{:04}-{month:02}-{day_of_month:02}{rest} BC", 1 - year),
    }
}

/// Hours, minutes and seconds.
fn time(micros: u64) -> String {
    let (seconds, micros) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn timestamp(micros: i64, zone: &str) -> String {
    infinite(micros).unwrap_or_else(|| {
        let within_day = time(micros.rem_euclid(MICROS_PER_DAY).unsigned_abs());
        date(micros.div_euclid(MICROS_PER_DAY), &format!(" {within_day}{zone}"))
    })
}

fn uuid(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// In quotes, with a backslash before quotes and backslashes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn array(dimensions: &[(u32, i32)], elements: &[Option<Value>]) -> String {
    let bounds = dimensions.iter().map(|(size, lower)| {
        let upper = i64::from(*lower) + i64::from(*size) - 1;
        format!("[{lower}:{upper}]")
    });
    let bounds: String = match dimensions.iter().all(|(_, lower)| *lower == 1) {
        true => String::new(),
        false => bounds.collect::<String>() + "=",
    };
    let mut elements = elements.iter();
    bounds + &braces(dimensions, &mut elements)
}

/// Nests as deep as there are dimensions, of which there are at most six.
fn braces(dimensions: &[(u32, i32)], elements: &mut std::slice::Iter<'_, Option<Value>>) -> String {
    let Some(((size, _), inner)) = dimensions.split_first() else {
        return "{}".to_owned();
    };
    let part = |_| match inner {
        [] => elements.next().map_or_else(String::new, |element| match element {
            Some(value) => quoted(&value.to_text()),
            None => "NULL".to_owned(),
        }),
        inner => braces(inner, elements),
    };
    format!("{{{}}}", joined((0..*size).map(part)))
}

fn composite(attributes: u16, fields: &[(u16, Value)]) -> String {
    let mut fields = fields.iter().peekable();
    let field = |ordinal| {
        let found = fields.next_if(|(of, _)| *of == ordinal);
        found.map_or_else(String::new, |(_, value)| quoted(&value.to_text()))
    };
    format!("({})", joined((1..=attributes).map(field)))
}

fn range_text(range: &RangeValue) -> String {
    let RangeValue::Ends { lower, upper } = range else {
        return "empty".to_owned();
    };
    let end = |end: &Option<(Box<Value>, bool)>| {
        let text = end.as_ref().map_or_else(String::new, |(value, _)| quoted(&value.to_text()));
        (text, end.as_ref().is_some_and(|(_, inside)| *inside))
    };
    let ((lower, from), (upper, to)) = (end(lower), end(upper));
    format!("{}{lower},{upper}{}", if from { '[' } else { '(' }, if to { ']' } else { ')' })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;

    #[test]
    fn dates_and_times_are_iso() {
        for (value, text) in [
            (Value::Date(0), "1970-01-01"),
            (Value::Date(11_016), "2000-02-29"),
            (Value::Date(-719_163), "0001-12-31 BC"),
            (Value::Date(-719_162), "0001-01-01"),
            (Value::Date(i64::MAX), "infinity"),
            (Value::Time(86_400_000_000), "24:00:00.000000"),
            (Value::Timestamp(-1), "1969-12-31 23:59:59.999999"),
            (Value::TimestampTz(1_700_000_000_000_000), "2023-11-14 22:13:20.000000+00"),
            (Value::TimestampTz(-62_135_596_800_000_001), "0001-12-31 23:59:59.999999+00 BC"),
            (Value::TimestampTz(i64::MIN), "-infinity"),
            (Value::Interval { months: -1, days: 2, micros: -3_600_000_001 }, "-1 mons 2 days -01:00:00.000001"),
        ] {
            assert_eq!(value.to_text(), text);
        }
    }

    #[test]
    fn nested_values_are_quoted() {
        let text = |v: &str| Value::Text(v.to_owned());
        let dimensions = vec![(2, 1), (2, 0)];
        let elements = vec![Some(text("a\"b\\")), None, Some(text("")), Some(text("NULL"))];
        let array = Value::Array { element: Tag::Text, dimensions, elements };
        assert_eq!(array.to_text(), r#"[1:2][0:1]={{"a\"b\\",NULL},{"","NULL"}}"#);
        let empty = Value::Array { element: Tag::Int, dimensions: vec![], elements: vec![] };
        assert_eq!(empty.to_text(), "{}");
        let row = Value::Composite { attributes: 3, fields: vec![(1, Value::Int(7)), (3, text("x,y"))] };
        assert_eq!(row.to_text(), r#"("7",,"x,y")"#);
        let ends = RangeValue::Ends { lower: Some((Box::new(Value::Int(1)), true)), upper: None };
        assert_eq!(Value::Range(ends.clone()).to_text(), r#"["1",)"#);
        assert_eq!(Value::Multirange(vec![ends, RangeValue::Empty]).to_text(), r#"{["1",),empty}"#);
    }

    #[test]
    fn numbers_keep_their_value() {
        for number in [0.1, -1e300, 5e-324, f64::from(0.1f32), 123_456_789.0] {
            assert_eq!(Value::Float(number).to_text().parse(), Ok(number));
        }
        assert_eq!(Value::Float(f64::NEG_INFINITY).to_text(), "-Infinity");
        assert_eq!(Value::Bytea(vec![0, 255]).to_text(), "\\x00ff");
        let uuid = Value::Uuid([0x11; 16]);
        assert_eq!(uuid.to_text(), "11111111-1111-1111-1111-111111111111");
    }
}
