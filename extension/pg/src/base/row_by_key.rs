//! Finds the rows of a table with a given key in the index of its primary key, without the planner.
//! The planner would evaluate expressions of the table's owner (invariant X11).
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::error::{catch_c, OrRaise};
use crate::base::input::base_type;
use crate::base::major;
use crate::base::memory::Context;
use crate::base::relation::{Relation, Scratch, Tuple};

impl Relation {
    /// Calls `f` with the rows that have these values in the columns of the primary key, as the
    /// statement that runs sees them. False: there is no index to find them by. Memory allocated
    /// by `f` in PostgreSQL is freed. Cost: one descent of the index.
    pub fn rows_by_key(&self, key: &[(i16, &Cell)], f: &mut dyn FnMut(&Tuple)) -> bool {
        let Some(index) = PrimaryKey::of(self) else {
            return false;
        };
        let Some(mut asked) = index.asked(self, key) else {
            return false;
        };
        let memory = Context::child(c"chainify row by key");
        // SAFETY: table and index are open, and a snapshot is active while a statement runs. The
        // slot is of the table; an ERROR on the way cleans all up at abort.
        memory.enter(|| unsafe {
            let snapshot = pg_sys::GetActiveSnapshot();
            let (keys, none) = (asked.len() as i32, null_mut());
            let slot = pg_sys::table_slot_create(self.raw(), null_mut());
            let scan = major::begin_index_scan(Some(self.raw()), index.0, snapshot, keys);
            pg_sys::index_rescan(scan, asked.as_mut_ptr(), keys, none, 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            let mut scratch = Scratch::default();
            while pg_sys::index_getnext_slot(scan, forward, slot) {
                let row = pg_sys::ExecFetchSlotHeapTuple(slot, false, null_mut());
                f(&scratch.deform(row, self.descriptor()));
            }
            pg_sys::index_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        });
        true
    }
}

/// The index of a primary key, open.
struct PrimaryKey(pg_sys::Relation);

impl PrimaryKey {
    /// None: there is none that PostgreSQL would read.
    fn of(table: &Relation) -> Option<Self> {
        // SAFETY: a list of the oids of indexes, which are there as long as the table is open.
        let indexes = unsafe { pg_sys::RelationGetIndexList(table.raw()).as_ref() }?;
        (0..indexes.length as usize).find_map(|at| {
            // SAFETY: as above; an index has a row of pg_index.
            unsafe {
                let oid = (*indexes.elements.add(at)).oid_value;
                let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
                let index = PrimaryKey(pg_sys::index_open(oid, lock));
                let form = &*(*index.0).rd_index;
                let is_btree = (*(*index.0).rd_rel).relam == pg_sys::BTREE_AM_OID;
                (form.indisprimary && form.indisvalid && is_btree).then_some(index)
            }
        })
    }

    /// The question to the index; None: it is of other columns, or of other types.
    fn asked(&self, table: &Relation, key: &[(i16, &Cell)]) -> Option<Vec<pg_sys::ScanKeyData>> {
        const EQUAL: i16 = pg_sys::BTEqualStrategyNumber as i16;
        // SAFETY: the arrays of an open index have a place for each of its key columns, and the
        // descriptor one for each column. Values are of their columns' types, which the operators
        // of the index compare.
        unsafe {
            let form = &*(*self.0).rd_index;
            let columns = usize::try_from(form.indnkeyatts).ok()?;
            let numbers = std::slice::from_raw_parts(form.indkey.values.as_ptr(), columns);
            let attributes = major::attributes(table.descriptor());
            let ask = |(at, number): (usize, &i16)| {
                let (_, cell) = key.iter().find(|(of, _)| of == number)?;
                let column = attributes.get(usize::try_from(*number).ok()?.checked_sub(1)?)?;
                let value = cell.datum()?;
                if base_type(column.atttypid) != cell.oid() {
                    return None;
                }
                let (family, of) = (
                    *(*self.0).rd_opfamily.add(at),
                    *(*self.0).rd_opcintype.add(at),
                );
                let mut asked = pg_sys::ScanKeyData::default();
                let ask = || {
                    let operator = pg_sys::get_opfamily_member(family, of, of, EQUAL);
                    pg_sys::ScanKeyEntryInitialize(
                        &mut asked,
                        0,
                        at as i16 + 1,
                        EQUAL as pg_sys::StrategyNumber,
                        of,
                        *(*self.0).rd_indcollation.add(at),
                        pg_sys::get_opcode(operator),
                        value,
                    );
                };
                catch_c(ask).or_raise();
                Some(asked)
            };
            let asked: Option<Vec<_>> = numbers.iter().enumerate().map(ask).collect();
            asked.filter(|asked| asked.len() == key.len())
        }
    }
}

impl Drop for PrimaryKey {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing closes it; a second ERROR here would end the backend
        }
        // SAFETY: opened by `of`, closed once; its lock stays until the transaction ends.
        unsafe { pg_sys::index_close(self.0, pg_sys::NoLock as pg_sys::LOCKMODE) }
    }
}
