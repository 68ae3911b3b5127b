//! Checks that an index finds the rows of its table, by comparing a scan of the index with a scan
//! of the table.
//!
//! Both see one snapshot. The index must have each row once. Where it stores whole columns, the
//! entry must have the row's values, and entries must be in the order of the columns' types. An
//! eighth of the rows of a B-tree, other ones each time, is also looked up by value: reading the
//! leaves does not show that the inner pages lead to them. For a hash index each row is looked up.
//! For GIN and BRIN indexes see [`bitmap`].
//!
//! [`bitmap`]: super::bitmap
use std::ptr::null_mut;

use chainify_codec::{RangeDigest, SecretHasher};
use pgrx::pg_sys;

use crate::base::cell::datum_image_eq;
use crate::base::error::{catch_c, OrRaise};
use crate::base::major;
use crate::base::memory::Context;
use crate::base::random;
use crate::base::slices::Opened;
use crate::base::snapshot::Sees;

/// Without pgrx's boundary.
pub(super) mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn FormIndexDatum(
            info: *mut pg_sys::IndexInfo,
            slot: *mut pg_sys::TupleTableSlot,
            estate: *mut pg_sys::EState,
            values: *mut pg_sys::Datum,
            nulls: *mut bool,
        );
    }
}

/// The differences between an index and its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// Rows that it should find.
    pub rows: u64,
    /// Rows that it finds.
    pub found: u64,
    /// Of these, under other values than they have.
    pub wrong: u64,
    /// Of these, out of order.
    pub disordered: u64,
    /// Of those asked for by their values, not found so.
    pub not_by_value: u64,
}

/// Of so many rows a B-tree is asked for one.
const ROWS_A_QUESTION: u64 = 8;

/// How an index is beside its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    Agrees,
    Differs(Difference),
    /// It has no operator to ask by, or it was made after the snapshot.
    Not,
}

/// Compares an index with its table; `pace` is told of each row read, of either. None: one of them
/// is gone. To be called as the table's owner: conditions of indexes and comparisons of types may
/// be a user's. Cost: one scan of both, and one more of the table to look rows up. One of eight is
/// looked up in a B-tree, each in a hash index, in others as many as [`Scans::ask_bitmaps`] says.
/// Locks both against changes of their definition.
pub fn compare(
    table: pg_sys::Oid,
    index: pg_sys::Oid,
    sees: Sees,
    pace: &mut dyn FnMut(),
) -> Option<Compared> {
    let opened = Opened::try_open(table)?;
    let index = Index::try_open(index)?;
    let hasher = SecretHasher::new(&random::key());
    // SAFETY: a SQL function runs under a snapshot. That used is registered meanwhile; an ERROR on
    // the way cleans up at abort.
    unsafe {
        let snapshot = pg_sys::RegisterSnapshot(match sees {
            Sees::Statement => pg_sys::GetActiveSnapshot(),
            Sees::Latest => pg_sys::GetLatestSnapshot(),
        });
        let scans = || Scans {
            table: opened.relation().raw(),
            index: index.0,
            info: pg_sys::BuildIndexInfo(index.0),
            snapshot,
            hasher,
            memory: Context::child(c"chainify index check"),
        };
        let compared = match index.is_of_old() {
            true if index.is_read_whole() => scans().compare(&index, pace),
            true if index.is_of(pg_sys::HASH_AM_OID) => scans().look_up(1, pace),
            true if index.gives_bitmaps() => scans().ask_bitmaps(pace),
            _ => Compared::Not,
        };
        pg_sys::UnregisterSnapshot(snapshot);
        Some(compared)
    }
}

/// An index held open and locked.
struct Index(pg_sys::Relation);

impl Index {
    fn try_open(index: pg_sys::Oid) -> Option<Self> {
        // SAFETY: returns null for an index that is gone, or a relation held open.
        let open = unsafe {
            pg_sys::try_relation_open(index, pg_sys::AccessShareLock as pg_sys::LOCKMODE)
        };
        (!open.is_null()).then(|| Index(open))
    }

    /// Whether a scan without a condition gives all of its entries, row by row.
    fn is_read_whole(&self) -> bool {
        // SAFETY: held open by self; an index has a routine.
        unsafe {
            let routine = (*self.0).rd_indam;
            !routine.is_null() && (*routine).amgettuple.is_some() && (*routine).amoptionalkey
        }
    }

    fn gives_bitmaps(&self) -> bool {
        // SAFETY: held open by self; an index has a routine.
        unsafe { (*self.0).rd_indam.as_ref() }.is_some_and(|routine| routine.amgetbitmap.is_some())
    }

    fn is_of(&self, access_method: pg_sys::Oid) -> bool {
        // SAFETY: held open by self.
        unsafe { (*(*self.0).rd_rel).relam == access_method }
    }

    /// Whether it has entries of all row versions that snapshots of now see, as the planner asks
    /// before it uses one.
    fn is_of_old(&self) -> bool {
        const FROZEN: u16 = (pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID) as u16;
        // SAFETY: held open by self; an index has a row of pg_index.
        unsafe {
            if !(*(*self.0).rd_index).indcheckxmin {
                return true;
            }
            let header = (*(*self.0).rd_indextuple).t_data;
            (*header).t_infomask & FROZEN == FROZEN
                || pg_sys::TransactionIdPrecedes(
                    (*header).t_choice.t_heap.t_xmin,
                    pg_sys::TransactionXmin,
                )
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing closes and unlocks it
        }
        // SAFETY: opened by `try_open`, closed once.
        unsafe { pg_sys::relation_close(self.0, pg_sys::AccessShareLock as pg_sys::LOCKMODE) }
    }
}

/// Everything two scans need; all of it lives until the comparison has ended.
pub(super) struct Scans {
    pub(super) table: pg_sys::Relation,
    pub(super) index: pg_sys::Relation,
    pub(super) info: *mut pg_sys::IndexInfo,
    pub(super) snapshot: pg_sys::Snapshot,
    hasher: SecretHasher,
    /// Of one row.
    pub(super) memory: Context,
}

impl Scans {
    /// # Safety
    /// Table and index are open, the snapshot is registered.
    unsafe fn compare(&self, index: &Index, pace: &mut dyn FnMut()) -> Compared {
        // SAFETY: by the caller's promise.
        unsafe {
            let rows = self.of_table(pace);
            let mut keys = Keys::of(self.index, self.info);
            let found = self.of_index(&mut keys, pace);
            let (wrong, disordered) = keys.map_or((0, 0), |keys| (keys.wrong, keys.disordered));
            match rows == found && wrong == 0 && disordered == 0 {
                true if index.is_of(pg_sys::BTREE_AM_OID) => self.look_up(ROWS_A_QUESTION, pace),
                true => Compared::Agrees,
                false => Compared::Differs(Difference {
                    rows: rows.rows,
                    found: found.rows,
                    wrong,
                    disordered,
                    not_by_value: 0,
                }),
            }
        }
    }

    /// Asks the index for one of so many rows that it should have, from a random one on.
    ///
    /// # Safety
    /// As for [`Scans::compare`]; it is a hash index or a B-tree.
    unsafe fn look_up(&self, of_rows: u64, pace: &mut dyn FnMut()) -> Compared {
        let mut seen = Difference::default();
        let first = u64::from(random::key()[0]) % of_rows;
        // SAFETY: by the caller's promise; FormIndexDatum sets as many values as the index has
        // columns.
        unsafe {
            let Some(mut question) = Question::of(self.index, self.info) else {
                return Compared::Not;
            };
            let columns = (*self.info).ii_NumIndexAttrs as usize;
            let mut values = vec![pg_sys::Datum::from(0); columns];
            let mut nulls = vec![true; columns];
            let entry = pg_sys::table_slot_create(self.table, null_mut());
            let keys = question.asked.len() as i32;
            let scan = major::begin_index_scan(Some(self.table), self.index, self.snapshot, keys);
            self.each_row(&mut |slot, estate| {
                seen.rows += 1;
                if seen.rows % of_rows == first {
                    let (info, values, nulls) = (self.info, &mut values, &mut nulls);
                    let (to, to_nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    let form = || raw::FormIndexDatum(info, slot, estate, to, to_nulls);
                    // The scan keeps what it allocates from row to row: it has no part in this
                    // memory.
                    self.memory.enter(|| catch_c(form).or_raise());
                    if question.asks(values, nulls) {
                        let asked = question.asked.as_mut_ptr();
                        pg_sys::index_rescan(scan, asked, keys, null_mut(), 0);
                        seen.not_by_value += u64::from(!self.gives(scan, entry, slot));
                    }
                }
                pace();
            });
            pg_sys::index_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(entry);
        }
        seen.found = seen.rows - seen.not_by_value;
        match seen.not_by_value {
            0 => Compared::Agrees,
            _ => Compared::Differs(seen),
        }
    }

    /// Whether the scan gives the row in `slot`, or more rows than are looked at: of many with one
    /// value not each is shown.
    ///
    /// # Safety
    /// As for [`Scans::compare`]; the scan has its key, the slots are of the table.
    unsafe fn gives(
        &self,
        scan: pg_sys::IndexScanDesc,
        entry: *mut pg_sys::TupleTableSlot,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool {
        const LOOKED_AT_MAX: usize = 100;
        // SAFETY: by the caller's promise.
        unsafe {
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            for _ in 0..LOOKED_AT_MAX {
                if !pg_sys::index_getnext_slot(scan, forward, entry) {
                    return false;
                }
                if self.place(entry) == self.place(slot) {
                    return true;
                }
            }
            true
        }
    }

    /// The places of the rows that the index should have.
    ///
    /// # Safety
    /// As for [`Scans::compare`].
    unsafe fn of_table(&self, pace: &mut dyn FnMut()) -> RangeDigest {
        let mut digest = RangeDigest::default();
        // SAFETY: by the caller's promise.
        unsafe {
            self.each_row(&mut |slot, _| {
                digest.add(&self.place(slot));
                pace();
            });
        }
        digest
    }

    /// Calls `f` with each row that the index should have.
    ///
    /// # Safety
    /// As for [`Scans::compare`].
    pub(super) unsafe fn each_row(
        &self,
        f: &mut dyn FnMut(*mut pg_sys::TupleTableSlot, *mut pg_sys::EState),
    ) {
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
        // SAFETY: by the caller's promise; the slot is of the table.
        unsafe {
            let slot = pg_sys::table_slot_create(self.table, null_mut());
            let estate = pg_sys::CreateExecutorState();
            let context = pg_sys::MakePerTupleExprContext(estate);
            (*context).ecxt_scantuple = slot;
            let condition = pg_sys::ExecPrepareQual((*self.info).ii_Predicate, estate);
            let scan =
                pg_sys::heap_beginscan(self.table, self.snapshot, 0, null_mut(), null_mut(), flags);
            while pg_sys::heap_getnextslot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot)
            {
                pgrx::check_for_interrupts!();
                if self.holds(condition, context) {
                    f(slot, estate);
                    self.memory.reset();
                    pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
                }
            }
            pg_sys::heap_endscan(scan);
            pg_sys::FreeExecutorState(estate);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        }
    }

    /// Whether a partial index has the row; every other has.
    ///
    /// # Safety
    /// The condition, null or prepared, is evaluated in this context, whose slot holds a row.
    unsafe fn holds(
        &self,
        condition: *mut pg_sys::ExprState,
        context: *mut pg_sys::ExprContext,
    ) -> bool {
        // SAFETY: by the caller's promise; a condition that is NULL does not hold.
        unsafe {
            let Some(evaluate) = condition.as_ref().and_then(|state| state.evalfunc) else {
                return true;
            };
            let mut null = false;
            let holds = self
                .memory
                .enter(|| catch_c(|| evaluate(condition, context, &mut null)).or_raise());
            self.memory.reset();
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
            !null && holds.value() != 0
        }
    }

    /// The places of the rows that the index finds.
    ///
    /// # Safety
    /// As for [`Scans::compare`].
    unsafe fn of_index(&self, keys: &mut Option<Keys>, pace: &mut dyn FnMut()) -> RangeDigest {
        let mut digest = RangeDigest::default();
        // SAFETY: by the caller's promise; the slot is of the table.
        unsafe {
            let slot = pg_sys::table_slot_create(self.table, null_mut());
            let scan = major::begin_index_scan(Some(self.table), self.index, self.snapshot, 0);
            (*scan).xs_want_itup = keys.is_some();
            pg_sys::index_rescan(scan, null_mut(), 0, null_mut(), 0);
            while pg_sys::index_getnext_slot(
                scan,
                pg_sys::ScanDirection::ForwardScanDirection,
                slot,
            ) {
                pgrx::check_for_interrupts!();
                digest.add(&self.place(slot));
                if let Some(keys) = keys {
                    self.memory.enter(|| keys.see((*scan).xs_itup, slot));
                    self.memory.reset();
                }
                pace();
            }
            pg_sys::index_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        }
        digest
    }

    /// # Safety
    /// `slot` must hold a row.
    unsafe fn place(&self, slot: *mut pg_sys::TupleTableSlot) -> chainify_codec::Hash {
        // SAFETY: by the caller's promise.
        let place = unsafe { (*slot).tts_tid };
        let mut bytes = [0; 6];
        for (bytes, part) in bytes.chunks_exact_mut(2).zip([
            place.ip_blkid.bi_hi,
            place.ip_blkid.bi_lo,
            place.ip_posid,
        ]) {
            bytes.copy_from_slice(&part.to_be_bytes());
        }
        self.hasher.hash(&bytes)
    }
}

/// Conditions that the key columns of a hash index or a B-tree are what a row has.
struct Question {
    finds_nulls: bool,
    /// That each key column equals a value.
    equals: Vec<pg_sys::ScanKeyData>,
    asked: Vec<pg_sys::ScanKeyData>,
}

impl Question {
    /// None: a column's operators have no equality.
    ///
    /// # Safety
    /// The index must be open, `info` be of it.
    unsafe fn of(index: pg_sys::Relation, info: *mut pg_sys::IndexInfo) -> Option<Self> {
        // SAFETY: by the caller's promise; an index has a family, a type and a collation, if only
        // none, for each key column.
        unsafe {
            let strategy = match (*(*index).rd_rel).relam {
                pg_sys::BTREE_AM_OID => pg_sys::BTEqualStrategyNumber,
                _ => pg_sys::HTEqualStrategyNumber,
            };
            let equals = |at: usize| {
                let type_oid = *(*index).rd_opcintype.add(at);
                let family = *(*index).rd_opfamily.add(at);
                let member = strategy as i16;
                let operator = pg_sys::get_opfamily_member(family, type_oid, type_oid, member);
                if operator == pg_sys::InvalidOid {
                    return None;
                }
                let mut key = pg_sys::ScanKeyData::default();
                pg_sys::ScanKeyEntryInitialize(
                    &mut key,
                    0,
                    at as i16 + 1,
                    strategy as pg_sys::StrategyNumber,
                    pg_sys::InvalidOid,
                    *(*index).rd_indcollation.add(at),
                    pg_sys::get_opcode(operator),
                    0.into(),
                );
                Some(key)
            };
            let columns = (*info).ii_NumIndexKeyAttrs as usize;
            let equals: Option<Vec<_>> = (0..columns).map(equals).collect();
            Some(Question {
                finds_nulls: (*(*index).rd_indam).amsearchnulls,
                asked: equals.clone()?,
                equals: equals?,
            })
        }
    }

    /// Puts the question for these values. False: the index does not find NULL by its value.
    fn asks(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        let columns = values.iter().zip(nulls);
        for ((asked, equals), (value, null)) in self.asked.iter_mut().zip(&self.equals).zip(columns)
        {
            *asked = *equals;
            match null {
                false => asked.sk_argument = *value,
                true if !self.finds_nulls => return false,
                true => {
                    asked.sk_flags = (pg_sys::SK_ISNULL | pg_sys::SK_SEARCHNULL) as i32;
                    asked.sk_strategy = 0;
                }
            }
        }
        true
    }
}

/// The columns of a B-tree's entries, compared with the row that each leads to and with those of
/// the entry before.
struct Keys {
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    before: Before,
    wrong: u64,
    disordered: u64,
}

/// The entry before, copied.
struct Before {
    entry: Vec<u64>,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

/// `INDEX_SIZE_MASK` of itup.h.
const SIZE_MASK: u16 = 0x1fff;
/// `BTORDER_PROC` of nbtree.h.
const ORDER: u16 = 1;

impl Keys {
    /// # Safety
    /// The index must stay open, `info` be of it.
    unsafe fn of(index: pg_sys::Relation, info: *mut pg_sys::IndexInfo) -> Option<Self> {
        // SAFETY: by the caller's promise.
        unsafe {
            if (*(*index).rd_rel).relam != pg_sys::BTREE_AM_OID {
                return None;
            }
            let columns = (*info).ii_NumIndexAttrs as usize;
            let (values, nulls) = (vec![pg_sys::Datum::from(0); columns], vec![true; columns]);
            let before = Before {
                entry: Vec::new(),
                values: values.clone(),
                nulls: nulls.clone(),
            };
            Some(Keys {
                index,
                info,
                values,
                nulls,
                before,
                wrong: 0,
                disordered: 0,
            })
        }
    }

    /// # Safety
    /// `entry` is the index's that led to the row in `slot`. The caller frees the memory.
    unsafe fn see(&mut self, entry: pg_sys::IndexTuple, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by the caller's promise; values and nulls have as many places as the index has
        // columns. The copy is as long as its entry.
        unsafe {
            let descriptor = (*self.index).rd_att;
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            pg_sys::index_deform_tuple(entry, descriptor, values, nulls);
            if !self.is_of(slot) {
                self.wrong += 1;
            }
            if !self.before.entry.is_empty() {
                let copy = self.before.entry.as_mut_ptr().cast();
                let (values, nulls) = (
                    self.before.values.as_mut_ptr(),
                    self.before.nulls.as_mut_ptr(),
                );
                pg_sys::index_deform_tuple(copy, descriptor, values, nulls);
                if self.order() > 0 {
                    self.disordered += 1;
                }
            }
            let bytes = usize::from((*entry).t_info & SIZE_MASK);
            self.before.entry.clear();
            self.before.entry.resize(bytes.div_ceil(8), 0);
            let copy = self.before.entry.as_mut_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copy, bytes);
        }
    }

    /// Whether the entry's columns are the row's, as far as they are columns of the table as it has
    /// them.
    ///
    /// # Safety
    /// As for [`Keys::see`].
    unsafe fn is_of(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: by the caller's promise; a slot has the columns of its descriptor.
        unsafe {
            let of_table = major::attributes((*slot).tts_tupleDescriptor);
            let of_index = major::attributes((*self.index).rd_att);
            let same = |at: usize| {
                let number = (*self.info).ii_IndexAttrNumbers[at];
                let Some(column) = (number as usize)
                    .checked_sub(1)
                    .filter(|column| *column < of_table.len())
                else {
                    return true; // an expression
                };
                if of_table[column].atttypid != of_index[at].atttypid {
                    return true; // kept as another type
                }
                if (*slot).tts_nvalid < number {
                    pg_sys::slot_getsomeattrs_int(slot, i32::from(number));
                }
                let null = *(*slot).tts_isnull.add(column);
                if null || self.nulls[at] {
                    return null == self.nulls[at];
                }
                let (value, entry) = (*(*slot).tts_values.add(column), self.values[at]);
                let (by_value, length) = (of_index[at].attbyval, i32::from(of_index[at].attlen));
                catch_c(|| datum_image_eq(value, entry, by_value, length)).or_raise()
            };
            (0..self.values.len()).all(same)
        }
    }

    /// How the entry before stands to this one: above 0, it should come after it.
    ///
    /// # Safety
    /// As for [`Keys::see`]; both are deformed.
    unsafe fn order(&self) -> i32 {
        // SAFETY: by the caller's promise; options, collations and functions are there for each key
        // column.
        unsafe {
            for at in 0..(*self.info).ii_NumIndexKeyAttrs as usize {
                let option = *(*self.index).rd_indoption.add(at) as u32;
                let nulls_first = option & pg_sys::INDOPTION_NULLS_FIRST != 0;
                let order = match (self.before.nulls[at], self.nulls[at]) {
                    (true, true) => 0,
                    (true, false) => 1 - 2 * i32::from(nulls_first),
                    (false, true) => 2 * i32::from(nulls_first) - 1,
                    (false, false) => {
                        let function = pg_sys::index_getprocinfo(self.index, at as i16 + 1, ORDER);
                        let order = pg_sys::FunctionCall2Coll(
                            function,
                            *(*self.index).rd_indcollation.add(at),
                            self.before.values[at],
                            self.values[at],
                        );
                        let order = (order.value() as i32).signum();
                        match option & pg_sys::INDOPTION_DESC {
                            0 => order,
                            _ => -order,
                        }
                    }
                };
                if order != 0 {
                    return order;
                }
            }
            0
        }
    }
}
