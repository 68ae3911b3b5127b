//! The system call `vm_snapshot`, where the kernel has it.

use std::sync::Arc;

use crate::error::Error;
use crate::group::Group;
use crate::pool::Pool;
use crate::raw::mapping::{snapshot_call, Mapping, SnapshotCall};
use crate::strategies::private::{Charge, Columns, InPrivate};
use crate::strategy::{ColumnId, View};

/// Number of the system call in our patch of Linux 6.1 for x86-64.
pub const CALL_NUMBER: i64 = 451;

/// A snapshot is a second mapping of the same pages, made by one system call for each column (AnKer
/// section 5). The kernel copies a page when one side writes it.
///
/// Cost: a snapshot takes a time proportional to the pages of its columns. The first write to a
/// page afterwards is a page fault. A snapshot counts as its columns in full (V4).
pub struct VmSnapshot {
    columns: Columns,
    call: SnapshotCall,
}

impl VmSnapshot {
    /// Columns that count in this pool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the kernel has no such call; [`Chunks`](crate::Chunks) works
    /// there.
    pub fn new(pool: Arc<Pool>) -> Result<Self, Error> {
        let call =
            snapshot_call(CALL_NUMBER).map_err(|reason| Error::Unavailable { strategy: "vm_snapshot", reason })?;
        Ok(VmSnapshot { columns: Columns::new(pool), call })
    }

    /// The same with a copy in place of the system call: for tests of all but the call.
    pub fn stand_in(pool: Arc<Pool>) -> Self {
        VmSnapshot { columns: Columns::new(pool), call: SnapshotCall::StandIn }
    }
}

impl InPrivate for VmSnapshot {
    fn name(&self) -> &'static str {
        match self.call {
            SnapshotCall::Kernel(_) => "vm_snapshot",
            SnapshotCall::StandIn => "vm_snapshot, stand-in",
        }
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn columns_mut(&mut self) -> &mut Columns {
        &mut self.columns
    }

    fn snapshot(&self, columns: &[ColumnId]) -> Result<Arc<dyn View>, Error> {
        let charge = Arc::new(self.columns.charge(columns.iter().copied())?);
        let image = |id: &ColumnId| {
            let column = self.columns.column(*id);
            let [stride, group_bytes, groups] = [column.stride(), column.group_bytes(), column.groups()];
            let mapping = Arc::new(Image { mapping: column.snapshot(self.call)?, _charge: charge.clone() });
            Ok(Mapped { image: mapping, stride, group_bytes, groups })
        };
        Ok(Arc::new(Images { columns: columns.iter().map(image).collect::<Result<_, Error>>()? }))
    }
}

/// A mapping that counts in the pool while a reader holds one of its groups.
struct Image {
    mapping: Mapping,
    _charge: Arc<Charge>,
}

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_slice()
    }
}

struct Mapped {
    image: Arc<Image>,
    stride: usize,
    group_bytes: usize,
    groups: usize,
}

struct Images {
    columns: Vec<Mapped>,
}

impl View for Images {
    fn groups(&self, column: usize) -> usize {
        self.columns[column].groups
    }

    fn group(&self, column: usize, group: usize) -> Result<Group, Error> {
        let column = &self.columns[column];
        assert!(group < column.groups, "group {group} of {}", column.groups);
        let start = group * column.stride;
        Ok(Group::new(column.image.clone(), start..start + column.group_bytes))
    }
}
