//! Columns in private mappings: the memory of `fork` and of `vm_snapshot`.

use std::sync::Arc;

use crate::error::Error;
use crate::pool::Pool;
use crate::raw::mapping::{Mapping, SnapshotCall, PAGE};
use crate::strategy::{ColumnId, Memory, Strategy, View};

/// A strategy whose writer keeps its columns here.
pub(crate) trait InPrivate: Send {
    fn name(&self) -> &'static str;
    fn columns(&self) -> &Columns;
    fn columns_mut(&mut self) -> &mut Columns;
    fn snapshot(&self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error>;
}

impl<T: InPrivate> Strategy for T {
    fn name(&self) -> &'static str {
        InPrivate::name(self)
    }

    fn add_column(&mut self, group_bytes: usize) -> Result<ColumnId, Error> {
        self.columns_mut().add(group_bytes)
    }

    fn groups(&self, column: ColumnId) -> usize {
        self.columns().column(column).groups()
    }

    fn grow(&mut self, column: ColumnId) -> Result<(), Error> {
        self.columns_mut().grow(column)
    }

    fn read(&self, column: ColumnId, group: usize) -> &[u8] {
        self.columns().column(column).read(group)
    }

    fn write(&mut self, column: ColumnId, group: usize) -> Result<&mut [u8], Error> {
        Ok(self.columns_mut().write(column, group))
    }

    fn memory(&self) -> Option<Memory> {
        let columns = &self.columns().columns;
        let chunks = columns.iter().map(Column::groups).sum();
        Some(Memory { bytes: columns.iter().map(Column::bytes).sum(), chunks, chunks_shared: 0 })
    }

    fn snapshot(&mut self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        InPrivate::snapshot(self, columns)
    }
}

/// Bytes that the pool counts, until this value has gone.
pub(crate) struct Charge {
    pool: Arc<Pool>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(pool: &Arc<Pool>, bytes: usize) -> Result<Self, Error> {
        pool.charge(bytes)?;
        Ok(Charge { pool: pool.clone(), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.discharge(self.bytes);
    }
}

/// A column in one mapping, which has room for all that the pool allows.
pub(crate) struct Column {
    mapping: Mapping,
    /// Bytes of a group, and from one group to the next: whole pages.
    group_bytes: usize,
    stride: usize,
    charges: Vec<Charge>,
}

impl Column {
    pub(crate) fn groups(&self) -> usize {
        self.charges.len()
    }

    /// Bytes from the first group to the end of the last.
    pub(crate) fn bytes(&self) -> usize {
        self.groups() * self.stride
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn group_bytes(&self) -> usize {
        self.group_bytes
    }

    /// Where the first group begins.
    pub(crate) fn address(&self) -> usize {
        self.mapping.as_slice().as_ptr() as usize
    }

    pub(crate) fn read(&self, group: usize) -> &[u8] {
        assert!(group < self.groups(), "group {group} of {}", self.groups());
        &self.mapping.as_slice()[group * self.stride..][..self.group_bytes]
    }

    pub(crate) fn snapshot(&self, call: SnapshotCall) -> Result<Mapping, Error> {
        self.mapping.snapshot(self.bytes(), call).map_err(|error| Error::system("vm_snapshot", &error))
    }
}

/// The columns of one writer.
pub(crate) struct Columns {
    pool: Arc<Pool>,
    columns: Vec<Column>,
}

impl Columns {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Columns { pool, columns: Vec::new() }
    }

    pub(crate) fn column(&self, column: ColumnId) -> &Column {
        &self.columns[column]
    }

    pub(crate) fn add(&mut self, group_bytes: usize) -> Result<ColumnId, Error> {
        let stride = group_bytes.next_multiple_of(PAGE);
        let bytes = self.pool.usage().bytes_max.next_multiple_of(stride);
        let mapping = Mapping::new(bytes).map_err(|error| Error::system("mmap", &error))?;
        self.columns.push(Column { mapping, group_bytes, stride, charges: Vec::new() });
        Ok(self.columns.len() - 1)
    }

    pub(crate) fn grow(&mut self, column: ColumnId) -> Result<(), Error> {
        let column = &mut self.columns[column];
        column.charges.push(Charge::new(&self.pool, column.stride)?);
        Ok(())
    }

    pub(crate) fn write(&mut self, column: ColumnId, group: usize) -> &mut [u8] {
        let column = &mut self.columns[column];
        assert!(group < column.groups(), "group {group} of {}", column.groups());
        &mut column.mapping.as_mut_slice()[group * column.stride..][..column.group_bytes]
    }

    /// Counts the bytes of these columns once more. The kernel does not tell how many pages of a
    /// snapshot have been copied, so each counts as if all were.
    pub(crate) fn charge(&self, columns: impl Iterator<Item = ColumnId>) -> Result<Charge, Error> {
        Charge::new(&self.pool, columns.map(|id| self.columns[id].bytes()).sum())
    }

    pub(crate) fn ids(&self) -> std::ops::Range<ColumnId> {
        0..self.columns.len()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}
