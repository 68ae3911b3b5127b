//! Many rows into one table, as COPY does: multi-insert into the heap, then the indexes.
use pgrx::pg_sys;

use super::error::PgError;
use super::function::Cell;
use super::memory::Context;
use super::relation::{Lock, Relation, Tuple};

/// Rows written at once.
const BATCH: usize = 256;

/// An insertion in progress. Fires no trigger and checks no constraint but unique indexes: for the ledger's own tables.
pub struct BulkInsert {
    relation: Relation,
    types: Vec<pg_sys::Oid>,
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    filled: usize,
    result: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
    command: pg_sys::CommandId,
    memory: Context,
}

/// One row being filled, column by column from 1; what is not set is NULL.
pub struct NewRow<'a> {
    slot: *mut pg_sys::TupleTableSlot,
    types: &'a [pg_sys::Oid],
    at: usize,
}

impl NewRow<'_> {
    /// The next column.
    pub fn push(&mut self, cell: Cell) {
        self.put(cell.datum(), cell.oid());
    }

    /// Leaves the next column NULL.
    pub fn skip(&mut self) {
        self.at += 1;
    }

    /// The next column, from column `number` of a stored row, which must live until the insertion is finished.
    pub fn copy(&mut self, from: &Tuple, number: i16) {
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

impl BulkInsert {
    /// The table's columns, in the order in which a row's are set.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        self.relation.columns().into_iter().map(|c| c.name)
    }

    pub fn open(table: pg_sys::Oid) -> Self {
        let relation = Relation::open(table, Lock::RowExclusive);
        let types = relation.columns().into_iter().map(|c| c.type_oid).collect();
        // SAFETY: executor state and result relation live until `finish`, or die with the transaction's memory.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let result = pg_sys::palloc0(std::mem::size_of::<pg_sys::ResultRelInfo>())
                .cast::<pg_sys::ResultRelInfo>();
            (*result).type_ = pg_sys::NodeTag::T_ResultRelInfo;
            pg_sys::InitResultRelInfo(result, relation.raw(), 0, std::ptr::null_mut(), 0);
            pg_sys::ExecOpenIndices(result, false);
            let command = pg_sys::GetCurrentCommandId(true);
            let memory = Context::child(c"chainify bulk insert");
            BulkInsert {
                relation,
                types,
                slots: Vec::new(),
                filled: 0,
                result,
                estate,
                command,
                memory,
            }
        }
    }

    /// Adds a row; `f` sets its columns. Values allocated in `f` are freed after the batch.
    pub fn row(&mut self, f: impl FnOnce(&mut NewRow)) {
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
            pg_sys::ExecClearTuple(slot);
            std::ptr::write_bytes((*slot).tts_isnull, 1, self.types.len());
        }
        let (memory, types) = (&self.memory, &self.types);
        memory.enter(|| f(&mut NewRow { slot, types, at: 0 }));
        // SAFETY: all columns are set, to values that live until the flush.
        unsafe { pg_sys::ExecStoreVirtualTuple(slot) };
        self.filled += 1;
    }

    fn flush(&mut self) {
        // SAFETY: the first `filled` slots hold rows of this relation; index entries need the tuple ids just assigned.
        unsafe {
            let count = self.filled as i32;
            self.memory.enter(|| {
                let bulk = std::ptr::null_mut();
                pg_sys::heap_multi_insert(
                    self.relation.raw(),
                    self.slots.as_mut_ptr(),
                    count,
                    self.command,
                    0,
                    bulk,
                );
                for slot in &self.slots[..self.filled] {
                    if (*self.result).ri_NumIndices > 0 {
                        let none = std::ptr::null_mut();
                        pg_sys::ExecInsertIndexTuples(
                            self.result,
                            *slot,
                            self.estate,
                            false,
                            false,
                            std::ptr::null_mut(),
                            none,
                        );
                    }
                    pg_sys::ExecClearTuple(*slot);
                }
            });
            if !(*self.estate).es_per_tuple_exprcontext.is_null() {
                pg_sys::MemoryContextReset(
                    (*(*self.estate).es_per_tuple_exprcontext).ecxt_per_tuple_memory,
                );
            }
        }
        self.filled = 0;
        self.memory.reset();
    }

    /// Writes what is left and makes all rows visible to the next command.
    pub fn finish(mut self) {
        if self.filled > 0 {
            self.flush();
        }
        // SAFETY: opened in `open`, closed once here.
        unsafe {
            for slot in &self.slots {
                pg_sys::ExecDropSingleTupleTableSlot(*slot);
            }
            pg_sys::ExecCloseIndices(self.result);
            pg_sys::FreeExecutorState(self.estate);
            pg_sys::CommandCounterIncrement();
        }
    }
}
