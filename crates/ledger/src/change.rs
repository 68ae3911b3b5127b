//! A change of a block on its way from one organisation's history to another's:
//! `lp(table) ‖ u32 tx ‖ u32 serial ‖ u8 op ‖ lp(hash) ‖ cells`, the cells of its row (`cells`),
//! columns by ordinal.

use crate::read::Reader;
use crate::{length_prefix, WireError};

/// A change, borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Travelling<'a> {
    /// `schema.name`, unquoted.
    pub table: &'a str,
    /// Index of the transaction.
    pub tx: i32,
    /// Place among the changes of its row.
    pub serial: i32,
    /// One ASCII letter.
    pub op: u8,
    /// Row hash.
    pub hash: &'a [u8],
    /// See [`crate::cells`].
    pub cells: &'a [u8],
}

/// The bytes of a change.
pub fn encode(change: &Travelling) -> Vec<u8> {
    let mut bytes = length_prefix(change.table.as_bytes()).to_vec();
    bytes.extend_from_slice(change.table.as_bytes());
    bytes.extend_from_slice(&change.tx.to_be_bytes());
    bytes.extend_from_slice(&change.serial.to_be_bytes());
    bytes.push(change.op);
    bytes.extend_from_slice(&length_prefix(change.hash));
    bytes.extend_from_slice(change.hash);
    bytes.extend_from_slice(change.cells);
    bytes
}

/// Takes apart what [`encode`] gives; one spelling is accepted. The cells are checked by
/// [`crate::cells`].
pub fn decode(bytes: &[u8]) -> Result<Travelling<'_>, WireError> {
    let mut reader = Reader::new(bytes);
    let table = std::str::from_utf8(reader.prefixed("table")?);
    let table = table.map_err(|_| WireError::new("table", "is not UTF-8"))?;
    let (tx, serial) = (number(&mut reader, "tx")?, number(&mut reader, "serial")?);
    let [op] = reader.fixed("op")?;
    if !op.is_ascii_uppercase() {
        return Err(WireError::new("op", format!("is {op}, want a letter")));
    }
    let hash = reader.prefixed("hash")?;
    let cells = reader.take("cells", reader.remaining())?;
    Ok(Travelling { table, tx, serial, op, hash, cells })
}

fn number(reader: &mut Reader<'_>, field: &str) -> Result<i32, WireError> {
    let value = reader.u32(field)?;
    i32::try_from(value).map_err(|_| WireError::new(field, format!("is {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: Travelling<'static> =
        Travelling { table: "public.a", tx: 3, serial: 7, op: b'U', hash: &[9; 32], cells: &[0, 1, 0] };

    #[test]
    fn a_change_comes_back_as_it_went() {
        assert_eq!(decode(&encode(&CHANGE)), Ok(CHANGE));
    }

    #[test]
    fn what_is_cut_off_or_no_change_is_refused() {
        let bytes = encode(&CHANGE);
        for length in 0..bytes.len() - CHANGE.cells.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(decode(&encode(&Travelling { op: b'u', ..CHANGE })).is_err());
        assert!(decode(&encode(&Travelling { tx: -1, ..CHANGE })).is_err());
    }
}
