//! Decodes rows and values, and accepts exactly the encodings that the writers of [`crate::value`]
//! produce.

use crate::value::{self, element_count, range_flag, Bound};
use crate::{decimal, json, tag, DecodeError, RowWriter, Tag, ValueError};

/// Values nest at most this deep when decoded; PostgreSQL types come nowhere near.
pub const VALUE_DEPTH_MAX: usize = 64;

/// A decoded value. Text is canonical where its type has a canonical form.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the tags; see Tag and spec/formats.md")]
pub enum Value {
    Bool(bool),
    Int(i64),
    Numeric(String),
    Float(f64),
    Text(String),
    Bytea(Vec<u8>),
    Date(i64),
    Time(i64),
    Timestamp(i64),
    TimestampTz(i64),
    Uuid([u8; 16]),
    Json(String),
    Array { element: Tag, dimensions: Vec<(u32, i32)>, elements: Vec<Option<Value>> },
    Composite { attributes: u16, fields: Vec<(u16, Value)> },
    Enum(String),
    Interval { months: i32, days: i32, micros: i64 },
    Net(String),
    Range(RangeValue),
    Multirange(Vec<RangeValue>),
    Other { type_name: String, text: String },
}

/// A decoded range.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeValue {
    /// Contains nothing.
    Empty,
    /// Per end: the value and whether the range contains it; `None` without an end.
    Ends {
        /// Where it begins.
        lower: Option<(Box<Value>, bool)>,
        /// Where it ends.
        upper: Option<(Box<Value>, bool)>,
    },
}

/// Decodes a row. Fails on anything but the one encoding of a row. Cost: linear, JSON and numbers
/// are parsed.
pub fn decode_row(bytes: &[u8]) -> Result<Vec<(u16, Value)>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let columns = reader.fields(u16::MAX, 0)?;
    reader.end()?;
    Ok(columns)
}

/// Decodes a single value; otherwise as [`decode_row`].
pub fn decode_value(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(0)?;
    reader.end()?;
    Ok(value)
}

/// A column of an encoded row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number on the ledger.
    pub ordinal: u16,
    /// The type of its value.
    pub tag: Tag,
    /// Ordinal and value, as they stand in the row.
    pub encoded: &'a [u8],
    /// The value's payload, which nothing has checked.
    pub payload: &'a [u8],
}

/// The columns of a row, which are not decoded: ordinals, tags and lengths are checked, payloads
/// are not. The first error is the last item. Cost: a few nanoseconds for each column.
///
/// # Errors
/// Bytes without a count.
pub fn row_fields(bytes: &[u8]) -> Result<Fields<'_>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(Fields { left: reader.u16()?, last: 0, reader, ended: false })
}

/// The iterator of [`row_fields`].
pub struct Fields<'a> {
    reader: Reader<'a>,
    left: u16,
    last: u16,
    ended: bool,
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>> {
        let (bytes, start) = (self.reader.bytes, self.reader.at);
        let ordinal = self.reader.u16()?;
        self.reader.check(ordinal > self.last, "ordinals do not ascend within their bounds")?;
        let tag = self.reader.tag()?;
        let payload = self.reader.prefixed()?;
        (self.left, self.last) = (self.left - 1, ordinal);
        Ok(Field { ordinal, tag, encoded: &bytes[start..self.reader.at], payload: &bytes[payload.at..self.reader.at] })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = match self.left {
            0 => self.reader.end().err().map(Err),
            _ => Some(self.field()),
        };
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Value {
    /// The tag it is encoded with.
    pub fn tag(&self) -> Tag {
        match self {
            Value::Bool(_) => Tag::Bool,
            Value::Int(_) => Tag::Int,
            Value::Numeric(_) => Tag::Numeric,
            Value::Float(_) => Tag::Float,
            Value::Text(_) => Tag::Text,
            Value::Bytea(_) => Tag::Bytea,
            Value::Date(_) => Tag::Date,
            Value::Time(_) => Tag::Time,
            Value::Timestamp(_) => Tag::Timestamp,
            Value::TimestampTz(_) => Tag::TimestampTz,
            Value::Uuid(_) => Tag::Uuid,
            Value::Json(_) => Tag::Json,
            Value::Array { .. } => Tag::Array,
            Value::Composite { .. } => Tag::Composite,
            Value::Enum(_) => Tag::Enum,
            Value::Interval { .. } => Tag::Interval,
            Value::Net(_) => Tag::Net,
            Value::Range(_) | Value::Multirange(_) => Tag::Range,
            Value::Other { .. } => Tag::Other,
        }
    }

    /// Appends its encoding. Fails when the value contradicts itself; never for a decoded one.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self {
            Value::Bool(v) => value::bool(out, *v),
            Value::Int(v) => value::int(out, *v),
            Value::Numeric(v) => value::numeric(out, v)?,
            Value::Float(v) => value::float(out, *v),
            Value::Text(v) => value::text(out, v),
            Value::Bytea(v) => value::bytea(out, v),
            Value::Date(v) => value::date(out, *v),
            Value::Time(v) => value::time(out, *v),
            Value::Timestamp(v) => value::timestamp(out, *v),
            Value::TimestampTz(v) => value::timestamptz(out, *v),
            Value::Uuid(v) => value::uuid(out, v),
            Value::Json(v) => value::json(out, v)?,
            Value::Array { element, dimensions, elements } => {
                value::array(out, *element, dimensions, |array| encode_elements(array, elements))?;
            }
            Value::Composite { attributes, fields } => value::composite(out, *attributes, |writer| {
                fields.iter().try_for_each(|(ordinal, field)| writer.field(*ordinal, |out| field.encode(out)))
            })?,
            Value::Enum(v) => value::enum_label(out, v),
            Value::Interval { months, days, micros } => value::interval(out, *months, *days, *micros),
            Value::Net(v) => value::net(out, v),
            Value::Range(RangeValue::Empty) => value::empty_range(out),
            Value::Range(RangeValue::Ends { lower, upper }) => value::range(out, bound(lower), bound(upper))?,
            Value::Multirange(ranges) => value::multirange(out, |writer| encode_ranges(writer, ranges))?,
            Value::Other { type_name, text } => value::other(out, type_name, text)?,
        }
        Ok(())
    }

    /// Encodes columns as a row, into `out` after clearing it.
    pub fn encode_row(columns: &[(u16, Value)], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let mut row = RowWriter::begin(out);
        columns.iter().try_for_each(|(ordinal, column)| row.column(*ordinal, |out| column.encode(out)))?;
        row.finish();
        Ok(())
    }
}

fn encode_elements(array: &mut value::ArrayWriter<'_>, elements: &[Option<Value>]) -> Result<(), ValueError> {
    elements.iter().try_for_each(|element| match element {
        Some(element) => array.value(|out| element.encode(out)),
        None => {
            array.null();
            Ok(())
        }
    })
}

fn encode_ranges(writer: &mut value::MultirangeWriter<'_>, ranges: &[RangeValue]) -> Result<(), ValueError> {
    ranges.iter().try_for_each(|range| match range {
        RangeValue::Empty => Err(ValueError::Shape("multirange with an empty range")),
        RangeValue::Ends { lower, upper } => writer.range(bound(lower), bound(upper)),
    })
}

type End = Option<(Box<Value>, bool)>;

fn bound(end: &End) -> Bound<impl FnOnce(&mut Vec<u8>) -> Result<(), ValueError> + '_> {
    let Some((value, inclusive)) = end else { return Bound::Infinite };
    let write = |out: &mut Vec<u8>| value.encode(out);
    if *inclusive {
        Bound::Inclusive(write)
    } else {
        Bound::Exclusive(write)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Result<T, E = DecodeError> = std::result::Result<T, E>;

impl<'a> Reader<'a> {
    fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { offset: self.at, what }
    }

    fn check(&self, holds: bool, what: &'static str) -> Result<()> {
        if holds {
            Ok(())
        } else {
            Err(self.error(what))
        }
    }

    fn end(&self) -> Result<()> {
        self.check(self.at == self.bytes.len(), "more bytes than announced")
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        self.check(count <= rest.len(), "fewer bytes than announced")?;
        self.at += count;
        Ok(&rest[..count])
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        self.fixed().map(|[byte]| byte)
    }

    fn tag(&mut self) -> Result<Tag> {
        Tag::from_byte(self.u8()?).ok_or_else(|| self.error("unknown tag"))
    }

    fn u16(&mut self) -> Result<u16> {
        self.fixed().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.fixed().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// The payload behind a length: a reader that ends where it ends, with offsets of the whole.
    fn prefixed(&mut self) -> Result<Reader<'a>> {
        let length = self.u32()?;
        let start = self.at;
        self.take(usize::try_from(length).map_err(|_| self.error("fewer bytes than announced"))?)?;
        Ok(Reader { bytes: &self.bytes[..self.at], at: start })
    }

    fn text(&mut self) -> Result<&'a str> {
        let bytes = &self.bytes[self.at..];
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("text is not UTF-8"))?;
        self.at = self.bytes.len();
        Ok(text)
    }

    /// Text of which `write` gives the canonical form.
    fn canonical(
        &mut self,
        write: fn(&mut Vec<u8>, &str) -> Result<(), ValueError>,
        what: &'static str,
    ) -> Result<String> {
        let start = self.error(what);
        let text = self.text()?;
        let mut canonical = Vec::with_capacity(text.len());
        match write(&mut canonical, text) {
            Ok(()) if canonical == text.as_bytes() => Ok(text.to_owned()),
            _ => Err(start),
        }
    }

    /// `u16 count ‖ per value (u16 ordinal ‖ value)`
    fn fields(&mut self, ordinal_max: u16, depth: usize) -> Result<Vec<(u16, Value)>> {
        let count = self.u16()?;
        let mut fields = Vec::new();
        let mut last = 0;
        for _ in 0..count {
            let ordinal = self.u16()?;
            self.check(ordinal > last && ordinal <= ordinal_max, "ordinals do not ascend within their bounds")?;
            fields.push((ordinal, self.value(depth)?));
            last = ordinal;
        }
        Ok(fields)
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.check(depth < VALUE_DEPTH_MAX, "nested too deep")?;
        let tag = self.tag()?;
        let mut payload = self.prefixed()?;
        let value = payload.payload(tag, depth)?;
        payload.end()?;
        Ok(value)
    }

    fn payload(&mut self, tag: Tag, depth: usize) -> Result<Value> {
        Ok(match tag {
            Tag::Bool => Value::Bool(self.bool()?),
            Tag::Int => Value::Int(self.i64()?),
            Tag::Numeric => Value::Numeric(self.canonical(decimal::write_canonical, "numeric is not canonical")?),
            Tag::Float => Value::Float(self.float()?),
            Tag::Text => Value::Text(self.text()?.to_owned()),
            Tag::Bytea => Value::Bytea(self.take(self.bytes.len() - self.at)?.to_vec()),
            Tag::Date => Value::Date(self.i64()?),
            Tag::Time => Value::Time(self.time()?),
            Tag::Timestamp => Value::Timestamp(self.i64()?),
            Tag::TimestampTz => Value::TimestampTz(self.i64()?),
            Tag::Uuid => Value::Uuid(self.fixed()?),
            Tag::Json => Value::Json(self.canonical(json::write_canonical, "JSON is not canonical")?),
            Tag::Array => self.array(depth)?,
            Tag::Composite => {
                let attributes = self.u16()?;
                Value::Composite { attributes, fields: self.fields(attributes, depth + 1)? }
            }
            Tag::Enum => Value::Enum(self.text()?.to_owned()),
            Tag::Interval => Value::Interval { months: self.i32()?, days: self.i32()?, micros: self.i64()? },
            Tag::Net => Value::Net(self.text()?.to_owned()),
            Tag::Range => self.range_or_multirange(depth)?,
            Tag::Other => {
                let type_name = self.prefixed()?.text()?.to_owned();
                Value::Other { type_name, text: self.prefixed()?.text()?.to_owned() }
            }
        })
    }

    fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error("boolean is neither 0 nor 1")),
        }
    }

    fn float(&mut self) -> Result<f64> {
        let bytes: [u8; 8] = self.fixed()?;
        let value = f64::from_be_bytes(bytes);
        let mut canonical = Vec::new();
        value::float(&mut canonical, value);
        self.check(canonical.ends_with(&bytes), "float is not canonical")?;
        Ok(value)
    }

    fn time(&mut self) -> Result<i64> {
        const DAY_MICROS: i64 = 86_400_000_000;
        let micros = self.i64()?;
        self.check((0..=DAY_MICROS).contains(&micros), "time lies outside the day")?;
        Ok(micros)
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        let element = self.tag()?;
        let dimensions = (0..self.u8()?).map(|_| Ok((self.u32()?, self.i32()?))).collect::<Result<Vec<_>>>()?;
        let count = element_count(dimensions.iter().map(|d| d.0));
        let count = count.ok_or_else(|| self.error("array with impossible dimensions"))?;
        let mut elements = Vec::new(); // grows with the bytes read, not with the count announced
        for _ in 0..count {
            elements.push(self.element(element, depth)?);
        }
        Ok(Value::Array { element, dimensions, elements })
    }

    fn element(&mut self, element: Tag, depth: usize) -> Result<Option<Value>> {
        match self.bytes.get(self.at) {
            Some(&tag::NULL_ELEMENT) => {
                self.at += 1;
                let length = self.u32()?;
                self.check(length == 0, "NULL element with a payload")?;
                Ok(None)
            }
            Some(&byte) => {
                self.check(byte == element as u8, "array element of another type")?;
                self.value(depth + 1).map(Some)
            }
            None => Err(self.error("fewer bytes than announced")),
        }
    }

    fn range_or_multirange(&mut self, depth: usize) -> Result<Value> {
        let flags = self.u8()?;
        if flags != range_flag::MULTIRANGE {
            return self.range(flags, depth).map(Value::Range);
        }
        let mut ranges = Vec::new();
        for _ in 0..self.u32()? {
            let mut payload = self.prefixed()?;
            let flags = payload.u8()?;
            payload.check(flags != range_flag::EMPTY, "multirange with an empty range")?;
            ranges.push(payload.range(flags, depth)?);
            payload.end()?;
        }
        Ok(Value::Multirange(ranges))
    }

    fn range(&mut self, flags: u8, depth: usize) -> Result<RangeValue> {
        use range_flag::{EMPTY, LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE};
        const LOWER_BOTH: u8 = LOWER_INCLUSIVE | LOWER_INFINITE;
        const UPPER_BOTH: u8 = UPPER_INCLUSIVE | UPPER_INFINITE;
        if flags == EMPTY {
            return Ok(RangeValue::Empty);
        }
        let known = flags & !(LOWER_BOTH | UPPER_BOTH) == 0;
        let possible = flags & LOWER_BOTH != LOWER_BOTH && flags & UPPER_BOTH != UPPER_BOTH;
        self.check(known && possible, "impossible range flags")?;
        let lower = self.range_end(flags & LOWER_INFINITE != 0, flags & LOWER_INCLUSIVE != 0, depth)?;
        let upper = self.range_end(flags & UPPER_INFINITE != 0, flags & UPPER_INCLUSIVE != 0, depth)?;
        if let (Some((a, _)), Some((b, _))) = (&lower, &upper) {
            self.check(a.tag() == b.tag(), "range ends of different types")?;
        }
        Ok(RangeValue::Ends { lower, upper })
    }

    fn range_end(&mut self, infinite: bool, inclusive: bool, depth: usize) -> Result<End> {
        if infinite {
            return Ok(None);
        }
        Ok(Some((Box::new(self.value(depth + 1)?), inclusive)))
    }
}
