//! A row on its way from one organisation's database to another's: the output of each column's
//! type, columns by name. `cells := u16 columns ‖ per column: 00 for NULL, or 01 ‖ lp(UTF-8 text)`

use crate::read::Reader;
use crate::{length_prefix, WireError};

/// A table of PostgreSQL has no more columns.
pub const COLUMNS_MAX: usize = 1_600;

/// The bytes of a row of at most [`COLUMNS_MAX`] columns.
pub fn encode<T: AsRef<str>>(cells: &[Option<T>]) -> Vec<u8> {
    let count = u16::try_from(cells.len()).expect("a table has at most 1,600 columns");
    let mut bytes = count.to_be_bytes().to_vec();
    for cell in cells {
        match cell {
            None => bytes.push(0),
            Some(text) => {
                let text = text.as_ref().as_bytes();
                bytes.push(1);
                bytes.extend_from_slice(&length_prefix(text));
                bytes.extend_from_slice(text);
            }
        }
    }
    bytes
}

/// The texts of a row of `columns` columns, borrowed; one spelling is accepted.
pub fn decode(bytes: &[u8], columns: usize) -> Result<Vec<Option<&str>>, WireError> {
    let cells = decode_any(bytes)?;
    match cells.len() == columns {
        true => Ok(cells),
        false => Err(WireError::new("columns", format!("{}, want {columns}", cells.len()))),
    }
}

/// Decodes a row with any number of columns.
pub fn decode_any(bytes: &[u8]) -> Result<Vec<Option<&str>>, WireError> {
    let mut reader = Reader::new(bytes);
    let count = usize::from(u16::from_be_bytes(reader.fixed("columns")?));
    if count > COLUMNS_MAX {
        return Err(WireError::new("columns", format!("{count}, want at most {COLUMNS_MAX}")));
    }
    let cells = (0..count).map(|_| cell(&mut reader)).collect::<Result<_, _>>()?;
    reader.end("cells")?;
    Ok(cells)
}

fn cell<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>, WireError> {
    match reader.fixed::<1>("cell")? {
        [0] => Ok(None),
        [1] => {
            let text = std::str::from_utf8(reader.prefixed("cell")?);
            text.map(Some).map_err(|_| WireError::new("cell", "is not UTF-8"))
        }
        [tag] => Err(WireError::new("cell", format!("begins with {tag}, want 0 or 1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_went() {
        for cells in [vec![], vec![None], vec![Some("a"), None, Some(""), Some("ä€")]] {
            assert_eq!(decode(&encode(&cells), cells.len()), Ok(cells));
        }
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let bytes = encode(&[Some("a"), None]);
        assert!(decode(&bytes, 1).is_err());
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], 2).is_err(), "cut after {end}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat(), 2).is_err());
        let mut not_utf8 = bytes.clone();
        not_utf8[7] = 0xff;
        assert!(decode(&not_utf8, 2).is_err());
        let mut other_tag = bytes;
        other_tag[2] = 2;
        assert!(decode(&other_tag, 2).is_err());
    }
}
