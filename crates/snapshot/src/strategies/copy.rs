//! A copy of everything at once: for comparison.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::Error;
use crate::group::Group;
use crate::pool::Pool;
use crate::strategy::{ColumnId, Strategy, View};

/// A snapshot is a copy of every byte (physical snapshotting, AnKer section 4.2).
///
/// Cost: a snapshot takes the time to copy its columns. Writes cost nothing afterwards.
pub struct Copy {
    pool: Arc<Pool>,
    columns: Vec<Column>,
}

struct Column {
    group_bytes: usize,
    groups: Vec<Chunk>,
}

impl Copy {
    /// Columns in memory of this pool, and copies from it.
    pub fn new(pool: Arc<Pool>) -> Self {
        Copy { pool, columns: Vec::new() }
    }
}

impl Strategy for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn add_column(&mut self, group_bytes: usize) -> Result<ColumnId, Error> {
        self.columns.push(Column { group_bytes, groups: Vec::new() });
        Ok(self.columns.len() - 1)
    }

    fn groups(&self, column: ColumnId) -> usize {
        self.columns[column].groups.len()
    }

    fn grow(&mut self, column: ColumnId) -> Result<(), Error> {
        let column = &mut self.columns[column];
        column.groups.push(Chunk::zeroed(&self.pool, column.group_bytes)?);
        Ok(())
    }

    fn read(&self, column: ColumnId, group: usize) -> &[u8] {
        self.columns[column].groups[group].as_ref()
    }

    fn write(&mut self, column: ColumnId, group: usize) -> Result<&mut [u8], Error> {
        Ok(self.columns[column].groups[group].as_mut_slice())
    }

    fn snapshot(&mut self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        let copied =
            |id: &ColumnId| self.columns[*id].groups.iter().map(|chunk| chunk.copied().map(Arc::new)).collect();
        Ok(Arc::new(Copied { columns: columns.iter().map(copied).collect::<Result<_, Error>>()? }))
    }
}

struct Copied {
    columns: Vec<Vec<Arc<Chunk>>>,
}

impl View for Copied {
    fn groups(&self, column: usize) -> usize {
        self.columns[column].len()
    }

    fn group(&self, column: usize, group: usize) -> Result<Group, Error> {
        Ok(Group::whole(self.columns[column][group].clone()))
    }
}
