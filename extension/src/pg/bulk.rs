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
    summaries: Vec<Summary>,
    estate: *mut pg_sys::EState,
    command: pg_sys::CommandId,
    memory: Context,
}

/// A BRIN index on one column that is passed by value. It keeps which values a range of pages has: a value that was told of one row
/// of a page need not be told of the next.
struct Summary {
    /// Among the table's indexes.
    at: usize,
    relation: pg_sys::Relation,
    /// Of the table, from 0.
    column: usize,
    /// Page and value of the row that the index was told of last.
    told: Option<(u32, Option<pg_sys::Datum>)>,
}

impl Summary {
    /// The indexes of this kind.
    ///
    /// # Safety
    /// The indexes of `result` must be open.
    unsafe fn all(result: *mut pg_sys::ResultRelInfo) -> Vec<Summary> {
        // SAFETY: by the caller's promise; the arrays have as many entries as there are indexes.
        unsafe {
            let count = (*result).ri_NumIndices as usize;
            let of = |at: usize| {
                let relation = *(*result).ri_IndexRelationDescs.add(at);
                let info = &**(*result).ri_IndexRelationInfo.add(at);
                let attributes = (*(*result).ri_RelationDesc).rd_att;
                let column = (info.ii_IndexAttrNumbers[0] as usize).checked_sub(1)?;
                let attribute = (*attributes)
                    .attrs
                    .as_slice((*attributes).natts as usize)
                    .get(column)?;
                let plain = (*(*relation).rd_rel).relam == pg_sys::BRIN_AM_OID
                    && info.ii_NumIndexAttrs == 1
                    && info.ii_Predicate.is_null()
                    && attribute.attbyval;
                plain.then_some(Summary {
                    at,
                    relation,
                    column,
                    told: None,
                })
            };
            (0..count).filter_map(of).collect()
        }
    }

    /// Has the index passed over for a row that it need not be told of, or not.
    ///
    /// # Safety
    /// `slot` must hold a row just stored in the table of `result`.
    unsafe fn pass_over(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        result: *mut pg_sys::ResultRelInfo,
    ) {
        // SAFETY: by the caller's promise; an index that is null is passed over by ExecInsertIndexTuples.
        unsafe {
            if (*slot).tts_nvalid <= self.column as i16 {
                pg_sys::slot_getsomeattrs_int(slot, self.column as i32 + 1);
            }
            let page = (*slot).tts_tid.ip_blkid;
            let page = u32::from(page.bi_hi) << 16 | u32::from(page.bi_lo);
            let null = *(*slot).tts_isnull.add(self.column);
            let row = Some((
                page,
                (!null).then_some(*(*slot).tts_values.add(self.column)),
            ));
            let known = self.told == row;
            self.told = row;
            *(*result).ri_IndexRelationDescs.add(self.at) = if known {
                std::ptr::null_mut()
            } else {
                self.relation
            };
        }
    }
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
                summaries: Summary::all(result),
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
                        for summary in &mut self.summaries {
                            summary.pass_over(*slot, self.result);
                        }
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
            for summary in &self.summaries {
                *(*self.result).ri_IndexRelationDescs.add(summary.at) = summary.relation;
            }
            pg_sys::ExecCloseIndices(self.result);
            pg_sys::FreeExecutorState(self.estate);
            pg_sys::CommandCounterIncrement();
        }
    }
}
