//! Inserts many rows into a table's indexes. Some kinds of indexes need an entry for only some of
//! the rows, and some are filled at the end.
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};
use crate::base::major;
use crate::base::memory::Context;
use crate::base::relation::Relation;

/// PostgreSQL's functions without pgrx's boundary, which every row would cross.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn index_insert(
            index: pg_sys::Relation,
            values: *mut pg_sys::Datum,
            nulls: *mut bool,
            row: *mut pg_sys::ItemPointerData,
            table: pg_sys::Relation,
            unique: pg_sys::IndexUniqueCheck::Type,
            unchanged: bool,
            info: *mut pg_sys::IndexInfo,
        ) -> bool;
        pub(crate) fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, number: i32);
    }
    extern "C-unwind" {
        pub(crate) fn datumCopy(value: pg_sys::Datum, by_value: bool, length: i32)
            -> pg_sys::Datum;
        pub(crate) fn _hash_datum2hashkey(index: pg_sys::Relation, value: pg_sys::Datum) -> u32;
    }
}

/// The indexes of a table that rows are being written to.
pub(crate) struct Indexes {
    result: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
    summaries: Vec<Summary>,
    scattered: Vec<Scattered>,
}

/// An index on one column.
struct Single {
    /// Among the table's indexes.
    at: usize,
    relation: pg_sys::Relation,
    /// Of the table, from 0.
    column: usize,
    by_value: bool,
    length: i16,
}

/// A BRIN index on a column that is passed by value. It keeps which values a range of pages has: it
/// need not hear of the same value again for the next row of a page.
struct Summary {
    index: Single,
    /// Page and value of the row that the index was told of last.
    told: Option<(u32, Option<pg_sys::Datum>)>,
}

/// A hash index. It is told of all rows at the end, those of one page one after the other.
struct Scattered {
    index: Single,
    entries: Vec<Entry>,
    /// Of the values.
    memory: Context,
}

struct Entry {
    /// Rows of one bucket have the last bits of their hash in common, however many buckets there
    /// are.
    order: u32,
    value: pg_sys::Datum,
    row: pg_sys::ItemPointerData,
}

impl Indexes {
    pub(crate) fn open(table: &Relation) -> Self {
        // SAFETY: executor state and result relation live until `finish`, or die with the
        // transaction's memory.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let result = pg_sys::palloc0(std::mem::size_of::<pg_sys::ResultRelInfo>())
                .cast::<pg_sys::ResultRelInfo>();
            (*result).type_ = pg_sys::NodeTag::T_ResultRelInfo;
            pg_sys::InitResultRelInfo(result, table.raw(), 0, null_mut(), 0);
            pg_sys::ExecOpenIndices(result, false);
            let summaries = single(result, pg_sys::BRIN_AM_OID).filter(|index| index.by_value);
            let scattered = single(result, pg_sys::HASH_AM_OID);
            Indexes {
                summaries: summaries
                    .map(|index| Summary { index, told: None })
                    .collect(),
                scattered: scattered
                    .map(|index| Scattered::new(index, result))
                    .collect(),
                result,
                estate,
            }
        }
    }

    /// # Safety
    /// `slot` must hold a row just stored in the table. To be called inside `catch_c`.
    pub(crate) unsafe fn insert(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by the caller's promise.
        unsafe {
            if (*self.result).ri_NumIndices == 0 {
                return;
            }
            for summary in &mut self.summaries {
                summary.pass_over(slot, self.result);
            }
            for scattered in &mut self.scattered {
                scattered.note(slot);
            }
            major::insert_into_indexes(self.result, slot, self.estate);
        }
    }

    /// Frees what expressions of indexes left.
    pub(crate) fn after_batch(&mut self) {
        // SAFETY: the state is live; its context for expressions is null or live.
        unsafe {
            if let Some(context) = (*self.estate).es_per_tuple_exprcontext.as_ref() {
                pg_sys::MemoryContextReset(context.ecxt_per_tuple_memory);
            }
        }
    }

    /// Tells what is left to be told, and closes them.
    pub(crate) fn finish(&mut self) {
        // SAFETY: opened in `open`, closed once here.
        unsafe {
            for scattered in &mut self.scattered {
                scattered.tell(self.result);
            }
            let singles = self.summaries.iter().map(|s| &s.index);
            for index in singles.chain(self.scattered.iter().map(|s| &s.index)) {
                *(*self.result).ri_IndexRelationDescs.add(index.at) = index.relation;
            }
            pg_sys::ExecCloseIndices(self.result);
            pg_sys::FreeExecutorState(self.estate);
        }
    }
}

/// The indexes of this access method on one column, of all rows.
///
/// # Safety
/// The indexes of `result` must be open.
unsafe fn single(
    result: *mut pg_sys::ResultRelInfo,
    method: pg_sys::Oid,
) -> impl Iterator<Item = Single> {
    // SAFETY: by the caller's promise; the arrays have as many entries as there are indexes.
    let of = move |at: usize| unsafe {
        let relation = *(*result).ri_IndexRelationDescs.add(at);
        let info = &**(*result).ri_IndexRelationInfo.add(at);
        let attributes = (*(*result).ri_RelationDesc).rd_att;
        let column = (info.ii_IndexAttrNumbers[0] as usize).checked_sub(1)?;
        let attributes = major::attributes(attributes);
        let attribute = attributes.get(column)?;
        let fits = (*(*relation).rd_rel).relam == method
            && info.ii_NumIndexAttrs == 1
            && info.ii_Predicate.is_null();
        fits.then_some(Single {
            at,
            relation,
            column,
            by_value: attribute.attbyval,
            length: attribute.attlen,
        })
    };
    // SAFETY: by the caller's promise.
    let count = unsafe { (*result).ri_NumIndices as usize };
    (0..count).filter_map(of)
}

impl Single {
    /// The row's value; None when NULL.
    ///
    /// # Safety
    /// `slot` must hold a row of the table. Only where an ERROR may be raised.
    unsafe fn value(&self, slot: *mut pg_sys::TupleTableSlot) -> Option<pg_sys::Datum> {
        // SAFETY: by the caller's promise.
        unsafe {
            if (*slot).tts_nvalid <= self.column as i16 {
                raw::slot_getsomeattrs_int(slot, self.column as i32 + 1);
            }
            let null = *(*slot).tts_isnull.add(self.column);
            (!null).then_some(*(*slot).tts_values.add(self.column))
        }
    }
}

impl Summary {
    /// Has the index passed over for a row that it need not be told of, or not.
    ///
    /// # Safety
    /// `slot` must hold a row just stored in the table of `result`. Only where an ERROR may be
    /// raised.
    unsafe fn pass_over(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        result: *mut pg_sys::ResultRelInfo,
    ) {
        // SAFETY: by the caller's promise; an index that is null is passed over by
        // ExecInsertIndexTuples.
        unsafe {
            let page = (*slot).tts_tid.ip_blkid;
            let page = u32::from(page.bi_hi) << 16 | u32::from(page.bi_lo);
            let row = Some((page, self.index.value(slot)));
            let known = self.told == row;
            self.told = row;
            *(*result).ri_IndexRelationDescs.add(self.index.at) = match known {
                true => null_mut(),
                false => self.index.relation,
            };
        }
    }
}

impl Scattered {
    /// Has the index passed over from now on.
    ///
    /// # Safety
    /// `index` must be of `result`.
    unsafe fn new(index: Single, result: *mut pg_sys::ResultRelInfo) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { *(*result).ri_IndexRelationDescs.add(index.at) = null_mut() };
        Scattered {
            index,
            entries: Vec::new(),
            memory: Context::child(c"chainify index entries"),
        }
    }

    /// # Safety
    /// As for [`Summary::pass_over`].
    unsafe fn note(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by the caller's promise; the copy lives until the index is told.
        unsafe {
            let Some(value) = self.index.value(slot) else {
                return; // a hash index has no NULLs
            };
            let (by_value, length) = (self.index.by_value, i32::from(self.index.length));
            self.entries.push(Entry {
                order: raw::_hash_datum2hashkey(self.index.relation, value).reverse_bits(),
                value: self
                    .memory
                    .enter(|| raw::datumCopy(value, by_value, length)),
                row: (*slot).tts_tid,
            });
        }
    }

    /// # Safety
    /// The index must be of `result`, and open.
    unsafe fn tell(&mut self, result: *mut pg_sys::ResultRelInfo) {
        self.entries.sort_unstable_by_key(|entry| entry.order);
        let (index, at, entries) = (self.index.relation, self.index.at, &mut self.entries[..]);
        let check = pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO;
        let tell = || {
            // SAFETY: by the caller's promise; the values are live.
            unsafe {
                let (table, info) = (
                    (*result).ri_RelationDesc,
                    *(*result).ri_IndexRelationInfo.add(at),
                );
                for entry in entries {
                    let (value, row) = (&raw mut entry.value, &raw mut entry.row);
                    let mut null = false;
                    raw::index_insert(index, value, &mut null, row, table, check, false, info);
                }
            }
        };
        // SAFETY: it calls functions of PostgreSQL alone, and owns nothing.
        self.memory.enter(|| unsafe { catch_c(tell) }.or_raise());
    }
}
