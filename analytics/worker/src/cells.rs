//! Canonical rows (spec/formats.md) to cells of the column store, and back.
//!
//! Both ways are exact: the digest of a mirror is computed over what its cells hold.

use chainify_codec::{decode_row, decode_value, row_fields, DecodeError, Field, Tag, Value};

use crate::layout::{Cell, Column, Layout};

/// The values of a row, by place of the store.
pub type Cells = Vec<Option<Vec<u8>>>;

/// Bytes of a cell that stand in the value itself: those of every type but texts and `bytea`, and
/// short texts that are padded.
const SMALL_BYTES_MAX: usize = 30;

/// The bytes of a cell, without memory of their own where that can be.
#[derive(Debug)]
pub enum CellBytes<'a> {
    /// So many bytes.
    Small(u8, [u8; SMALL_BYTES_MAX]),
    /// As they stand in the row that was told.
    Told(&'a [u8]),
    /// Others.
    Own(Vec<u8>),
}

impl AsRef<[u8]> for CellBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            CellBytes::Small(length, bytes) => &bytes[..usize::from(*length)],
            CellBytes::Told(bytes) => bytes,
            CellBytes::Own(bytes) => bytes,
        }
    }
}

impl CellBytes<'_> {
    fn small(bytes: &[u8]) -> Self {
        let mut small = [0; SMALL_BYTES_MAX];
        match small.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                CellBytes::Small(bytes.len() as u8, small)
            }
            None => CellBytes::Own(bytes.to_vec()),
        }
    }
}

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
pub struct Row<'a> {
    /// Canonical bytes of the key's columns alone.
    pub key: Vec<u8>,
    /// Values by place of the store.
    pub cells: Vec<Option<CellBytes<'a>>>,
}

/// Some columns of a row as a row.
struct Part(Vec<u8>, u16);

impl Part {
    fn new() -> Part {
        Part(vec![0; 2], 0)
    }

    fn push(&mut self, field: &Field<'_>) {
        self.0.extend_from_slice(field.encoded);
        self.1 += 1; // as many as columns of a row at most
    }

    fn finish(mut self) -> Vec<u8> {
        self.0[..2].copy_from_slice(&self.1.to_be_bytes());
        self.0
    }
}

fn malformed<T>(error: DecodeError) -> Result<T, Refused> {
    refused(format!("the database told a malformed row: {error}"))
}

impl Layout {
    /// Takes a row apart. Errors: bytes that are no canonical row of these columns, and values that
    /// cells cannot hold. Cost: some ten nanoseconds for each column.
    pub fn take_apart<'a>(&self, told: &ToldRow<'a>) -> Result<Row<'a>, Refused> {
        let mut fields = row_fields(told.canonical).or_else(malformed)?;
        let mut next = fields.next().transpose().or_else(malformed)?;
        let (mut key, mut rest) = (Part::new(), Part::new());
        let mut cells = Vec::with_capacity(self.columns().len());
        for column in self.columns() {
            let ordinal = column.told.ordinal;
            let field = next.filter(|field| field.ordinal == ordinal);
            if let Some(field) = &field {
                next = fields.next().transpose().or_else(malformed)?;
                if column.told.of_key {
                    key.push(field);
                }
            }
            match (column.cell, field) {
                (Some(cell), Some(field)) => {
                    let cell = cell_of(cell, &field, told.is_minus_zero(ordinal));
                    cells.push(Some(cell.map_err(|why| of_column(column, why))?));
                }
                (Some(_), None) => cells.push(None),
                (None, Some(field)) => {
                    decode_value(&field.encoded[size_of::<u16>()..]).or_else(malformed)?;
                    rest.push(&field);
                }
                (None, None) => (),
            }
        }
        if let Some(Field { ordinal, .. }) = next {
            return refused(format!("the database told a row with column {ordinal}, which the table does not have"));
        }
        if self.has_rest() {
            cells.push(Some(CellBytes::Own(rest.finish())));
        }
        Ok(Row { key: key.finish(), cells })
    }

    /// The canonical bytes of the key's columns of a row.
    ///
    /// # Errors
    /// Bytes that are no row.
    pub fn key_of(&self, canonical: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut key = Part::new();
        for field in row_fields(canonical).or_else(malformed)? {
            let field = field.or_else(malformed)?;
            if self.columns().iter().any(|column| column.told.of_key && column.told.ordinal == field.ordinal) {
                key.push(&field);
            }
        }
        Ok(key.finish())
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

/// The only NaN of canonical rows.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;
/// 24:00
const DAY_MICROS: i64 = 86_400_000_000;
/// NaN in a column of decimals: it is greater than all numbers there, as PostgreSQL has it.
pub const NAN_DECIMAL: i128 = i128::MAX;
/// Digits of a Decimal128.
const DIGITS_MAX: usize = 38;

const OTHER_TYPE: &str = "has a value of another type than the table says";
const MALFORMED: &str = "has a malformed value";

fn cell_of<'a>(cell: Cell, field: &Field<'a>, minus_zero: bool) -> Result<CellBytes<'a>, &'static str> {
    let told = field.payload;
    let small = |bytes: &[u8]| Ok(CellBytes::small(bytes));
    match (cell, field.tag) {
        (Cell::Bool, Tag::Bool) => match told {
            [0 | 1] => Ok(CellBytes::Told(told)),
            _ => Err(MALFORMED),
        },
        (Cell::Int2, Tag::Int) => small(&narrow::<i16>(long(told)?)?.to_le_bytes()),
        (Cell::Int4, Tag::Int) => small(&narrow::<i32>(long(told)?)?.to_le_bytes()),
        (Cell::Int8, Tag::Int) | (Cell::Timestamp, Tag::Timestamp) | (Cell::TimestampTz, Tag::TimestampTz) => {
            small(&long(told)?.to_le_bytes())
        }
        (Cell::Time, Tag::Time) => {
            let micros = long(told)?;
            (0..=DAY_MICROS).contains(&micros).then_some(()).ok_or(MALFORMED)?;
            small(&micros.to_le_bytes())
        }
        (Cell::Float4, Tag::Float) => small(&(float(told, minus_zero)? as f32).to_le_bytes()),
        (Cell::Float8, Tag::Float) => small(&float(told, minus_zero)?.to_le_bytes()),
        (Cell::Decimal { .. }, Tag::Numeric) if told == b"NaN" => small(&NAN_DECIMAL.to_le_bytes()),
        (Cell::Decimal { precision, scale }, Tag::Numeric) => small(&unscaled(told, precision, scale)?.to_le_bytes()),
        (Cell::Text, Tag::Text) => text(told).map(|_| CellBytes::Told(told)),
        (Cell::Padded(width), Tag::Text) => padded(text(told)?, width),
        (Cell::Date, Tag::Date) => small(&date(long(told)?)?.to_le_bytes()),
        (Cell::Uuid, Tag::Uuid) if told.len() == 16 => Ok(CellBytes::Told(told)),
        (Cell::Bytea, Tag::Bytea) => Ok(CellBytes::Told(told)),
        _ => Err(OTHER_TYPE),
    }
}

fn long(told: &[u8]) -> Result<i64, &'static str> {
    told.try_into().map(i64::from_be_bytes).or(Err(MALFORMED))
}

fn text(told: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(told).or(Err(MALFORMED))
}

/// A canonical float, with the sign that a zero has in the database.
fn float(told: &[u8], minus_zero: bool) -> Result<f64, &'static str> {
    let value = f64::from_bits(long(told)? as u64);
    match value.to_bits() {
        0 if minus_zero => Ok(-0.0),
        bits if value.is_nan() && bits != NAN_BITS || value == 0.0 && bits != 0 => Err(MALFORMED),
        _ => Ok(value),
    }
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
        Cell::Decimal { scale, .. } => Value::Numeric(match i128::from_le_bytes(bytes.try_into().ok()?) {
            NAN_DECIMAL => "NaN".to_owned(),
            number => decimal_text(number, scale),
        }),
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

fn date(days: i64) -> Result<i32, &'static str> {
    match days {
        i64::MIN => Ok(i32::MIN),
        i64::MAX => Ok(i32::MAX),
        days => narrow(days),
    }
}

fn padded(text: &str, width: usize) -> Result<CellBytes<'_>, &'static str> {
    let missing = width.saturating_sub(text.chars().count());
    let mut small = [b' '; SMALL_BYTES_MAX];
    match (missing, small.get_mut(..text.len())) {
        (0, _) => Ok(CellBytes::Told(text.as_bytes())),
        (_, Some(place)) if text.len() + missing <= SMALL_BYTES_MAX => {
            place.copy_from_slice(text.as_bytes());
            Ok(CellBytes::Small((text.len() + missing) as u8, small))
        }
        _ => Ok(CellBytes::Own(format!("{text}{:missing$}", "").into_bytes())),
    }
}

/// The number's digits up to the last of the scale, as one integer.
fn unscaled(told: &[u8], precision: u8, scale: u8) -> Result<i128, &'static str> {
    const BEYOND: &str = "has a number beyond its type";
    let digits = told.strip_prefix(b"-").unwrap_or(told);
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let zeros = usize::from(scale).checked_sub(fraction.len()).ok_or(BEYOND)?;
    // Zeros that are not written in canonical text, and a point without digits.
    let canonical = !whole.is_empty()
        && (whole.len() == 1 || whole[0] != b'0')
        && (point == digits.len() || fraction.last().is_some_and(|byte| *byte != b'0'));
    let whole = whole.strip_prefix(b"0").unwrap_or(whole);
    let all = || whole.iter().chain(fraction);
    let count = whole.len() + fraction.len();
    if !canonical || count > DIGITS_MAX || !all().all(u8::is_ascii_digit) {
        return Err(BEYOND);
    }
    let number = match count {
        // As fast as can be: most numbers have so few digits.
        0..=18 => all().fold(0_i64, |number, byte| number * 10 + i64::from(byte - b'0')).into(),
        _ => all().fold(0_i128, |number, byte| number * 10 + i128::from(byte - b'0')),
    };
    let number = number.checked_mul(10_i128.pow(zeros as u32)).ok_or(BEYOND)?;
    match (number < 10_i128.pow(precision.into()), told.len() == digits.len()) {
        (true, true) => Ok(number),
        (true, false) if number != 0 => Ok(-number),
        _ => Err(BEYOND),
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
