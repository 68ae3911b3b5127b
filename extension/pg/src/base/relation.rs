//! Tables held open, their columns, and their rows.
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::pg_sys;

use crate::base::cell::{reads_as, Cell};
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::major;
use crate::base::snapshot::Sees;

/// Which lock to take; kept until the transaction ends.
#[derive(Clone, Copy)]
pub enum Lock {
    AccessShare = 1,
    RowExclusive = 3,
    ShareRowExclusive = 6,
}

/// A table held open; its lock stays until the transaction ends.
pub struct Relation(NonNull<pg_sys::RelationData>);

/// A column that is not dropped.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    pub number: i16,
    pub name: String,
    pub type_oid: pg_sys::Oid,
    /// GENERATED ALWAYS AS (…) STORED
    pub generated: bool,
}

/// The type of a column.
#[derive(Clone, Copy)]
pub(crate) struct ColumnType {
    pub number: i16,
    pub of: pg_sys::Oid,
    pub typmod: i32,
    pub not_null: bool,
}

impl Relation {
    /// Raises 42P01 when there is no such table.
    pub fn open(oid: pg_sys::Oid, lock: Lock) -> Self {
        // SAFETY: table_open raises or returns a relation with its reference held.
        let relation = unsafe { pg_sys::table_open(oid, lock as pg_sys::LOCKMODE) };
        Relation(NonNull::new(relation).expect("table_open returns a relation or raises"))
    }

    /// None when there is no such table.
    pub fn try_open(oid: pg_sys::Oid, lock: Lock) -> Option<Self> {
        // SAFETY: try_relation_open returns null or a relation with its reference held, which drop
        // closes.
        let relation = unsafe { pg_sys::try_relation_open(oid, lock as pg_sys::LOCKMODE) };
        let relation = Self::from_open(relation)?;
        // SAFETY: held open.
        let kind = unsafe { (*relation.0.as_ref().rd_rel).relkind } as u8;
        matches!(
            kind,
            pg_sys::RELKIND_RELATION | pg_sys::RELKIND_PARTITIONED_TABLE
        )
        .then_some(relation)
    }

    /// `schema.name`, each quoted where it must be. It stays the table's name for as long as the
    /// lock is held: RENAME waits for every lock.
    pub fn quoted_name(&self) -> String {
        // SAFETY: the relation is held open, so its schema exists; the calls return fresh C
        // strings, or null for a schema that is gone, which quote_qualified_identifier takes.
        unsafe {
            let class = self.0.as_ref().rd_rel;
            let schema = pg_sys::get_namespace_name((*class).relnamespace);
            let name = pg_sys::quote_qualified_identifier(schema, (*class).relname.data.as_ptr());
            std::ffi::CStr::from_ptr(name)
                .to_string_lossy()
                .into_owned()
        }
    }

    /// A relation opened by a call of PostgreSQL's; closed when dropped. None for null.
    pub(crate) fn from_open(relation: pg_sys::Relation) -> Option<Self> {
        NonNull::new(relation).map(Relation)
    }

    pub fn oid(&self) -> pg_sys::Oid {
        // SAFETY: held open by self.
        unsafe { self.0.as_ref() }.rd_id
    }

    pub(crate) fn raw(&self) -> pg_sys::Relation {
        self.0.as_ptr()
    }

    pub(crate) fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: held open by self.
        unsafe { self.0.as_ref() }.rd_att
    }

    /// The columns in order, without dropped ones.
    pub fn columns(&self) -> Vec<ColumnDef> {
        // SAFETY: the descriptor belongs to the open relation.
        let attributes = unsafe { major::attributes(self.descriptor()) };
        let live = attributes.iter().filter(|a| !a.attisdropped);
        live.map(|a| ColumnDef {
            number: a.attnum,
            name: name_text(&a.attname),
            type_oid: a.atttypid,
            generated: a.attgenerated != 0,
        })
        .collect()
    }

    /// The types of the columns that are not dropped.
    pub(crate) fn types(&self) -> Vec<ColumnType> {
        // SAFETY: the descriptor belongs to the open relation.
        let attributes = unsafe { major::attributes(self.descriptor()) };
        let live = attributes.iter().filter(|a| !a.attisdropped);
        live.map(|a| ColumnType {
            number: a.attnum,
            of: a.atttypid,
            typmod: a.atttypmod,
            not_null: a.attnotnull,
        })
        .collect()
    }

    /// Calls `f` with every row visible now, including this transaction's own changes, in physical
    /// order. Memory allocated by `f` in PostgreSQL is freed after each row. Interruptible.
    pub fn scan(&self, f: impl FnMut(&Tuple)) {
        self.scan_seen(Sees::Latest, f);
    }

    /// The same with the rows that `sees` says.
    pub fn scan_seen(&self, sees: Sees, mut f: impl FnMut(&Tuple)) {
        // SAFETY: whoever has a relation open runs in a statement, which has a snapshot. The one
        // used is registered for the length of the scan; an ERROR on the way cleans all up at
        // abort.
        unsafe {
            let snapshot = pg_sys::RegisterSnapshot(match sees {
                Sees::Statement => pg_sys::GetActiveSnapshot(),
                Sees::Latest => pg_sys::GetLatestSnapshot(),
            });
            self.scan_blocks(snapshot, None, &mut f);
            pg_sys::UnregisterSnapshot(snapshot);
        }
    }

    /// The same with the rows that `snapshot` sees, in `blocks` (the first and how many) alone when
    /// given.
    ///
    /// # Safety
    /// `snapshot` must be registered, the blocks within the relation.
    pub(crate) unsafe fn scan_blocks(
        &self,
        snapshot: pg_sys::Snapshot,
        blocks: Option<(u32, u32)>,
        f: &mut dyn FnMut(&Tuple),
    ) {
        let mut scratch = Scratch::default();
        let context = crate::base::memory::Context::child(c"chainify scan");
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
        // SAFETY: by the caller's promise; limits are set before the first row. Tuples are of the
        // relation's descriptor.
        unsafe {
            let scan = pg_sys::heap_beginscan(
                self.raw(),
                snapshot,
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                flags,
            );
            if let Some((first, count)) = blocks {
                pg_sys::heap_setscanlimits(scan, first, count);
            }
            while let Some(tuple) = NonNull::new(pg_sys::heap_getnext(
                scan,
                pg_sys::ScanDirection::ForwardScanDirection,
            )) {
                pgrx::check_for_interrupts!();
                let row = scratch.deform(tuple.as_ptr(), self.descriptor());
                context.enter(|| f(&row));
                context.reset();
            }
            pg_sys::heap_endscan(scan);
        }
    }
}

impl Drop for Relation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing closes it; a second ERROR here would end the backend
        }
        // SAFETY: opened by `open` in this transaction and not closed since.
        unsafe { pg_sys::table_close(self.raw(), pg_sys::NoLock as pg_sys::LOCKMODE) }
    }
}

/// A name in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn name_text(name: &pg_sys::NameData) -> String {
    // SAFETY: a name is a C string within its 64 bytes.
    unsafe { std::ffi::CStr::from_ptr(name.data.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// Room for one deformed row, reused from row to row.
#[derive(Default)]
pub struct Scratch {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl Scratch {
    /// # Safety
    /// The tuple must be of the descriptor; both must outlive the result.
    pub(crate) unsafe fn deform<'a>(
        &'a mut self,
        tuple: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
    ) -> Tuple<'a> {
        // SAFETY: by the caller's promise; the vectors have room for natts entries.
        unsafe {
            let columns = (*descriptor).natts as usize;
            self.values.resize(columns, pg_sys::Datum::from(0));
            self.nulls.resize(columns, true);
            heap_deform_tuple(
                tuple,
                descriptor,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
        }
        Tuple {
            values: &self.values,
            nulls: &self.nulls,
            descriptor,
            tuple,
            life: PhantomData,
        }
    }
}

/// One row of a table.
pub struct Tuple<'a> {
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
    descriptor: pg_sys::TupleDesc,
    /// Null for a row that was read back from a [`TupleStore`].
    tuple: pg_sys::HeapTuple,
    life: PhantomData<&'a ()>,
}

impl Tuple<'_> {
    /// Column `number` from 1 as `T`, which must fit the column's type; None when NULL.
    pub fn get<T: pgrx::FromDatum + pgrx::IntoDatum>(&self, number: i16) -> Option<T> {
        let value = self.datum(number, T::type_oid())?;
        // SAFETY: the column has exactly this type.
        unsafe { T::from_datum(value, false) }
    }

    /// Column `number`, which is of type name; None when NULL.
    pub fn name(&self, number: i16) -> Option<String> {
        let value = self.datum(number, pg_sys::NAMEOID)?;
        // SAFETY: a value of type name is a C string.
        let name = unsafe { std::ffi::CStr::from_ptr(value.cast_mut_ptr()) };
        Some(name.to_string_lossy().into_owned())
    }

    /// Whether PostgreSQL stores a value of the row outside of it (TOAST).
    pub fn has_values_outside(&self) -> bool {
        // SAFETY: a tuple that is there has its header, and lives as long as self.
        let header = unsafe { self.tuple.as_ref().map(|tuple| &*tuple.t_data) };
        header.is_some_and(|header| u32::from(header.t_infomask) & pg_sys::HEAP_HASEXTERNAL != 0)
    }

    /// Where the row is: the block and the place in it; None for one that was read back from a
    /// [`TupleStore`].
    pub fn place(&self) -> Option<(u32, u16)> {
        // SAFETY: a tuple that is there lives as long as self.
        let at = unsafe { self.tuple.as_ref() }?.t_self;
        let block = u32::from(at.ip_blkid.bi_hi) << 16 | u32::from(at.ip_blkid.bi_lo);
        Some((block, at.ip_posid))
    }

    /// Row type of its table.
    pub(crate) fn row_type(&self) -> pg_sys::Oid {
        // SAFETY: the descriptor outlives self.
        unsafe { (*self.descriptor).tdtypeid }
    }

    /// The row as a value of its table's row type, in the current memory context.
    pub(crate) fn composite(&self) -> pg_sys::Datum {
        // SAFETY: the tuple was just made.
        unsafe { pg_sys::HeapTupleHeaderGetDatum((*self.formed()).t_data) }
    }

    /// The row with other values in some columns (by number), in that memory context and with the
    /// place of this one. Raises when a value is not of its column's type.
    pub(crate) fn with(
        &self,
        changed: &[(i16, Cell)],
        context: pg_sys::MemoryContext,
    ) -> pg_sys::HeapTuple {
        let columns = self.values.len();
        let mut values = vec![pg_sys::Datum::from(0); columns];
        let (mut nulls, mut replaced) = (vec![false; columns], vec![false; columns]);
        for (number, value) in changed {
            self.datum(*number, value.oid()); // has the column, and it is of this type
            let at = (*number as usize).wrapping_sub(1);
            values[at] = value.datum().unwrap_or(pg_sys::Datum::from(0));
            (nulls[at], replaced[at]) = (value.datum().is_none(), true);
        }
        let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
        let (tuple, descriptor) = (self.heap_tuple(), self.descriptor);
        // SAFETY: the three arrays have a place for each attribute of the descriptor, which is the
        // tuple's; the context that was there is entered again.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(context);
            let changed =
                pg_sys::heap_modify_tuple(tuple, descriptor, values, nulls, replaced.as_mut_ptr());
            pg_sys::MemoryContextSwitchTo(before);
            changed
        }
    }

    /// A new tuple with these values, in the current memory context.
    fn formed(&self) -> pg_sys::HeapTuple {
        let (values, nulls) = (self.values.as_ptr(), self.nulls.as_ptr());
        // SAFETY: values and nulls have as many entries as the descriptor, which outlives self, has
        // attributes; both are only read.
        unsafe { pg_sys::heap_form_tuple(self.descriptor, values.cast_mut(), nulls.cast_mut()) }
    }

    /// The tuple that the row was read from, or a new one with its values.
    fn heap_tuple(&self) -> pg_sys::HeapTuple {
        match self.tuple.is_null() {
            true => self.formed(),
            false => self.tuple,
        }
    }

    /// The value of column `number`, checked to be of type `oid`.
    pub(crate) fn datum(&self, number: i16, oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
        let at = (number as usize).wrapping_sub(1);
        // SAFETY: the descriptor outlives self and has as many attributes as values.
        let attributes = unsafe { major::attributes(self.descriptor) };
        let Some(attribute) = attributes.get(at) else {
            PgError::new(b"XX000", format!("row has no column {number}")).raise()
        };
        self.datum_of(number, attribute.atttypid, oid)
    }

    /// The value of column `number`, of type `is`, which has to read as `oid`.
    fn datum_of(&self, number: i16, is: pg_sys::Oid, oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
        let at = (number as usize).wrapping_sub(1);
        if !reads_as(is, oid) {
            PgError::new(
                b"XX000",
                format!("column {number} is not of the type it had when the ledger read it"),
            )
            .raise();
        }
        (!self.nulls[at]).then_some(self.values[at])
    }
}

// Without pgrx's boundary: heap_deform_tuple raises nothing, and is called for every row.
c_functions! {
    fn heap_deform_tuple(
        tuple: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    );
}
extern "C-unwind" {
    fn toast_flatten_tuple(
        tuple: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
    ) -> pg_sys::HeapTuple;
}

/// `HEAP_HASEXTERNAL` of htup_details.h.
const HAS_EXTERNAL: u16 = 0x0004;

/// Longest row that still fits a page with the columns the history adds: MaxHeapTupleSize of
/// htup_details.h less those.
const ROW_BYTES_MAX: u32 = 8_160 - 96;

/// The properties of a column that decide how its values are read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Storage {
    type_oid: pg_sys::Oid,
    length: i16,
    align: std::ffi::c_char,
    by_value: bool,
    dropped: bool,
}

/// Row type of a table, and the storage of its columns: rows of equal layouts are read alike.
#[derive(PartialEq, Eq)]
struct Layout {
    row_type: pg_sys::Oid,
    columns: Vec<Storage>,
}

/// # Safety
/// `descriptor` must be a valid descriptor that outlives the result.
unsafe fn storage<'d>(descriptor: pg_sys::TupleDesc) -> impl Iterator<Item = Storage> + 'd {
    // SAFETY: by the caller's promise.
    let attributes = unsafe { major::attributes(descriptor) };
    attributes.iter().map(|a| Storage {
        type_oid: a.atttypid,
        length: a.attlen,
        align: a.attalign,
        by_value: a.attbyval,
        dropped: a.attisdropped,
    })
}

impl Layout {
    /// # Safety
    /// `descriptor` must be a valid descriptor.
    unsafe fn of(descriptor: pg_sys::TupleDesc) -> Self {
        // SAFETY: by the caller's promise.
        unsafe {
            Layout {
                row_type: (*descriptor).tdtypeid,
                columns: storage(descriptor).collect(),
            }
        }
    }

    /// # Safety
    /// `descriptor` must be a valid descriptor.
    unsafe fn is_of(&self, descriptor: pg_sys::TupleDesc) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.row_type == (*descriptor).tdtypeid
                && self.columns.iter().copied().eq(storage(descriptor))
        }
    }
}

/// The columns of a table as they were when it was read; later changes of the table do not show.
pub struct Shape {
    descriptor: NonNull<pg_sys::TupleDescData>,
    layout: Layout,
    /// The types under all domains. A later transaction may drop a domain, whose values stay.
    bases: Vec<pg_sys::Oid>,
}

impl Shape {
    pub fn of(relation: &Relation) -> Self {
        // SAFETY: the copy, with defaults that older rows lack, is made in memory that lasts as
        // long as the session.
        unsafe {
            let context = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let copy = pg_sys::CreateTupleDescCopyConstr(relation.descriptor());
            pg_sys::MemoryContextSwitchTo(context);
            let descriptor = NonNull::new(copy).expect("a copy is made or an error raised");
            let layout = Layout::of(copy);
            let live = |c: &&Storage| !c.dropped;
            let base = |c: &Storage| {
                Some(c)
                    .filter(live)
                    .map(|c| pg_sys::getBaseType(c.type_oid))
            };
            let bases = layout.columns.iter().map(base);
            let bases = bases.map(Option::unwrap_or_default).collect();
            Shape {
                descriptor,
                layout,
                bases,
            }
        }
    }
}

impl Shape {
    /// The row type.
    pub(crate) fn row_type(&self) -> pg_sys::Oid {
        self.layout.row_type
    }
}

impl Drop for Shape {
    fn drop(&mut self) {
        // SAFETY: made in `of`, freed once; nothing refers to it but tuples that borrow self.
        // Freeing raises nothing.
        unsafe { pg_sys::FreeTupleDesc(self.descriptor.as_ptr()) }
    }
}

/// Copies of rows, kept until cleared.
#[derive(Default)]
pub struct TupleStore {
    /// The rows' bytes one behind the other; eight-byte aligned as PostgreSQL wants.
    words: Vec<u64>,
    rows: Vec<Place>,
    /// Of all rows that were ever pushed; few.
    layouts: Vec<Layout>,
}

/// Where a row is.
struct Place {
    /// No two rows of a process have the same.
    serial: u64,
    at: usize,
    bytes: u32,
    layout: u32,
}

/// One row in a [`TupleStore`].
#[derive(Clone, Copy)]
pub struct Stored {
    row: usize,
    serial: u64,
}

/// A row of a [`TupleStore`]: its values live as long as the store and the shape that it is read
/// with.
pub struct StoredTuple<'s, 'a> {
    row: Tuple<'a>,
    bases: &'s [pg_sys::Oid],
    store: PhantomData<&'s TupleStore>,
}

impl StoredTuple<'_, '_> {
    /// The value of column `number`, checked to be of type `oid` or of a domain over it.
    pub(crate) fn datum(&self, number: i16, oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
        let is = self.bases.get((number as usize).wrapping_sub(1));
        self.row
            .datum_of(number, is.copied().unwrap_or_default(), oid)
    }
}

impl<'a> std::ops::Deref for StoredTuple<'_, 'a> {
    type Target = Tuple<'a>;

    fn deref(&self) -> &Tuple<'a> {
        &self.row
    }
}

impl TupleStore {
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Takes away the rows that were pushed when there were so many words, or more.
    pub fn truncate(&mut self, words: usize) {
        let rows = self.rows.partition_point(|row| row.at < words);
        self.rows.truncate(rows);
        self.words.truncate(words);
    }

    /// Copies a row. Values stored out of line are fetched: their TOAST table may be truncated
    /// before the copy is read. Raises 54000 for a row that the history has no room for.
    pub fn push(&mut self, row: &Tuple) -> Stored {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        // SAFETY: the tuple and its descriptor live as long as `row`; the copy is t_len bytes long
        // in as many words.
        unsafe {
            let mut tuple = row.heap_tuple();
            if (*tuple).t_len > ROW_BYTES_MAX {
                PgError::new(
                    b"54000",
                    format!(
                        "row of {} bytes is too long for a ledger table, maximum {ROW_BYTES_MAX}",
                        (*tuple).t_len
                    ),
                )
                .detail("The history keeps each row with five columns more.")
                .raise();
            }
            if (*(*tuple).t_data).t_infomask & HAS_EXTERNAL != 0 {
                tuple = catch_c(|| toast_flatten_tuple(tuple, row.descriptor)).or_raise();
            }
            let layout = self.layout(row.descriptor);
            let at = self.words.len();
            let bytes = (*tuple).t_len;
            self.words.resize(at + (bytes as usize).div_ceil(8), 0);
            std::ptr::copy_nonoverlapping(
                (*tuple).t_data.cast::<u8>(),
                self.words[at..].as_mut_ptr().cast(),
                bytes as usize,
            );
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            self.rows.push(Place {
                serial,
                at,
                bytes,
                layout,
            });
            Stored {
                row: self.rows.len() - 1,
                serial,
            }
        }
    }

    /// The number of a layout.
    ///
    /// # Safety
    /// `descriptor` must be a valid descriptor.
    unsafe fn layout(&mut self, descriptor: pg_sys::TupleDesc) -> u32 {
        // Mostly the one of the row before: look from the end.
        // SAFETY: by the caller's promise.
        let known = self
            .layouts
            .iter()
            .rposition(|layout| unsafe { layout.is_of(descriptor) });
        let number = known.unwrap_or_else(|| {
            // SAFETY: as above.
            self.layouts.push(unsafe { Layout::of(descriptor) });
            self.layouts.len() - 1
        });
        number as u32
    }

    /// Reads a copy back. Raises when `shape` is not of the layout that the row was copied with, or
    /// the row was taken away.
    pub fn get<'s, 'a>(
        &'s self,
        stored: Stored,
        shape: &'s Shape,
        scratch: &'a mut Scratch,
    ) -> StoredTuple<'s, 'a>
    where
        's: 'a,
    {
        let place = self.rows.get(stored.row);
        let Some(place) = place.filter(|place| place.serial == stored.serial) else {
            PgError::new(b"XX000", "a row to be read back is not kept any more").raise()
        };
        if self.layouts[place.layout as usize] != shape.layout {
            PgError::new(
                b"XX000",
                "table changed its columns while its history was written",
            )
            .raise();
        }
        // SAFETY: the words hold a tuple that `push` copied, of the layout that the descriptor has.
        unsafe {
            let mut tuple = pg_sys::HeapTupleData {
                t_len: place.bytes,
                t_data: self.words[place.at..].as_ptr().cast_mut().cast(),
                ..Default::default()
            };
            let row = scratch.deform(&mut tuple, shape.descriptor.as_ptr());
            StoredTuple {
                row: Tuple {
                    tuple: std::ptr::null_mut(),
                    ..row
                },
                bases: &shape.bases,
                store: PhantomData,
            }
        }
    }
}
