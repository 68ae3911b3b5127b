//! The predicates of a SERIALIZABLE transaction: the conditions under which it looked for rows.

use std::cmp::Ordering;

use chainify_codec::{decode_value, Value};

use super::pieces::{check_tag, columns, put_u16, read_count, read_ordinal, read_table};
use crate::read::Reader;
use crate::WireError;

/// Reads of a write set.
pub const READS_MAX: usize = 1_024;
/// Bounds of a read.
pub const BOUNDS_MAX: usize = 16;

/// The fewest bytes of a read: one of the whole table.
const READ_BYTES_MIN: usize = 2 + 2;

/// The rows of a table that lie within all bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Index in [`super::WriteSet::tables`].
    pub table: u16,
    /// Ascending by ordinal, each column once. Without a bound it is the whole table.
    pub bounds: Vec<Bound>,
}

/// The values of a column between two ends, of which at least one is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// Ordinal of the column.
    pub ordinal: u16,
    /// Where the values begin.
    pub lower: End,
    /// Where they end.
    pub upper: End,
}

/// An end of a bound, with its whole value (`tag ‖ length ‖ payload`), which is never NULL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// There is none.
    None,
    /// The value itself lies outside.
    Open(Vec<u8>),
    /// The value itself lies inside.
    Closed(Vec<u8>),
}

/// The known facts about a column of a row.
pub enum Known {
    /// Nothing.
    Unknown,
    /// It is NULL.
    Null,
    /// Its value.
    Value(Value),
}

impl Read {
    /// Whether a row may lie within all bounds, where `column` tells what is known of the column
    /// with an ordinal. NULL lies in no bound. A value of another kind than a bound's counts as
    /// inside.
    pub fn may_cover(&self, column: impl Fn(u16) -> Known) -> bool {
        self.bounds.iter().all(|bound| match column(bound.ordinal) {
            Known::Unknown => true,
            Known::Null => false,
            Known::Value(value) => {
                bound.lower.allows(&value, Ordering::Less) && bound.upper.allows(&value, Ordering::Greater)
            }
        })
    }

    /// Whether a row, encoded as `chainify_codec` does, lies within all bounds. Cost: a look at
    /// each column and a copy of those with bounds; nothing without bounds.
    pub fn covers(&self, row: &[u8]) -> bool {
        if self.bounds.is_empty() {
            return true;
        }
        let Ok(values) = columns(row) else { return true };
        self.may_cover(|ordinal| match values.iter().find(|(known, _)| *known == ordinal) {
            Some((_, value)) => decode_value(value).map_or(Known::Unknown, Known::Value),
            None => Known::Null,
        })
    }

    /// Its bytes, whose order is that of reads in a write set.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    pub(super) fn check_values(&self) -> Result<(), WireError> {
        for (i, bound) in self.bounds.iter().enumerate() {
            let check = bound.lower.check_value("lower").and_then(|()| bound.upper.check_value("upper"));
            check.map_err(|error| error.within(&format!("bounds[{i}]")))?;
        }
        Ok(())
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_be_bytes());
        put_u16(out, self.bounds.len());
        for bound in &self.bounds {
            out.extend_from_slice(&bound.ordinal.to_be_bytes());
            bound.lower.write(out);
            bound.upper.write(out);
        }
    }

    fn decode(reader: &mut Reader<'_>, tables: &[String]) -> Result<Self, WireError> {
        let table = read_table(reader, tables)?;
        let count = usize::from(reader.u16("bounds")?);
        if count > BOUNDS_MAX {
            return Err(WireError::new("bounds", format!("{count}, want at most {BOUNDS_MAX}")));
        }
        let mut bounds = Vec::new();
        let mut last = 0;
        for i in 0..count {
            let bound = Bound::read(reader, last).map_err(|error| error.within(&format!("bounds[{i}]")))?;
            last = bound.ordinal;
            bounds.push(bound);
        }
        Ok(Self { table, bounds })
    }
}

impl Bound {
    /// The encoded value of a bound that has one alone.
    pub fn point(&self) -> Option<&[u8]> {
        match (&self.lower, &self.upper) {
            (End::Closed(lower), End::Closed(upper)) if lower == upper => Some(lower),
            _ => None,
        }
    }

    fn read(reader: &mut Reader<'_>, last: u16) -> Result<Self, WireError> {
        let ordinal = read_ordinal(reader, "ordinal", last)?;
        let (lower, upper) = (End::read(reader, "lower")?, End::read(reader, "upper")?);
        if (&lower, &upper) == (&End::None, &End::None) {
            return Err(WireError::new("upper", "is missing like lower"));
        }
        Ok(Self { ordinal, lower, upper })
    }
}

impl End {
    /// The encoded value.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            End::None => None,
            End::Open(value) | End::Closed(value) => Some(value),
        }
    }

    /// Whether a value does not lie beyond the end, which is where it compares as `beyond`.
    fn allows(&self, value: &Value, beyond: Ordering) -> bool {
        let Some(Ok(end)) = self.value().map(decode_value) else { return true };
        match value.order(&end) {
            None => true,
            Some(Ordering::Equal) => !matches!(self, Self::Open(_)),
            Some(order) => order != beyond,
        }
    }

    fn read(reader: &mut Reader<'_>, field: &str) -> Result<Self, WireError> {
        let end = match reader.u8(field)? {
            0 => return Ok(End::None),
            1 => End::Open,
            2 => End::Closed,
            end => return Err(WireError::new(field, format!("is {end}, want 0 to 2"))),
        };
        let value = reader.value(field)?;
        check_tag(field, value)?;
        Ok(end(value.to_vec()))
    }

    fn check_value(&self, field: &str) -> Result<(), WireError> {
        let Some(value) = self.value() else { return Ok(()) };
        decode_value(value).map(drop).map_err(|error| WireError::new(field, error.to_string()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            End::None => 0,
            End::Open(_) => 1,
            End::Closed(_) => 2,
        });
        out.extend(self.value().into_iter().flatten());
    }
}

pub(super) fn read_reads(reader: &mut Reader<'_>, tables: &[String]) -> Result<Vec<Read>, WireError> {
    let count = read_count(reader, "reads", READ_BYTES_MIN)?;
    if usize::try_from(count).map_or(true, |count| count > READS_MAX) {
        return Err(WireError::new("reads", format!("{count}, want at most {READS_MAX}")));
    }
    let mut reads = Vec::new();
    let mut last: &[u8] = &[];
    for i in 0..count {
        let (read, bytes) = reader.spanned(|reader| Read::decode(reader, tables));
        let read = read.map_err(|error| error.within(&format!("reads[{i}]")))?;
        if i > 0 && last >= bytes {
            return Err(WireError::new(format!("reads[{i}]"), "is not above the one before it"));
        }
        reads.push(read);
        last = bytes;
    }
    Ok(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(number: i64) -> Vec<u8> {
        let mut out = Vec::new();
        chainify_codec::value::int(&mut out, number);
        out
    }

    fn row(columns: &[(u16, i64)]) -> Vec<u8> {
        let values: Vec<(u16, Value)> =
            columns.iter().map(|(ordinal, number)| (*ordinal, Value::Int(*number))).collect();
        let mut out = Vec::new();
        Value::encode_row(&values, &mut out).expect("numbers have an encoding");
        out
    }

    fn read(bounds: Vec<Bound>) -> Read {
        Read { table: 0, bounds }
    }

    fn bound(ordinal: u16, lower: End, upper: End) -> Bound {
        Bound { ordinal, lower, upper }
    }

    #[test]
    fn a_row_is_covered_within_all_bounds() {
        let read =
            read(vec![bound(1, End::Closed(int(2)), End::Open(int(5))), bound(3, End::None, End::Closed(int(9)))]);
        let covered = |first, third| read.covers(&row(&[(1, first), (2, 0), (3, third)]));
        assert!(covered(2, 9) && covered(4, -100));
        assert!(!covered(1, 9) && !covered(5, 9) && !covered(2, 10));
        assert!(!read.covers(&row(&[(1, 3)])), "NULL lies in no bound");
        assert!(self::read(vec![]).covers(&row(&[(1, 3)])), "without bounds all rows are covered");
    }

    #[test]
    fn a_value_of_another_kind_counts_as_inside() {
        let mut text = Vec::new();
        chainify_codec::value::text(&mut text, "5");
        assert!(read(vec![bound(1, End::Closed(text.clone()), End::Closed(text))]).covers(&row(&[(1, 3)])));
    }

    #[test]
    fn an_unknown_column_may_lie_inside() {
        let read = read(vec![bound(1, End::Open(int(2)), End::None), bound(2, End::None, End::Open(int(7)))]);
        let known =
            |second| move |ordinal| if ordinal == 2 { Known::Value(Value::Int(second)) } else { Known::Unknown };
        assert!(read.may_cover(known(6)));
        assert!(!read.may_cover(known(7)));
    }

    #[test]
    fn one_value_is_a_point() {
        let of = |lower, upper| bound(1, lower, upper).point().map(<[u8]>::to_vec);
        assert_eq!(of(End::Closed(int(4)), End::Closed(int(4))), Some(int(4)));
        assert_eq!(of(End::Closed(int(4)), End::Closed(int(5))), None);
        assert_eq!(of(End::Closed(int(4)), End::Open(int(4))), None);
        assert_eq!(of(End::Closed(int(4)), End::None), None);
    }
}
