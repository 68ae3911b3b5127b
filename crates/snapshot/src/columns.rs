//! Columns of a table, and where a strategy keeps them.

use crate::inline::VIEW_BYTES;

/// Place of a row in its table, from 0. It is used again after the row was deleted.
pub type Slot = usize;

/// Bytes of the longest value of variable length: Arrow counts them in 31 bits.
pub const VALUE_BYTES_MAX: usize = i32::MAX as usize;

/// The cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Cells of one byte.
    Bytes1,
    /// Cells of two bytes.
    Bytes2,
    /// Cells of four bytes.
    Bytes4,
    /// Cells of eight bytes.
    Bytes8,
    /// Cells of sixteen bytes.
    Bytes16,
    /// Values of any length, by views of sixteen bytes, as Arrow's Utf8View and BinaryView.
    Variable,
}

impl Kind {
    /// Bytes of a cell, or of a view.
    pub fn cell_bytes(self) -> usize {
        match self {
            Kind::Bytes1 => 1,
            Kind::Bytes2 => 2,
            Kind::Bytes4 => 4,
            Kind::Bytes8 => 8,
            Kind::Bytes16 | Kind::Variable => VIEW_BYTES,
        }
    }
}

/// The columns of the strategy: the bitmap of rows first, then cells and validity of each column.
pub(crate) const LIVE: usize = 0;

/// Cells of a column of the table.
pub(crate) fn cells_of(column: usize) -> usize {
    1 + 2 * column
}

/// Validity of a column of the table: a bit is set where the value is not NULL.
pub(crate) fn validity_of(column: usize) -> usize {
    2 + 2 * column
}
