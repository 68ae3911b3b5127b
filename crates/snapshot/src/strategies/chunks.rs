//! Reference-counted chunks, which the writer copies before it changes a shared one. The default.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::directory::Directory;
use crate::error::Error;
use crate::group::Group;
use crate::pool::Pool;
use crate::strategy::{ColumnId, Memory, Strategy, View};

/// A group is a chunk with a count of its owners. A snapshot shares the tree of chunks; the writer
/// copies a shared chunk before it writes. Works on every kernel.
///
/// Cost: a snapshot is one atomic addition for each column. The first write to a chunk afterwards
/// copies it, and pointers to 64 others. Groups of zeros take no memory until they are written.
pub struct Chunks {
    pool: Arc<Pool>,
    columns: Vec<Column>,
}

struct Column {
    directory: Directory,
    /// The chunk that new groups begin as.
    zeros: Arc<Chunk>,
}

impl Chunks {
    /// Columns in memory of this pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Chunks { pool, columns: Vec::new() }
    }
}

impl Strategy for Chunks {
    fn name(&self) -> &'static str {
        "chunks"
    }

    fn add_column(&mut self, group_bytes: usize) -> Result<ColumnId, Error> {
        let zeros = match self.columns.iter().find(|other| other.zeros.len() == group_bytes) {
            Some(other) => other.zeros.clone(),
            None => Arc::new(Chunk::zeroed(&self.pool, group_bytes)?),
        };
        self.columns.push(Column { directory: Directory::default(), zeros });
        Ok(self.columns.len() - 1)
    }

    fn groups(&self, column: ColumnId) -> usize {
        self.columns[column].directory.len()
    }

    fn grow(&mut self, column: ColumnId) -> Result<(), Error> {
        let column = &mut self.columns[column];
        column.directory.push(column.zeros.clone());
        Ok(())
    }

    fn read(&self, column: ColumnId, group: usize) -> &[u8] {
        (**self.columns[column].directory.chunk(group)).as_ref()
    }

    fn write(&mut self, column: ColumnId, group: usize) -> Result<&mut [u8], Error> {
        self.columns[column].directory.write(group)
    }

    fn memory(&self) -> Option<Memory> {
        let mut memory = Memory::default();
        for Column { directory, zeros } in &self.columns {
            for (chunk, shared) in directory.chunks().filter(|(chunk, _)| !Arc::ptr_eq(chunk, zeros)) {
                memory.bytes += chunk.len();
                memory.chunks += 1;
                memory.chunks_shared += usize::from(shared);
            }
        }
        Some(memory)
    }

    fn snapshot(&mut self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        Ok(Arc::new(Shared { columns: columns.iter().map(|id| self.columns[*id].directory.clone()).collect() }))
    }
}

struct Shared {
    columns: Vec<Directory>,
}

impl View for Shared {
    fn groups(&self, column: usize) -> usize {
        self.columns[column].len()
    }

    fn group(&self, column: usize, group: usize) -> Result<Group, Error> {
        Ok(Group::whole(self.columns[column].chunk(group).clone()))
    }
}
