//! Keys of a table: columns that no two of its rows share.
use pgrx::pg_sys;

use crate::base::index_columns;
use crate::base::major;
use crate::base::relation::{Lock, Relation};
use crate::describe::analysis::columns_of;

/// Columns of each unique index that holds for all rows at once and has no NULL in it.
pub(crate) fn unique_keys(relation: pg_sys::Oid) -> Vec<Vec<i16>> {
    // SAFETY: analysis holds a lock on the relations of its query; indexes are opened by oids of a
    // fresh list.
    unsafe {
        let kind = pg_sys::get_rel_relkind(relation) as u8;
        if kind != pg_sys::RELKIND_RELATION && kind != pg_sys::RELKIND_PARTITIONED_TABLE {
            return Vec::new();
        }
        let relation = Relation::open(relation, Lock::AccessShare);
        let Some(list) = pg_sys::RelationGetIndexList(relation.raw()).as_ref() else {
            return Vec::new();
        };
        (0..list.length as usize)
            .filter_map(|i| index_key(&relation, (*list.elements.add(i)).oid_value))
            .collect()
    }
}

fn index_key(relation: &Relation, oid: pg_sys::Oid) -> Option<Vec<i16>> {
    let lock = Lock::AccessShare as pg_sys::LOCKMODE;
    // SAFETY: the index stays open while it is read; indkey has indnatts columns, the key's first.
    unsafe {
        let index = pg_sys::index_open(oid, lock);
        let form = &*(*index).rd_index;
        let whole = form.indisunique && form.indimmediate && form.indisvalid;
        let partial = !index_columns::condition(oid).is_null();
        let columns =
            std::slice::from_raw_parts(form.indkey.values.as_ptr(), form.indnkeyatts as usize)
                .to_vec();
        let attributes = major::attributes(relation.descriptor());
        let usable = columns.iter().all(|number| {
            let attribute = usize::try_from(*number)
                .ok()
                .and_then(|n| attributes.get(n.checked_sub(1)?));
            attribute.is_some_and(|a| a.attnotnull)
        });
        pg_sys::index_close(index, lock);
        (whole && !partial && usable).then_some(columns)
    }
}

/// The columns of a unique index, as numbers of columns.
pub(crate) struct UniqueIndex {
    pub columns: Vec<i16>,
    /// Of expressions, and of what generated columns are computed from.
    pub(crate) computed: Vec<i16>,
    /// Of the condition of a partial index.
    pub condition: Vec<i16>,
}

/// The unique indexes of a relation, those that hold for some rows alone included.
pub(crate) fn unique_indexes(relation: pg_sys::Oid) -> Vec<UniqueIndex> {
    // SAFETY: as for `unique_keys`.
    unsafe {
        let relation = Relation::open(relation, Lock::AccessShare);
        let Some(list) = pg_sys::RelationGetIndexList(relation.raw()).as_ref() else {
            return Vec::new();
        };
        (0..list.length as usize)
            .filter_map(|i| unique_index(&relation, (*list.elements.add(i)).oid_value))
            .collect()
    }
}

fn unique_index(relation: &Relation, oid: pg_sys::Oid) -> Option<UniqueIndex> {
    let lock = Lock::AccessShare as pg_sys::LOCKMODE;
    // SAFETY: as for `index_key`; expressions are over the relation's columns, in copies that
    // belong to the caller.
    unsafe {
        let numbers = |part: *mut pg_sys::Node| -> Vec<i16> {
            let columns = columns_of(part, 0);
            columns.into_iter().map(|c| c.number).collect()
        };
        let index = pg_sys::index_open(oid, lock);
        let form = &*(*index).rd_index;
        let unique = form.indisunique;
        let columns =
            std::slice::from_raw_parts(form.indkey.values.as_ptr(), form.indnkeyatts as usize)
                .to_vec();
        let mut computed = numbers(index_columns::expressions(oid));
        let condition = numbers(index_columns::condition(oid));
        pg_sys::index_close(index, lock);
        for number in columns.iter().chain(&condition).chain(&computed.clone()) {
            let attributes = major::attributes(relation.descriptor());
            let attribute = usize::try_from(*number)
                .ok()
                .and_then(|n| attributes.get(n.checked_sub(1)?));
            if attribute.is_some_and(|a| a.attgenerated != 0) {
                let value = pg_sys::build_column_default(relation.raw(), i32::from(*number));
                computed.extend(columns_of(value, 0).into_iter().map(|c| c.number));
            }
        }
        unique.then_some(UniqueIndex {
            columns,
            computed,
            condition,
        })
    }
}
