//! Mappings of a file in memory, which the writer maps to another place before it writes
//! (rewiring). For comparison.

use std::sync::Arc;

use crate::error::Error;
use crate::group::Group;
use crate::pool::Pool;
use crate::raw::mapping::PAGE;
use crate::raw::rewired::{Image, Rewired};
use crate::strategy::{ColumnId, Strategy, View};

/// A snapshot is a second mapping of a file in memory (rewiring, AnKer section 4.2.3). AnKer moves
/// the writer's pages and finds writes by a signal. Here the snapshot's groups move, and `write`
/// finds them itself.
///
/// Cost: a snapshot is one `mmap` for each column. The first write to a group afterwards copies it
/// and takes an `mmap` for each snapshot that shares it. The kernel bounds the mappings of a
/// process (`vm.max_map_count`, 65,530 as a rule).
pub struct Rewire {
    pool: Arc<Pool>,
    columns: Vec<Column>,
}

struct Column {
    group_bytes: usize,
    stride: usize,
    rewired: Rewired,
}

impl Rewire {
    /// Columns that count in this pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Rewire { pool, columns: Vec::new() }
    }
}

impl Strategy for Rewire {
    fn name(&self) -> &'static str {
        "rewire"
    }

    fn add_column(&mut self, group_bytes: usize) -> Result<ColumnId, Error> {
        let stride = group_bytes.next_multiple_of(PAGE);
        let rewired = Rewired::new(self.pool.clone(), stride, self.pool.usage().bytes_max)?;
        self.columns.push(Column { group_bytes, stride, rewired });
        Ok(self.columns.len() - 1)
    }

    fn groups(&self, column: ColumnId) -> usize {
        self.columns[column].rewired.groups()
    }

    fn grow(&mut self, column: ColumnId) -> Result<(), Error> {
        self.columns[column].rewired.grow()
    }

    fn read(&self, column: ColumnId, group: usize) -> &[u8] {
        let column = &self.columns[column];
        &column.rewired.read(group)[..column.group_bytes]
    }

    fn write(&mut self, column: ColumnId, group: usize) -> Result<&mut [u8], Error> {
        let column = &mut self.columns[column];
        Ok(&mut column.rewired.write(group)?[..column.group_bytes])
    }

    fn snapshot(&mut self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        let mut images = Vec::with_capacity(columns.len());
        for id in columns {
            let Column { group_bytes, stride, rewired } = &mut self.columns[*id];
            images.push(Mapped { image: rewired.image()?, stride: *stride, group_bytes: *group_bytes });
        }
        Ok(Arc::new(Images { columns: images }))
    }
}

struct Mapped {
    image: Arc<Image>,
    stride: usize,
    group_bytes: usize,
}

struct Images {
    columns: Vec<Mapped>,
}

impl View for Images {
    fn groups(&self, column: usize) -> usize {
        self.columns[column].image.groups()
    }

    fn group(&self, column: usize, group: usize) -> Result<Group, Error> {
        let column = &self.columns[column];
        assert!(group < column.image.groups(), "group {group} of {}", column.image.groups());
        let start = group * column.stride;
        Ok(Group::new(column.image.clone(), start..start + column.group_bytes))
    }
}
