//! The rows of a table as of one moment.

use std::sync::Arc;

use crate::bitmap::Bitmap;
use crate::columns::{cells_of, validity_of, Kind, Slot, LIVE};
use crate::error::Error;
use crate::group::Group;
use crate::heap::Buffers;
use crate::strategy::{View, GROUP_ROWS};

/// A snapshot of a table (V1, V2). A clone shares it. Any thread may read, while the writer goes on
/// and also after the table has gone; the memory goes back with the last clone and [`Group`] (V4).
#[derive(Clone)]
pub struct Rows {
    shared: Arc<Shared>,
}

struct Shared {
    view: Arc<dyn View>,
    kinds: Arc<[Kind]>,
    buffers: Vec<Option<Buffers>>,
    slots: usize,
    rows: usize,
}

impl Rows {
    pub(crate) fn new(
        view: Arc<dyn View>,
        kinds: Arc<[Kind]>,
        buffers: Vec<Option<Buffers>>,
        slots: usize,
        rows: usize,
    ) -> Self {
        Rows { shared: Arc::new(Shared { view, kinds, buffers, slots, rows }) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.shared.rows
    }

    /// All rows are in slots below this one.
    pub fn slots(&self) -> usize {
        self.shared.slots
    }

    /// Kinds of the columns.
    pub fn kinds(&self) -> &[Kind] {
        &self.shared.kinds
    }

    /// Number of groups that rows are in.
    pub fn groups(&self) -> usize {
        self.shared.slots.div_ceil(GROUP_ROWS)
    }

    /// Slots of a group: [`GROUP_ROWS`], fewer of the last one.
    pub fn slots_in(&self, group: usize) -> usize {
        self.shared.slots.saturating_sub(group * GROUP_ROWS).min(GROUP_ROWS)
    }

    /// The slots of a group that rows are in.
    ///
    /// # Errors
    /// Those of [`View::group`]. This function and the next ones panic for a group that is not
    /// there.
    pub fn live(&self, group: usize) -> Result<Bitmap, Error> {
        self.shared.view.group(LIVE, group).map(Bitmap)
    }

    /// The rows of a group whose value is not NULL. Bits of slots without a row have no meaning.
    ///
    /// # Errors
    /// [`Error::NoColumn`], and those of [`View::group`].
    pub fn valid(&self, column: usize, group: usize) -> Result<Bitmap, Error> {
        self.kind(column)?;
        self.shared.view.group(validity_of(column), group).map(Bitmap)
    }

    /// The cells of a group, or its views. They are [`GROUP_ROWS`] in each group.
    ///
    /// # Errors
    /// [`Error::NoColumn`], and those of [`View::group`].
    pub fn cells(&self, column: usize, group: usize) -> Result<Group, Error> {
        self.kind(column)?;
        self.shared.view.group(cells_of(column), group)
    }

    /// The buffers that the views of a column lead to; none for a column of cells.
    ///
    /// # Errors
    /// [`Error::NoColumn`].
    pub fn buffers(&self, column: usize) -> Result<Vec<Group>, Error> {
        self.kind(column)?;
        Ok(self.shared.buffers[column].as_ref().map_or_else(Vec::new, Buffers::groups))
    }

    /// The values of a row, copied; `None` where no row is. For single rows: it looks up every
    /// group.
    ///
    /// # Errors
    /// Those of [`View::group`].
    pub fn row(&self, slot: Slot) -> Result<Option<Vec<Option<Vec<u8>>>>, Error> {
        let (group, row) = (slot / GROUP_ROWS, slot % GROUP_ROWS);
        if slot >= self.shared.slots || !self.live(group)?.get(row) {
            return Ok(None);
        }
        let value = |column: usize| {
            if !self.valid(column, group)?.get(row) {
                return Ok(None);
            }
            let bytes = self.shared.kinds[column].cell_bytes();
            let cells = self.cells(column, group)?;
            Ok(Some(Buffers::value(self.shared.buffers[column].as_ref(), &cells[row * bytes..][..bytes])))
        };
        (0..self.shared.kinds.len()).map(value).collect::<Result<_, _>>().map(Some)
    }

    /// Calls `each` with the values of every row of a group, copied.
    ///
    /// # Errors
    /// Those of [`View::group`], and of `each`.
    pub fn each<E: From<Error>>(
        &self,
        group: usize,
        mut each: impl FnMut(Vec<Option<Vec<u8>>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let live = self.live(group)?;
        let columns = (0..self.shared.kinds.len()).map(|at| Ok((self.valid(at, group)?, self.cells(at, group)?)));
        let columns = columns.collect::<Result<Vec<_>, Error>>()?;
        for row in (0..self.slots_in(group)).filter(|row| live.get(*row)) {
            let value = |(column, (valid, cells)): (usize, &(Bitmap, Group))| {
                let bytes = self.shared.kinds[column].cell_bytes();
                let cell = &cells[row * bytes..][..bytes];
                valid.get(row).then(|| Buffers::value(self.shared.buffers[column].as_ref(), cell))
            };
            each(columns.iter().enumerate().map(value).collect())?;
        }
        Ok(())
    }

    fn kind(&self, column: usize) -> Result<Kind, Error> {
        self.shared.kinds.get(column).copied().ok_or(Error::NoColumn { column })
    }
}
