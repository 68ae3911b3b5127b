//! One bit for each row of a group, in Arrow's order: the lowest bit of the first byte first.

use crate::group::Group;
use crate::strategy::GROUP_ROWS;

/// Bytes of a bitmap for the rows of a group.
pub(crate) const BITMAP_BYTES: usize = GROUP_ROWS / 8;

/// Whether a bit is set.
pub(crate) fn is_set(bytes: &[u8], row: usize) -> bool {
    bytes[row / 8] & (1 << (row % 8)) != 0
}

/// Sets or clears a bit.
pub(crate) fn set(bytes: &mut [u8], row: usize, to: bool) {
    match to {
        true => bytes[row / 8] |= 1 << (row % 8),
        false => bytes[row / 8] &= !(1 << (row % 8)),
    }
}

/// A bitmap of a snapshot. Its bytes are those of a validity buffer of Arrow.
#[derive(Clone)]
pub struct Bitmap(pub(crate) Group);

impl Bitmap {
    /// The bit of a row of the group.
    ///
    /// # Panics
    /// When the group has no such row.
    pub fn get(&self, row: usize) -> bool {
        is_set(&self.0, row)
    }

    /// How many bits are set.
    pub fn ones(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// The bytes, for Arrow.
    pub fn bytes(&self) -> &Group {
        &self.0
    }
}
