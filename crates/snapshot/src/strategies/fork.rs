//! A copy of the process: for comparison.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::Error;
use crate::group::Group;
use crate::pool::Pool;
use crate::raw::process::Frozen;
use crate::strategies::private::{Charge, Columns, InPrivate};
use crate::strategy::{ColumnId, View};

/// A snapshot is a copy of the process (AnKer section 4.2; HyPer). The kernel shares each page
/// until one side writes. Readers get groups from the copy through a socket.
///
/// Cost: a snapshot takes a time proportional to the pages of the whole process. The first write to
/// a page afterwards is a page fault. A snapshot counts as its columns in full (V4).
pub struct Fork {
    columns: Columns,
}

impl Fork {
    /// Columns that count in this pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Fork { columns: Columns::new(pool) }
    }
}

impl InPrivate for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn columns_mut(&mut self) -> &mut Columns {
        &mut self.columns
    }

    fn snapshot(&self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        let charge = self.columns.charge(self.columns.ids())?;
        let frozen = Frozen::fork().map_err(|error| Error::system("fork", &error))?;
        let place = |id: &ColumnId| {
            let column = self.columns.column(*id);
            let [stride, group_bytes, groups] = [column.stride(), column.group_bytes(), column.groups()];
            Place { address: column.address(), stride, group_bytes, groups }
        };
        let columns = columns.iter().map(place).collect();
        Ok(Arc::new(Copied { columns, frozen, pool: self.columns.pool().clone(), _charge: charge }))
    }
}

/// A column in the memory of the copy.
struct Place {
    address: usize,
    stride: usize,
    group_bytes: usize,
    groups: usize,
}

struct Copied {
    columns: Vec<Place>,
    frozen: Frozen,
    pool: Arc<Pool>,
    _charge: Charge,
}

impl View for Copied {
    fn groups(&self, column: usize) -> usize {
        self.columns[column].groups
    }

    fn group(&self, column: usize, group: usize) -> Result<Group, Error> {
        let place = &self.columns[column];
        assert!(group < place.groups, "group {group} of {}", place.groups);
        let mut chunk = Chunk::any(&self.pool, place.group_bytes)?;
        let address = place.address + group * place.stride;
        self.frozen.read(address, chunk.as_mut_slice()).map_err(|_| Error::Lost)?;
        Ok(Group::whole(Arc::new(chunk)))
    }
}
