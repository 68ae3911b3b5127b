//! Rows by slot, as columns.

use std::ops::Range;
use std::sync::Arc;

use crate::bitmap::{is_set, set, BITMAP_BYTES};
use crate::columns::{cells_of, validity_of, Kind, Slot, LIVE, VALUE_BYTES_MAX};
use crate::error::Error;
use crate::heap::{Buffers, Heap};
use crate::inline::{EMPTY, VIEW_BYTES};
use crate::pool::Pool;
use crate::rows::Rows;
use crate::strategies::Chunks;
use crate::strategy::{Memory, Strategy, GROUP_ROWS};

/// Rows that one writer changes and [`snapshots`](Self::snapshot) keep as they were.
///
/// A value is the bytes of its cell, `None` for NULL. Bytes of a cell have any meaning: the caller
/// gives and reads them in the order of Arrow, lowest byte first. The view of a NULL and of a row
/// that is not there is that of the empty value, so every view of a group leads to a buffer.
///
/// A refused change leaves all rows as they were (V4). Chunks that it had parted from snapshots
/// remain parted; the next try does not need them again.
pub struct Table {
    strategy: Box<dyn Strategy>,
    kinds: Arc<[Kind]>,
    heaps: Vec<Option<Heap>>,
    /// Slots used so far; those among them that are free now.
    slots: usize,
    free: Vec<Slot>,
}

impl Table {
    /// A table without rows, with the strategy for use.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Memory`].
    pub fn new(pool: &Arc<Pool>, kinds: &[Kind]) -> Result<Self, Error> {
        Self::with(Box::new(Chunks::new(pool.clone())), pool, kinds)
    }

    /// A table without rows, over a strategy without columns. Long values are in `pool`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Memory`], [`Error::System`].
    pub fn with(mut strategy: Box<dyn Strategy>, pool: &Arc<Pool>, kinds: &[Kind]) -> Result<Self, Error> {
        strategy.add_column(BITMAP_BYTES)?;
        for kind in kinds {
            strategy.add_column(kind.cell_bytes() * GROUP_ROWS)?;
            strategy.add_column(BITMAP_BYTES)?;
        }
        let heap = |kind: &Kind| (*kind == Kind::Variable).then(|| Heap::new(pool.clone()));
        let heaps = kinds.iter().map(heap).collect();
        Ok(Table { strategy, kinds: kinds.into(), heaps, slots: 0, free: Vec::new() })
    }

    /// Name of the strategy.
    pub fn strategy(&self) -> &'static str {
        self.strategy.name()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.slots - self.free.len()
    }

    /// Slots that rows have had: all rows are in slots below.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Adds a row and returns its slot: the one that was freed last, or a new one.
    ///
    /// # Errors
    /// [`Error::Columns`], [`Error::Width`], [`Error::TooLong`], [`Error::Full`],
    /// [`Error::Memory`], [`Error::System`].
    pub fn insert(&mut self, row: &[Option<&[u8]>]) -> Result<Slot, Error> {
        self.check(row)?;
        let slot = self.free.last().copied().unwrap_or(self.slots);
        self.grow(slot / GROUP_ROWS + 1)?;
        self.prepare(slot, row)?;
        self.strategy.write(LIVE, slot / GROUP_ROWS)?;
        for (column, value) in row.iter().enumerate() {
            self.put(slot, column, *value)?;
        }
        set(self.strategy.write(LIVE, slot / GROUP_ROWS)?, slot % GROUP_ROWS, true);
        if self.free.pop().is_none() {
            self.slots += 1;
        }
        Ok(slot)
    }

    /// Adds rows behind all others, column by column: a tenth of the cost of as many
    /// [`insert`](Self::insert)s. All or none are added; returns the slot of the first, and the
    /// others have the next ones. Slots that were freed stay free.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert).
    pub fn append(&mut self, rows: &[Vec<Option<&[u8]>>]) -> Result<Slot, Error> {
        rows.iter().try_for_each(|row| self.check(row))?;
        let first = self.slots;
        self.grow((first + rows.len()).div_ceil(GROUP_ROWS))?;
        for piece in pieces(first, rows.len()) {
            self.strategy.write(LIVE, piece.group)?;
        }
        // No reader sees a slot that is not live.
        for column in 0..self.kinds.len() {
            if let Err(error) = self.fill(first, column, rows) {
                self.empty(first, rows.len());
                return Err(error);
            }
        }
        for piece in pieces(first, rows.len()) {
            let live = self.strategy.write(LIVE, piece.group)?;
            piece.places().for_each(|(place, _)| set(live, place, true));
        }
        self.slots += rows.len();
        Ok(first)
    }

    /// Puts the values of a column into slots that are not live.
    fn fill(&mut self, first: Slot, column: usize, rows: &[Vec<Option<&[u8]>>]) -> Result<(), Error> {
        let bytes = self.kinds[column].cell_bytes();
        for piece in pieces(first, rows.len()) {
            let valid = self.strategy.write(validity_of(column), piece.group)?;
            piece.places().for_each(|(place, row)| set(valid, place, rows[row][column].is_some()));
            let cells = self.strategy.write(cells_of(column), piece.group)?;
            for (place, row) in piece.places() {
                let cell = &mut cells[place * bytes..][..bytes];
                match (&mut self.heaps[column], rows[row][column]) {
                    (Some(heap), value) => cell.copy_from_slice(&value.map_or(Ok(EMPTY), |value| heap.put(value))?),
                    (None, Some(value)) => cell.copy_from_slice(value),
                    (None, None) => cell.fill(0),
                }
            }
        }
        Ok(())
    }

    /// Lets the long values of slots go that are not live.
    fn empty(&mut self, first: Slot, count: usize) {
        for column in self.variable() {
            for piece in pieces(first, count) {
                // A group that cannot be written has got no values either.
                let (Some(heap), Ok(cells)) =
                    (&mut self.heaps[column], self.strategy.write(cells_of(column), piece.group))
                else {
                    continue;
                };
                for (place, _) in piece.places() {
                    let view = &mut cells[place * VIEW_BYTES..][..VIEW_BYTES];
                    heap.release(view);
                    view.copy_from_slice(&EMPTY);
                }
            }
        }
    }

    /// Gives a row new values.
    ///
    /// # Errors
    /// [`Error::NoRow`], and those of [`insert`](Self::insert).
    pub fn replace(&mut self, slot: Slot, row: &[Option<&[u8]>]) -> Result<(), Error> {
        self.present(slot)?;
        self.check(row)?;
        self.prepare(slot, row)?;
        row.iter().enumerate().try_for_each(|(column, value)| self.put(slot, column, *value))
    }

    /// Gives a row a new value in one column.
    ///
    /// # Errors
    /// [`Error::NoRow`], [`Error::NoColumn`], and those of [`insert`](Self::insert).
    pub fn update(&mut self, slot: Slot, column: usize, value: Option<&[u8]>) -> Result<(), Error> {
        self.present(slot)?;
        self.check_value(column, value)?;
        self.prepare_value(slot, column, value)?;
        self.put(slot, column, value)
    }

    /// Removes a row.
    ///
    /// # Errors
    /// [`Error::NoRow`], [`Error::Full`], [`Error::Memory`], [`Error::System`].
    pub fn delete(&mut self, slot: Slot) -> Result<(), Error> {
        self.present(slot)?;
        let (group, row) = (slot / GROUP_ROWS, slot % GROUP_ROWS);
        self.strategy.write(LIVE, group)?;
        for column in self.variable() {
            self.prepare_value(slot, column, None)?;
        }
        for column in self.variable() {
            self.put(slot, column, None)?;
        }
        set(self.strategy.write(LIVE, group)?, row, false);
        self.free.push(slot);
        Ok(())
    }

    /// The rows of now, for readers (V1, V2). Cost with [`Chunks`]: one atomic addition for each
    /// bitmap and each column of cells, two more for long values, and one allocation (V3).
    ///
    /// # Errors
    /// Those of [`Strategy::snapshot`].
    pub fn snapshot(&mut self) -> Result<Rows, Error> {
        let columns: Vec<usize> = (0..cells_of(self.kinds.len())).collect();
        let view = self.strategy.snapshot(&columns)?;
        let buffers = self.heaps.iter().map(|heap| heap.as_ref().map(Heap::buffers)).collect();
        Ok(Rows::new(view, self.kinds.clone(), buffers, self.slots, self.rows()))
    }

    /// A value of a row, copied.
    ///
    /// # Errors
    /// [`Error::NoRow`], [`Error::NoColumn`].
    pub fn value(&self, slot: Slot, column: usize) -> Result<Option<Vec<u8>>, Error> {
        self.present(slot)?;
        self.kind(column)?;
        let (group, row) = (slot / GROUP_ROWS, slot % GROUP_ROWS);
        if !is_set(self.strategy.read(validity_of(column), group), row) {
            return Ok(None);
        }
        let buffers = self.heaps[column].as_ref().map(Heap::buffers);
        Ok(Some(Buffers::value(buffers.as_ref(), self.cell(slot, column))))
    }

    /// The memory of the table; None where the strategy does not know it. Cost: a look at each
    /// chunk.
    pub fn memory(&self) -> Option<Memory> {
        let mut memory = self.strategy.memory()?;
        memory.bytes += self.heaps.iter().flatten().map(Heap::bytes).sum::<usize>();
        Some(memory)
    }

    /// Bytes of long values of a column that no row has any more, and bytes of all. Zeros for
    /// cells.
    ///
    /// # Errors
    /// [`Error::NoColumn`].
    pub fn dead_bytes(&self, column: usize) -> Result<(usize, usize), Error> {
        self.kind(column)?;
        Ok(self.heaps[column].as_ref().map_or((0, 0), Heap::dead_of))
    }

    /// Moves the long values of a column out of buffers that hold mostly dead bytes, so that these
    /// go back to the pool. Worth it where half of [`dead_bytes`](Self::dead_bytes) are dead.
    /// Returns the bytes that remain dead.
    ///
    /// Cost: it reads every view of the column, and copies at most as many bytes as are dead.
    ///
    /// # Errors
    /// [`Error::NoColumn`], [`Error::Full`], [`Error::Memory`], [`Error::System`]. Then some values
    /// have moved; all rows are as before.
    pub fn compact(&mut self, column: usize) -> Result<usize, Error> {
        self.compact_slots(column, 0..self.slots)
    }

    /// Compacts some slots, for a writer who has other work between the pieces of a pass. A pass
    /// begins with slot 0.
    ///
    /// # Errors
    /// Those of [`compact`](Self::compact).
    pub fn compact_slots(&mut self, column: usize, slots: Range<Slot>) -> Result<usize, Error> {
        self.kind(column)?;
        let Some(heap) = &mut self.heaps[column] else { return Ok(0) };
        if slots.start == 0 {
            heap.seal();
        }
        for slot in slots.start..slots.end.min(self.slots) {
            let at = slot % GROUP_ROWS * VIEW_BYTES..(slot % GROUP_ROWS + 1) * VIEW_BYTES;
            let cells = cells_of(column);
            if !heap.is_sparse(&self.strategy.read(cells, slot / GROUP_ROWS)[at.clone()]) {
                continue;
            }
            let view = &mut self.strategy.write(cells, slot / GROUP_ROWS)?[at];
            if let Some(moved) = heap.moved(view)? {
                heap.release(view);
                view.copy_from_slice(&moved);
            }
        }
        Ok(heap.dead_of().0)
    }

    fn kind(&self, column: usize) -> Result<Kind, Error> {
        self.kinds.get(column).copied().ok_or(Error::NoColumn { column })
    }

    fn variable(&self) -> impl Iterator<Item = usize> {
        let kinds = self.kinds.clone();
        (0..kinds.len()).filter(move |column| kinds[*column] == Kind::Variable)
    }

    fn present(&self, slot: Slot) -> Result<(), Error> {
        let is_live = slot < self.slots && is_set(self.strategy.read(LIVE, slot / GROUP_ROWS), slot % GROUP_ROWS);
        is_live.then_some(()).ok_or(Error::NoRow { slot })
    }

    fn check(&self, row: &[Option<&[u8]>]) -> Result<(), Error> {
        if row.len() != self.kinds.len() {
            return Err(Error::Columns { got: row.len(), want: self.kinds.len() });
        }
        row.iter().enumerate().try_for_each(|(column, value)| self.check_value(column, *value))
    }

    fn check_value(&self, column: usize, value: Option<&[u8]>) -> Result<(), Error> {
        let (kind, Some(value)) = (self.kind(column)?, value) else { return Ok(()) };
        let (got, want) = (value.len(), kind.cell_bytes());
        match kind {
            Kind::Variable if got > VALUE_BYTES_MAX => Err(Error::TooLong { column, got }),
            Kind::Variable => Ok(()),
            _ if got != want => Err(Error::Width { column, got, want }),
            _ => Ok(()),
        }
    }

    /// Gives each column at least so many groups. A column that cannot grow stops it; the others
    /// keep their new group of zeros, which no row is in.
    fn grow(&mut self, groups: usize) -> Result<(), Error> {
        // The last column grows last.
        if self.strategy.groups(cells_of(self.kinds.len()) - 1) >= groups {
            return Ok(());
        }
        for column in 0..cells_of(self.kinds.len()) {
            while self.strategy.groups(column) < groups {
                self.strategy.grow(column)?;
            }
        }
        Ok(())
    }

    /// Does everything about a row that can fail, so that putting its values cannot.
    fn prepare(&mut self, slot: Slot, row: &[Option<&[u8]>]) -> Result<(), Error> {
        row.iter().enumerate().try_for_each(|(column, value)| self.prepare_value(slot, column, *value))
    }

    fn prepare_value(&mut self, slot: Slot, column: usize, value: Option<&[u8]>) -> Result<(), Error> {
        self.strategy.write(cells_of(column), slot / GROUP_ROWS)?;
        self.strategy.write(validity_of(column), slot / GROUP_ROWS)?;
        match &mut self.heaps[column] {
            Some(heap) => heap.reserve(value.map_or(0, <[u8]>::len)),
            None => Ok(()),
        }
    }

    /// Puts a value where [`prepare_value`](Self::prepare_value) made room.
    fn put(&mut self, slot: Slot, column: usize, value: Option<&[u8]>) -> Result<(), Error> {
        let (group, row) = (slot / GROUP_ROWS, slot % GROUP_ROWS);
        let bytes = self.kinds[column].cell_bytes();
        let cell = &mut self.strategy.write(cells_of(column), group)?[row * bytes..][..bytes];
        match (&mut self.heaps[column], value) {
            (Some(heap), _) => {
                let view = value.map_or(Ok(EMPTY), |value| heap.put(value))?;
                heap.release(cell);
                cell.copy_from_slice(&view);
            }
            (None, Some(value)) => cell.copy_from_slice(value),
            (None, None) => cell.fill(0),
        }
        set(self.strategy.write(validity_of(column), group)?, row, value.is_some());
        Ok(())
    }

    fn cell(&self, slot: Slot, column: usize) -> &[u8] {
        let bytes = self.kinds[column].cell_bytes();
        &self.strategy.read(cells_of(column), slot / GROUP_ROWS)[slot % GROUP_ROWS * bytes..][..bytes]
    }
}

/// Slots of one group, for rows that follow each other.
struct Piece {
    group: usize,
    place: usize,
    row: usize,
    count: usize,
}

impl Piece {
    /// Each slot's place in the group, and which of the rows is for it.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        (self.place..).zip(self.row..self.row + self.count)
    }
}

/// The slots of so many rows, by groups.
fn pieces(first: Slot, count: usize) -> impl Iterator<Item = Piece> {
    let end = first + count;
    (first / GROUP_ROWS..end.div_ceil(GROUP_ROWS)).map(move |group| {
        let (from, to) = (first.max(group * GROUP_ROWS), end.min((group + 1) * GROUP_ROWS));
        Piece { group, place: from % GROUP_ROWS, row: from - first, count: to - from }
    })
}
