//! Rows: numbered values of a table's columns, and their hash.

use sha2::{Digest, Sha256};

use crate::value::FieldsWriter;
use crate::{length_prefix, Hash, ValueError};

/// Writes one row into a buffer, which the caller reuses from row to row.
///
/// ```
/// use chainify_codec::{value, RowWriter, ValueError};
///
/// let mut row = Vec::new();
/// let mut columns = RowWriter::begin(&mut row);
/// columns.column(1, |out| Ok::<_, ValueError>(value::int(out, 42)))?;
/// columns.column(3, |out| value::numeric(out, "1.50"))?; // column 2 is NULL
/// columns.finish();
/// assert_eq!(row[..4], [0, 2, 0, 1]);
/// # Ok::<(), ValueError>(())
/// ```
pub struct RowWriter<'a>(FieldsWriter<'a>);

impl<'a> RowWriter<'a> {
    /// Starts a row in `out`, after clearing it.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.clear();
        Self::append(out)
    }

    /// Starts a row at the end of `out`.
    pub fn append(out: &'a mut Vec<u8>) -> Self {
        Self(FieldsWriter::begin(out, u16::MAX))
    }

    /// A column that is not NULL, written by one call of a function of [`crate::value`]. Ordinals
    /// ascend from 1; another one is a [`ValueError::Shape`] and nothing is written.
    pub fn column<E: From<ValueError>>(
        &mut self,
        ordinal: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.field(ordinal, write)
    }

    /// Ends the row. Without it the row has no columns by its count, and does not decode.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// `H("chainify/row/1" ‖ lp(table) ‖ row)`
pub fn row_hash(table: &str, row: &[u8]) -> Hash {
    RowHasher::new(table).hash(row)
}

/// Row hashes of one table, with the constant part absorbed once.
#[derive(Clone)]
pub struct RowHasher(Sha256);

impl RowHasher {
    /// For rows of `table`, `schema.name` unquoted.
    pub fn new(table: &str) -> Self {
        let prefix = Sha256::new().chain_update(b"chainify/row/1");
        Self(prefix.chain_update(length_prefix(table.as_bytes())).chain_update(table))
    }

    /// The hash of one row, as written by [`RowWriter`]. Cost: one SHA-256 over the row.
    pub fn hash(&self, row: &[u8]) -> Hash {
        self.0.clone().chain_update(row).finalize().into()
    }
}
