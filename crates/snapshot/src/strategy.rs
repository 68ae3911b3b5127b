//! The seam between tables and the ways to share memory.

use std::sync::Arc;

use crate::error::Error;
use crate::group::Group;

/// Rows of a group: the cells of all columns line up in batches of so many, as in Apache
/// DataFusion.
pub const GROUP_ROWS: usize = 8192;

/// Number of a column of a [`Strategy`], from 0 in the order in which they were added.
pub type ColumnId = usize;

/// The memory of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of cells and long values; those that a snapshot alone still has do not count.
    pub bytes: usize,
    /// Chunks.
    pub chunks: usize,
    /// Chunks of these that snapshots share; 0 where the kernel alone knows.
    pub chunks_shared: usize,
}

/// A way to make snapshots. It holds columns as groups of bytes, which one writer changes.
///
/// All strategies pass the same tests (`tests/conformance`). Their costs are in README.md.
///
/// # Panics
/// Functions panic for a column or group that was never added, as a slice does.
pub trait Strategy: Send {
    /// Its name, as in settings and reports.
    fn name(&self) -> &'static str;

    /// Adds a column of groups of so many bytes, without groups.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Memory`], [`Error::System`].
    fn add_column(&mut self, group_bytes: usize) -> Result<ColumnId, Error>;

    /// Number of groups of a column.
    fn groups(&self, column: ColumnId) -> usize;

    /// Adds a group of zeros to a column.
    ///
    /// # Errors
    /// [`Error::Full`]; then the column has as many groups as before.
    fn grow(&mut self, column: ColumnId) -> Result<(), Error>;

    /// The bytes of a group as they are now.
    fn read(&self, column: ColumnId, group: usize) -> &[u8];

    /// The bytes of a group, to be changed: first they are parted from snapshots that share them
    /// (V1). Until the next snapshot the same call for the same group cannot fail again.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Memory`], [`Error::System`]; then every byte is as before.
    fn write(&mut self, column: ColumnId, group: usize) -> Result<&mut [u8], Error>;

    /// Memory of all columns; None: the strategy does not know what is shared.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// A snapshot of these columns as they are now (V2).
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Memory`], [`Error::System`]; then there is no new snapshot.
    fn snapshot(&mut self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error>;
}

/// A snapshot of columns. Readers in any threads share it; its memory goes back with the last one.
pub trait View: Send + Sync {
    /// Number of groups of a column, which is named by its place in the list that was snapshotted.
    fn groups(&self, column: usize) -> usize;

    /// A group of a column.
    ///
    /// # Errors
    /// [`Error::Lost`] where another process holds the snapshot; [`Error::Full`] where its bytes
    /// are copied from there.
    fn group(&self, column: usize, group: usize) -> Result<Group, Error>;
}
