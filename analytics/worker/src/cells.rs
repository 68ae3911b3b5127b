//! Canonical rows (spec/formats.md) to cells of the column store, and back.
//!
//! Both ways are exact: the digest of a mirror is computed over what its cells hold.

use chainify_codec::{decode_row, Value};

use crate::layout::{Cell, Column, Layout};

/// The values of a row, by place of the store.
pub type Cells = Vec<Option<Vec<u8>>>;

/// The reason why a row cannot be mirrored.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn refused<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(why.into()))
}

/// A row as the database tells it: its canonical bytes, and the ordinals of its minus zeros.
pub struct ToldRow<'a> {
    /// Canonical bytes.
    pub canonical: &'a [u8],
    minus_zeros: &'a [u8],
}

impl<'a> ToldRow<'a> {
    /// Reads `lp(row) ‖ u16 ordinal …`.
    pub fn read(told: &'a [u8]) -> Result<Self, Refused> {
        let split = told.split_at_checked(4).and_then(|(length, rest)| {
            let length = u32::from_be_bytes(length.try_into().ok()?);
            rest.split_at_checked(usize::try_from(length).ok()?)
        });
        match split {
            Some((canonical, minus_zeros)) if minus_zeros.len() % 2 == 0 => Ok(ToldRow { canonical, minus_zeros }),
            _ => refused("the database told a row that is cut off"),
        }
    }

    fn is_minus_zero(&self, ordinal: u16) -> bool {
        self.minus_zeros.chunks_exact(2).any(|bytes| bytes == ordinal.to_be_bytes())
    }
}

/// A row taken apart: its key's canonical bytes, and its cells.
#[derive(Debug)]
pub struct Row {
    /// Canonical bytes of the key's columns alone.
    pub key: Vec<u8>,
    /// Values by place of the store.
    pub cells: Cells,
}

impl Layout {
    /// Takes a row apart. Errors: bytes that are no canonical row of these columns, and values that
    /// cells cannot hold (NaN in a `numeric`).
    pub fn take_apart(&self, told: &ToldRow<'_>) -> Result<Row, Refused> {
        let values = decode_row(told.canonical)
            .or_else(|error| refused(format!("the database told a malformed row: {error}")))?;
        let mut values = values.into_iter().peekable();
        let (mut key, mut rest) = (Vec::new(), Vec::new());
        let mut cells = Vec::with_capacity(self.columns().len());
        for column in self.columns() {
            let ordinal = column.told.ordinal;
            let value = values.next_if(|(of, _)| *of == ordinal).map(|(_, value)| value);
            if let (true, Some(value)) = (column.told.of_key, &value) {
                key.push((ordinal, value.clone()));
            }
            match (column.cell, value) {
                (Some(cell), Some(value)) => {
                    let cell =
                        cell_of(cell, &value, told.is_minus_zero(ordinal)).map_err(|why| of_column(column, why))?;
                    cells.push(Some(cell));
                }
                (Some(_), None) => cells.push(None),
                (None, Some(value)) => rest.push((ordinal, value)),
                (None, None) => (),
            }
        }
        if let Some((ordinal, _)) = values.next() {
            return refused(format!("the database told a row with column {ordinal}, which the table does not have"));
        }
        if self.has_rest() {
            cells.push(Some(encoded(&rest)?));
        }
        Ok(Row { key: encoded(&key)?, cells })
    }

    /// The canonical bytes of a row of these cells.
    pub fn put_together(&self, cells: &[Option<Vec<u8>>]) -> Result<Vec<u8>, Refused> {
        let places = self.cells().count();
        let mut values = match cells.get(places) {
            Some(Some(rest)) => decode_row(rest).or_else(|error| refused(error.to_string()))?,
            _ => Vec::new(),
        };
        let with_cells = self.columns().iter().filter_map(|column| Some((column, column.cell?)));
        for ((column, cell), bytes) in with_cells.zip(cells) {
            if let Some(bytes) = bytes {
                let value = value_of(cell, bytes).ok_or_else(|| of_column(column, "has a malformed cell"))?;
                values.push((column.told.ordinal, value));
            }
        }
        values.sort_by_key(|(ordinal, _)| *ordinal);
        encoded(&values)
    }
}

/// Canonical bytes of some of a row's values.
pub fn encoded(values: &[(u16, Value)]) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    Value::encode_row(values, &mut bytes).or_else(|error| refused(error.to_string()))?;
    Ok(bytes)
}

fn of_column(column: &Column, why: &str) -> Refused {
    Refused(format!("column {} {why}", column.told.attnum))
}

const OTHER_TYPE: &str = "has a value of another type than the table says";

fn cell_of(cell: Cell, value: &Value, minus_zero: bool) -> Result<Vec<u8>, &'static str> {
    Ok(match (cell, value) {
        (Cell::Bool, Value::Bool(value)) => vec![u8::from(*value)],
        (Cell::Int2, Value::Int(value)) => narrow::<i16>(*value)?.to_le_bytes().to_vec(),
        (Cell::Int4, Value::Int(value)) => narrow::<i32>(*value)?.to_le_bytes().to_vec(),
        (Cell::Int8, Value::Int(value)) => value.to_le_bytes().to_vec(),
        (Cell::Float4, Value::Float(value)) => (signed(*value, minus_zero) as f32).to_le_bytes().to_vec(),
        (Cell::Float8, Value::Float(value)) => signed(*value, minus_zero).to_le_bytes().to_vec(),
        (Cell::Decimal { precision, scale }, Value::Numeric(text)) => {
            unscaled(text, precision, scale)?.to_le_bytes().to_vec()
        }
        (Cell::Text, Value::Text(text)) => text.as_bytes().to_vec(),
        (Cell::Padded(width), Value::Text(text)) => padded(text, width).into_bytes(),
        (Cell::Date, Value::Date(days)) => date(*days)?.to_le_bytes().to_vec(),
        (Cell::Time, Value::Time(micros))
        | (Cell::Timestamp, Value::Timestamp(micros))
        | (Cell::TimestampTz, Value::TimestampTz(micros)) => micros.to_le_bytes().to_vec(),
        (Cell::Uuid, Value::Uuid(bytes)) => bytes.to_vec(),
        (Cell::Bytea, Value::Bytea(bytes)) => bytes.clone(),
        _ => return Err(OTHER_TYPE),
    })
}

/// None: the bytes are not of such a cell.
fn value_of(cell: Cell, bytes: &[u8]) -> Option<Value> {
    let text = || Some(std::str::from_utf8(bytes).ok()?.to_owned());
    let long = || Some(i64::from_le_bytes(bytes.try_into().ok()?));
    Some(match cell {
        Cell::Bool => Value::Bool(bytes.first()? != &0),
        Cell::Int2 => Value::Int(i16::from_le_bytes(bytes.try_into().ok()?).into()),
        Cell::Int4 => Value::Int(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        Cell::Int8 => Value::Int(long()?),
        Cell::Float4 => Value::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        Cell::Float8 => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        Cell::Decimal { scale, .. } => Value::Numeric(decimal_text(i128::from_le_bytes(bytes.try_into().ok()?), scale)),
        Cell::Text => Value::Text(text()?),
        Cell::Padded(_) => Value::Text(text()?.trim_end_matches(' ').to_owned()),
        Cell::Date => Value::Date(match i32::from_le_bytes(bytes.try_into().ok()?) {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            days => days.into(),
        }),
        Cell::Time => Value::Time(long()?),
        Cell::Timestamp => Value::Timestamp(long()?),
        Cell::TimestampTz => Value::TimestampTz(long()?),
        Cell::Uuid => Value::Uuid(bytes.try_into().ok()?),
        Cell::Bytea => Value::Bytea(bytes.to_vec()),
    })
}

fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T, &'static str> {
    T::try_from(value).or(Err(OTHER_TYPE))
}

fn signed(value: f64, minus_zero: bool) -> f64 {
    if minus_zero && value == 0.0 {
        -0.0
    } else {
        value
    }
}

fn date(days: i64) -> Result<i32, &'static str> {
    match days {
        i64::MIN => Ok(i32::MIN),
        i64::MAX => Ok(i32::MAX),
        days => narrow(days),
    }
}

fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{:missing$}", "")
}

/// The number's digits up to the last of the scale, as one integer.
fn unscaled(text: &str, precision: u8, scale: u8) -> Result<i128, &'static str> {
    const BEYOND: &str = "has a number beyond its type: NaN is not mirrored";
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = usize::from(scale).checked_sub(fraction.len()).ok_or(BEYOND)?;
    let all = whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', zeros));
    let mut number: i128 = 0;
    for digit in all {
        let digit = i128::from(digit.is_ascii_digit().then(|| digit - b'0').ok_or(BEYOND)?);
        number = number.checked_mul(10).and_then(|number| number.checked_add(digit)).ok_or(BEYOND)?;
    }
    match number < 10_i128.pow(precision.into()) {
        true => Ok(sign * number),
        false => Err(BEYOND),
    }
}

fn decimal_text(number: i128, scale: u8) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{fraction}"),
    }
}
