//! The encoding of pieces that changes, rows of the read set and predicates have in common.

use chainify_codec::Tag;

use crate::read::Reader;
use crate::{length_prefix, WireError};

pub(super) fn read_table(reader: &mut Reader<'_>, tables: &[String]) -> Result<u16, WireError> {
    let table = reader.u16("table")?;
    if usize::from(table) >= tables.len() {
        return Err(WireError::new("table", format!("is {table} of {}", tables.len())));
    }
    Ok(table)
}

pub(super) fn read_ordinal(reader: &mut Reader<'_>, field: &str, last: u16) -> Result<u16, WireError> {
    let ordinal = reader.u16(field)?;
    if ordinal <= last {
        return Err(WireError::new(field, format!("ordinal {ordinal} is not above {last}")));
    }
    Ok(ordinal)
}

pub(super) fn check_tag(field: &str, value: &[u8]) -> Result<(), WireError> {
    match Tag::from_byte(value[0]) {
        Some(_) => Ok(()),
        None => Err(WireError::new(field, format!("tag {:02x} is unknown", value[0]))),
    }
}

/// A count of things that the bytes left can hold.
pub(super) fn read_count(reader: &mut Reader<'_>, field: &str, bytes_min: usize) -> Result<u32, WireError> {
    let count = reader.u32(field)?;
    check_count(reader, field, usize::try_from(count).unwrap_or(usize::MAX), bytes_min)?;
    Ok(count)
}

pub(super) fn check_count(reader: &Reader<'_>, field: &str, count: usize, bytes_min: usize) -> Result<(), WireError> {
    if count.saturating_mul(bytes_min) > reader.remaining() {
        return Err(WireError::new(field, format!("{count} do not fit into {} bytes", reader.remaining())));
    }
    Ok(())
}

/// A count above the field's range becomes its greatest value, which no decoder accepts here.
pub(super) fn put_u16(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

pub(super) fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&length_prefix(bytes));
    out.extend_from_slice(bytes);
}

/// The columns of a row that are not NULL, with their encoded values, ascending by ordinal as they
/// stand. Err: the bytes are no row. Cost: linear, without a copy of values.
pub fn columns(row: &[u8]) -> Result<Vec<(u16, &[u8])>, WireError> {
    let mut reader = Reader::new(row);
    let count = reader.u16("row")?;
    let column = |_| Ok((reader.u16("row")?, reader.value("row")?));
    let columns = (0..count).map(column).collect::<Result<_, WireError>>()?;
    reader.end("row")?;
    Ok(columns)
}
