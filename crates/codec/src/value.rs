//! Writers, one per logical type: each appends `u8 tag ‖ u32 length ‖ payload` to the buffer.
//!
//! Nested values are written by closures straight into the buffer and their length is patched
//! afterwards, so nothing is copied. A closure's error type may be the caller's own. When a writer
//! fails, the buffer is as it was before.

use crate::{decimal, json, length_prefix, Tag, ValueError};

/// Every NaN is written as this one.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// Range flags, as in the payload's first byte.
pub(crate) mod range_flag {
    pub const EMPTY: u8 = 1;
    pub const LOWER_INCLUSIVE: u8 = 2;
    pub const UPPER_INCLUSIVE: u8 = 4;
    pub const LOWER_INFINITE: u8 = 8;
    pub const UPPER_INFINITE: u8 = 16;
    pub const MULTIRANGE: u8 = 32;
}

fn put(out: &mut Vec<u8>, tag: Tag, payload: &[u8]) {
    out.reserve(5 + payload.len());
    out.push(tag as u8);
    out.extend_from_slice(&length_prefix(payload));
    out.extend_from_slice(payload);
}

/// Writes `u32 length ‖ what the closure writes`.
fn patched<E: From<ValueError>>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let result = write(out).and_then(|()| {
        let length = u32::try_from(out.len() - start - 4).map_err(|_| ValueError::TooLong)?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn nested<E: From<ValueError>>(
    out: &mut Vec<u8>,
    tag: Tag,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.push(tag as u8);
    let result = patched(out, write);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// boolean
pub fn bool(out: &mut Vec<u8>, value: bool) {
    put(out, Tag::Bool, &[u8::from(value)]);
}

/// smallint, integer, bigint
pub fn int(out: &mut Vec<u8>, value: i64) {
    put(out, Tag::Int, &value.to_be_bytes());
}

/// numeric, from the text `numeric_out` prints. Fails on other text.
pub fn numeric(out: &mut Vec<u8>, text: &str) -> Result<(), ValueError> {
    nested(out, Tag::Numeric, |out| decimal::write_canonical(out, text))
}

/// real (widened by the caller) and double precision
pub fn float(out: &mut Vec<u8>, value: f64) {
    let bits = if value.is_nan() {
        NAN_BITS
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    put(out, Tag::Float, &bits.to_be_bytes());
}

/// text, varchar, name, citext
pub fn text(out: &mut Vec<u8>, value: &str) {
    put(out, Tag::Text, value.as_bytes());
}

/// char(n): the blanks that pad it are no part of its value.
pub fn char(out: &mut Vec<u8>, value: &str) {
    text(out, value.trim_end_matches(' '));
}

/// bytea
pub fn bytea(out: &mut Vec<u8>, value: &[u8]) {
    put(out, Tag::Bytea, value);
}

/// date: days since 1970-01-01; `i64::MIN` and `i64::MAX` for -infinity and infinity
pub fn date(out: &mut Vec<u8>, days: i64) {
    put(out, Tag::Date, &days.to_be_bytes());
}

/// time: microseconds since midnight, 0 to 86,400,000,000 (24:00)
pub fn time(out: &mut Vec<u8>, micros: i64) {
    put(out, Tag::Time, &micros.to_be_bytes());
}

/// timestamp: microseconds since 1970-01-01 00:00:00; `i64::MIN` and `i64::MAX` for -infinity and
/// infinity
pub fn timestamp(out: &mut Vec<u8>, micros: i64) {
    put(out, Tag::Timestamp, &micros.to_be_bytes());
}

/// timestamptz: as [`timestamp`], in UTC
pub fn timestamptz(out: &mut Vec<u8>, micros: i64) {
    put(out, Tag::TimestampTz, &micros.to_be_bytes());
}

/// uuid
pub fn uuid(out: &mut Vec<u8>, value: &[u8; 16]) {
    put(out, Tag::Uuid, value);
}

/// json and jsonb, from their text. Fails on text that has no canonical form; cost O(n log n).
pub fn json(out: &mut Vec<u8>, text: &str) -> Result<(), ValueError> {
    nested(out, Tag::Json, |out| json::write_canonical(out, text))
}

/// The label of an enum value
pub fn enum_label(out: &mut Vec<u8>, label: &str) {
    put(out, Tag::Enum, label.as_bytes());
}

/// interval
pub fn interval(out: &mut Vec<u8>, months: i32, days: i32, micros: i64) {
    let mut payload = [0; 16];
    payload[..4].copy_from_slice(&months.to_be_bytes());
    payload[4..8].copy_from_slice(&days.to_be_bytes());
    payload[8..].copy_from_slice(&micros.to_be_bytes());
    put(out, Tag::Interval, &payload);
}

/// inet, cidr, macaddr, macaddr8: the text the type's output function prints
pub fn net(out: &mut Vec<u8>, text: &str) {
    put(out, Tag::Net, text.as_bytes());
}

/// Any other type: its schema-qualified name and its text output under the pinned settings
pub fn other(out: &mut Vec<u8>, type_name: &str, text: &str) -> Result<(), ValueError> {
    nested(out, Tag::Other, |out| {
        for part in [type_name, text] {
            out.extend_from_slice(&length_prefix(part.as_bytes()));
            out.extend_from_slice(part.as_bytes());
        }
        Ok(())
    })
}

/// Dimensions an array has at most, as in PostgreSQL.
pub(crate) const DIMENSIONS_MAX: usize = 6;

/// How many elements an array of these dimensions has: none without a dimension, otherwise the
/// product of sizes that are all positive. `None` for shapes PostgreSQL does not have.
pub(crate) fn element_count(sizes: impl ExactSizeIterator<Item = u32>) -> Option<u64> {
    match sizes.len() {
        0 => Some(0),
        1..=DIMENSIONS_MAX => {
            sizes.into_iter().try_fold(1u64, |n, size| (size > 0).then(|| n.checked_mul(size.into()))?)
        }
        _ => None,
    }
}

/// An array: its element type, `(size, lower bound)` per dimension (none for an empty array), and
/// its elements, which the closure writes in row-major order.
///
/// Fails when the elements are not as many as the dimensions say, or not of the element type.
pub fn array<E: From<ValueError>>(
    out: &mut Vec<u8>,
    element: Tag,
    dimensions: &[(u32, i32)],
    write: impl FnOnce(&mut ArrayWriter<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let want =
        element_count(dimensions.iter().map(|d| d.0)).ok_or(ValueError::Shape("array with impossible dimensions"))?;
    nested(out, Tag::Array, |out| {
        out.push(element as u8);
        out.push(dimensions.len() as u8); // at most 6
        for (size, lower_bound) in dimensions {
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&lower_bound.to_be_bytes());
        }
        let mut elements = ArrayWriter { out, element, written: 0 };
        write(&mut elements)?;
        if elements.written != want {
            return Err(ValueError::Shape("array elements are not as many as its dimensions say").into());
        }
        Ok(())
    })
}

/// Takes the elements of an array.
pub struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    element: Tag,
    written: u64,
}

impl ArrayWriter<'_> {
    /// The next element, written by one call of a function of this module.
    pub fn value<E: From<ValueError>>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.out.len();
        write(self.out)?;
        if self.out.get(start) != Some(&(self.element as u8)) {
            return Err(ValueError::Shape("array element of another type").into());
        }
        self.written += 1;
        Ok(())
    }

    /// A NULL element.
    pub fn null(&mut self) {
        self.out.extend_from_slice(&[crate::tag::NULL_ELEMENT, 0, 0, 0, 0]);
        self.written += 1;
    }
}

/// A composite value: how many attributes its type has, and its non-NULL fields, which the closure
/// writes.
///
/// Fails when ordinals do not ascend or lie outside `1..=attributes`.
pub fn composite<E: From<ValueError>>(
    out: &mut Vec<u8>,
    attributes: u16,
    write: impl FnOnce(&mut FieldsWriter<'_>) -> Result<(), E>,
) -> Result<(), E> {
    nested(out, Tag::Composite, |out| {
        out.extend_from_slice(&attributes.to_be_bytes());
        let mut fields = FieldsWriter::begin(out, attributes);
        write(&mut fields)?;
        fields.finish();
        Ok(())
    })
}

/// Takes the numbered values of a composite or a row:
/// `u16 count ‖ per value (u16 ordinal ‖ value)`.
pub struct FieldsWriter<'a> {
    out: &'a mut Vec<u8>,
    count_at: usize,
    count: u16,
    last: u16,
    ordinal_max: u16,
}

impl<'a> FieldsWriter<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>, ordinal_max: u16) -> Self {
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        Self { out, count_at, count: 0, last: 0, ordinal_max }
    }

    /// A value that is not NULL, written by one call of a function of this module; ordinals ascend
    /// from 1.
    pub fn field<E: From<ValueError>>(
        &mut self,
        ordinal: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        if ordinal <= self.last || ordinal > self.ordinal_max {
            return Err(ValueError::Shape("ordinals do not ascend within their bounds").into());
        }
        let start = self.out.len();
        self.out.extend_from_slice(&ordinal.to_be_bytes());
        if let Err(error) = write(self.out) {
            self.out.truncate(start);
            return Err(error);
        }
        self.last = ordinal;
        self.count += 1; // cannot overflow: as many as distinct ordinals at most
        Ok(())
    }

    pub(crate) fn finish(self) {
        self.out[self.count_at..self.count_at + 2].copy_from_slice(&self.count.to_be_bytes());
    }
}

/// One end of a range.
pub enum Bound<W> {
    /// No end on this side.
    Infinite,
    /// Ends at a value, which it contains; the closure writes the value.
    Inclusive(W),
    /// Ends before a value; the closure writes the value.
    Exclusive(W),
}

impl<W> Bound<W> {
    fn flags(&self, inclusive: u8, infinite: u8) -> u8 {
        match self {
            Bound::Infinite => infinite,
            Bound::Inclusive(_) => inclusive,
            Bound::Exclusive(_) => 0,
        }
    }

    fn into_value(self) -> Option<W> {
        match self {
            Bound::Infinite => None,
            Bound::Inclusive(write) | Bound::Exclusive(write) => Some(write),
        }
    }
}

fn range_payload<E, L, U>(out: &mut Vec<u8>, lower: Bound<L>, upper: Bound<U>) -> Result<(), E>
where
    L: FnOnce(&mut Vec<u8>) -> Result<(), E>,
    U: FnOnce(&mut Vec<u8>) -> Result<(), E>,
{
    use range_flag::{LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE};
    out.push(lower.flags(LOWER_INCLUSIVE, LOWER_INFINITE) | upper.flags(UPPER_INCLUSIVE, UPPER_INFINITE));
    if let Some(write) = lower.into_value() {
        write(out)?;
    }
    if let Some(write) = upper.into_value() {
        write(out)?;
    }
    Ok(())
}

/// A range that is not empty.
pub fn range<E, L, U>(out: &mut Vec<u8>, lower: Bound<L>, upper: Bound<U>) -> Result<(), E>
where
    E: From<ValueError>,
    L: FnOnce(&mut Vec<u8>) -> Result<(), E>,
    U: FnOnce(&mut Vec<u8>) -> Result<(), E>,
{
    nested(out, Tag::Range, |out| range_payload(out, lower, upper))
}

/// The empty range
pub fn empty_range(out: &mut Vec<u8>) {
    put(out, Tag::Range, &[range_flag::EMPTY]);
}

/// A multirange: its ranges, which the closure writes in their order.
pub fn multirange<E: From<ValueError>>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut MultirangeWriter<'_>) -> Result<(), E>,
) -> Result<(), E> {
    nested(out, Tag::Range, |out| {
        out.push(range_flag::MULTIRANGE);
        let count_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut ranges = MultirangeWriter { out, count: 0 };
        write(&mut ranges)?;
        let count = ranges.count;
        out[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    })
}

/// Takes the ranges of a multirange.
pub struct MultirangeWriter<'a> {
    out: &'a mut Vec<u8>,
    count: u32,
}

impl MultirangeWriter<'_> {
    /// The next range; a multirange holds no empty ones.
    pub fn range<E, L, U>(&mut self, lower: Bound<L>, upper: Bound<U>) -> Result<(), E>
    where
        E: From<ValueError>,
        L: FnOnce(&mut Vec<u8>) -> Result<(), E>,
        U: FnOnce(&mut Vec<u8>) -> Result<(), E>,
    {
        patched(self.out, |out| range_payload(out, lower, upper))?;
        self.count = self.count.checked_add(1).ok_or(ValueError::TooLong)?;
        Ok(())
    }
}
