//! Inserts many rows into one table, as COPY does: multi-insert into the heap, then into the
//! indexes.
use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::memory::Context;
use crate::base::relation::{Lock, Relation, StoredTuple, TupleStore};
use crate::run::bulk_indexes::Indexes;

/// PostgreSQL's functions without pgrx's boundary, which would be crossed for every row.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn heap_multi_insert(
            relation: pg_sys::Relation,
            slots: *mut *mut pg_sys::TupleTableSlot,
            count: i32,
            command: pg_sys::CommandId,
            options: i32,
            state: *mut pg_sys::BulkInsertStateData,
        );
        pub(crate) fn ExecStoreVirtualTuple(
            slot: *mut pg_sys::TupleTableSlot,
        ) -> *mut pg_sys::TupleTableSlot;
    }
}

/// Rows written at once.
const BATCH: usize = 256;

/// An insertion in progress. Fires no trigger and checks no constraint but unique indexes: for the
/// ledger's own tables. Stored rows to copy from are borrowed for `'s`.
pub struct BulkInsert<'s> {
    relation: Relation,
    types: Vec<pg_sys::Oid>,
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    filled: usize,
    indexes: Indexes,
    command: pg_sys::CommandId,
    memory: Context,
    stores: PhantomData<&'s TupleStore>,
}

/// One row being filled, column by column from 1; columns that are not set are NULL.
pub struct NewRow<'a, 's> {
    slot: *mut pg_sys::TupleTableSlot,
    types: &'a [pg_sys::Oid],
    at: usize,
    stores: PhantomData<&'s TupleStore>,
}

impl<'s> NewRow<'_, 's> {
    /// The next column.
    pub fn push(&mut self, cell: Cell) {
        self.put(cell.datum(), cell.oid());
    }

    /// Leaves the next column NULL.
    pub fn skip(&mut self) {
        self.at += 1;
    }

    /// The next column, from column `number` of a stored row; its store lives until the insertion
    /// is finished.
    pub fn copy(&mut self, from: &StoredTuple<'s, '_>, number: i16) {
        let oid = self
            .types
            .get(self.at)
            .copied()
            .unwrap_or(pg_sys::InvalidOid);
        self.put(from.datum(number, oid), oid);
    }

    fn put(&mut self, value: Option<pg_sys::Datum>, oid: pg_sys::Oid) {
        if self.types.get(self.at) != Some(&oid) {
            PgError::new(
                b"XX000",
                format!(
                    "column {} of a ledger table is not of the type written",
                    self.at + 1
                ),
            )
            .raise();
        }
        // SAFETY: the slot has as many columns as `types`.
        unsafe {
            *(*self.slot).tts_values.add(self.at) = value.unwrap_or(pg_sys::Datum::from(0));
            *(*self.slot).tts_isnull.add(self.at) = value.is_none();
        }
        self.at += 1;
    }
}

impl<'s> BulkInsert<'s> {
    /// The table's columns, in the order in which a row's are set.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        self.relation.columns().into_iter().map(|c| c.name)
    }

    pub fn open(table: pg_sys::Oid) -> Self {
        let relation = Relation::open(table, Lock::RowExclusive);
        let types = relation.columns().into_iter().map(|c| c.type_oid).collect();
        BulkInsert {
            indexes: Indexes::open(&relation),
            relation,
            types,
            slots: Vec::new(),
            filled: 0,
            // SAFETY: reads a variable of the transaction.
            command: unsafe { pg_sys::GetCurrentCommandId(true) },
            memory: Context::child(c"chainify bulk insert"),
            stores: PhantomData,
        }
    }

    /// Adds a row; `f` sets its columns. Values allocated in `f` are freed after the batch.
    pub fn row(&mut self, f: impl FnOnce(&mut NewRow<'_, 's>)) {
        if self.filled == BATCH {
            self.flush();
        }
        if self.filled == self.slots.len() {
            // SAFETY: dropped in `finish`.
            self.slots.push(unsafe {
                pg_sys::table_slot_create(self.relation.raw(), std::ptr::null_mut())
            });
        }
        let slot = self.slots[self.filled];
        // SAFETY: the slot is ours and has one entry per column.
        unsafe {
            clear(slot);
            std::ptr::write_bytes((*slot).tts_isnull, 1, self.types.len());
        }
        let mut row = NewRow {
            slot,
            types: &self.types,
            at: 0,
            stores: PhantomData,
        };
        self.memory.enter(|| f(&mut row));
        // SAFETY: all columns are set, to values that live until the flush.
        unsafe { raw::ExecStoreVirtualTuple(slot) };
        self.filled += 1;
    }

    fn flush(&mut self) {
        let filled = &mut self.slots[..self.filled];
        let (relation, command, indexes) = (self.relation.raw(), self.command, &mut self.indexes);
        let store = || {
            let (slots, count) = (filled.as_mut_ptr(), filled.len() as i32);
            // SAFETY: the slots hold rows of this relation; index entries need the tuple ids just
            // assigned.
            unsafe {
                raw::heap_multi_insert(relation, slots, count, command, 0, std::ptr::null_mut());
                for slot in filled {
                    indexes.insert(*slot);
                    clear(*slot);
                }
            }
        };
        // SAFETY: it calls functions of PostgreSQL alone, and owns nothing.
        self.memory.enter(|| unsafe { catch_c(store) }.or_raise());
        self.indexes.after_batch();
        self.filled = 0;
        self.memory.reset();
    }

    /// Writes what is left and makes all rows visible to the next command.
    pub fn finish(mut self) {
        if self.filled > 0 {
            self.flush();
        }
        self.indexes.finish();
        // SAFETY: made in `row`, dropped once here.
        unsafe {
            for slot in &self.slots {
                pg_sys::ExecDropSingleTupleTableSlot(*slot);
            }
            pg_sys::CommandCounterIncrement();
        }
    }
}

/// # Safety
/// `slot` must be a slot, to be called where an ERROR may be raised.
unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: by the caller's promise; every slot has its operations.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}
