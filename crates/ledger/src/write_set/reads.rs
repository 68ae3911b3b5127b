//! Reads of a SERIALIZABLE transaction: the predicates under which it looked for rows.

use chainify_codec::decode_value;

use super::pieces::{check_tag, put_u16, read_count, read_ordinal, read_table};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Ordinal of the column.
    pub ordinal: u16,
    /// Where the values begin.
    pub lower: End,
    /// Where they end.
    pub upper: End,
}

/// An end of a bound, with its whole value (`tag ‖ length ‖ payload`), which is never NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There is none.
    None,
    /// The value itself lies outside.
    Open(Vec<u8>),
    /// The value itself lies inside.
    Closed(Vec<u8>),
}

impl Read {
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
