//! Look-ups in the system catalogs, and callbacks for changed relations.
use std::cell::RefCell;
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::error::{catch_c, without_raising, OrRaise};
use crate::base::generation;
pub use crate::base::generation::generation;
use crate::base::major;
use crate::base::relation::{Lock, Relation, Scratch, Tuple};

c_functions! {
    fn getObjectDescription(
        object: *const pg_sys::ObjectAddress,
        missing_ok: bool,
    ) -> *mut std::ffi::c_char;
    fn lookup_rowtype_tupdesc_copy(row_type: pg_sys::Oid, typmod: i32) -> pg_sys::TupleDesc;
}
extern "C-unwind" {
    fn get_partition_ancestors(relation: pg_sys::Oid) -> *mut pg_sys::List;
}

/// None when schema or relation do not exist.
pub fn relation_named(schema: &str, name: &str) -> Option<pg_sys::Oid> {
    let (schema, name) = (c_string(schema).ok()?, c_string(name).ok()?);
    // SAFETY: catalog look-ups by C strings.
    let oid = unsafe {
        let namespace = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        if namespace == pg_sys::InvalidOid {
            return None;
        }
        pg_sys::get_relname_relid(name.as_ptr(), namespace)
    };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The function of this name and these argument types; invalid when there is none.
pub(crate) fn function_named(schema: &CStr, name: &CStr, types: &[pg_sys::Oid]) -> pg_sys::Oid {
    // SAFETY: catalog look-ups by C strings and a vector of oids, which are copied or read at once.
    unsafe {
        let namespace = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        if namespace == pg_sys::InvalidOid {
            return namespace;
        }
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as i32,
            pg_sys::Anum_pg_proc_oid as i16,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(pg_sys::buildoidvector(types.as_ptr(), types.len() as i32)),
            pg_sys::Datum::from(namespace),
            pg_sys::Datum::from(0),
        )
    }
}

/// The partitioned table at the top, when `relation` is a partition.
pub fn partition_root(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the list is of oids, the topmost last.
    unsafe {
        if !pg_sys::get_rel_relispartition(relation) {
            return None;
        }
        let ancestors = catch_c(|| get_partition_ancestors(relation)).or_raise();
        let list = ancestors.as_ref()?;
        let last = (list.length as usize).checked_sub(1)?;
        Some((*list.elements.add(last)).oid_value)
    }
}

/// Whether `relation` is a system catalog.
pub fn is_catalog(relation: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        pg_sys::IsCatalogRelationOid(relation)
            || namespace_name(pg_sys::get_rel_namespace(relation))
                .is_some_and(|n| n == "information_schema")
    }
}

/// Whether `relation` is a view; its query's relations are checked instead.
pub fn is_view(relation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_VIEW }
}

/// Whether `relation` is a sequence.
pub fn is_sequence(relation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_SEQUENCE }
}

/// Whether a relation is a table with partitions; false when there is none.
pub fn is_partitioned(relation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up; it gives 0 when there is none.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_PARTITIONED_TABLE }
}

fn namespace_name(namespace: pg_sys::Oid) -> Option<String> {
    // SAFETY: a catalog look-up; the result is null or a fresh C string.
    unsafe {
        let name = pg_sys::get_namespace_name(namespace);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// `schema.name`, as far as they exist.
pub fn display_name(relation: pg_sys::Oid) -> String {
    // SAFETY: catalog look-ups; null for a relation that is gone.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        if name.is_null() {
            return format!("{}", relation.to_u32());
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// Schema and name of a function, as it was before this command and as the command has made it by
/// now; none where it is gone.
pub fn names_of_function(function: pg_sys::Oid) -> Vec<(String, String)> {
    // SAFETY: catalog look-ups, which give null or fresh C strings.
    let before = unsafe {
        let name = pg_sys::get_func_name(function);
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned());
        name.map(|name| (pg_sys::get_func_namespace(function), name))
    };
    let after = catalog_row(FUNCTIONS.to_u32(), PG_PROC_OID_INDEX, function, |row| {
        Some((row.get::<pg_sys::Oid>(PRONAMESPACE)?, row.name(PRONAME)?))
    });
    let names = before.into_iter().chain(after);
    names
        .filter_map(|(schema, name)| Some((namespace_name(schema)?, name)))
        .collect()
}

/// A catalog whose rows belong to a table: its oid, its index on oid, the column that holds the
/// table.
const OWNED: &[(u32, u32, i16)] = &[
    (2620, 2702, 2), // pg_trigger
    (2606, 2667, CONRELID),
    (2618, 2692, 3), // pg_rewrite
    (3256, 3257, 3), // pg_policy
    (2604, 2657, 2), // pg_attrdef
];
const PG_CLASS: (u32, u32) = (1259, 2662);
const PG_INDEX: (u32, u32) = (2610, 2679);
const PG_INHERITS: u32 = 2611;
const PG_TYPE: (u32, u32) = (1247, 2703);
const PG_CONSTRAINT: (u32, u32) = (2606, 2667);
const TYPBASETYPE: i16 = 26;
const PG_PROC_OID_INDEX: u32 = 2690;
const PRONAME: i16 = 2;
const PRONAMESPACE: i16 = 3;
/// A column of pg_constraint, after its first four columns and the flags.
const CONRELID: i16 = 5 + major::CONSTRAINT_FLAGS as i16;
const CONTYPID: i16 = CONRELID + 1;
/// pg_class.
pub const RELATIONS: pg_sys::Oid = pg_sys::Oid::from_u32(1259);
/// pg_proc.
pub const FUNCTIONS: pg_sys::Oid = pg_sys::Oid::from_u32(1255);
/// pg_type.
pub const TYPES: pg_sys::Oid = pg_sys::Oid::from_u32(PG_TYPE.0);
/// pg_namespace.
pub const SCHEMAS: pg_sys::Oid = pg_sys::Oid::from_u32(2615);
/// pg_largeobject.
pub const LARGE_OBJECTS: pg_sys::Oid = pg_sys::Oid::from_u32(2613);

/// pg_rewrite.
pub const RULES: pg_sys::Oid = pg_sys::Oid::from_u32(2618);

/// The table that an object of a catalog belongs to (an index's, a trigger's, …), with its schema's
/// name; also while the object is just being made. None for objects without a table.
pub fn table_of(class: pg_sys::Oid, object: pg_sys::Oid) -> Option<(pg_sys::Oid, String)> {
    let class = class.to_u32();
    let table = match OWNED.iter().find(|(catalog, ..)| *catalog == class) {
        Some((catalog, index, column)) => catalog_oid(*catalog, *index, object, *column)?,
        None if class == PG_CLASS.0 => {
            catalog_oid(PG_INDEX.0, PG_INDEX.1, object, 2).unwrap_or(object)
        }
        None if class == PG_INHERITS => object,
        None => return None,
    };
    let namespace = catalog_oid(PG_CLASS.0, PG_CLASS.1, table, 3)?;
    Some((table, namespace_name(namespace).unwrap_or_default()))
}

/// The type of a relation's rows; for the relation of a composite type, that type.
pub fn row_type(relation: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up, which gives zero for what is gone.
    unsafe { pg_sys::get_rel_type_id(relation) }
}

/// Whether an object comes and goes with the table, view or type that it belongs to, whoever made
/// it: types of rows and of arrays, storage, statistics, membership in publications.
pub fn follows_its_table(class: pg_sys::Oid, object: pg_sys::Oid) -> bool {
    const ATTACHED: [u32; 5] = [3381, 3429, 6106, 6237, 3394]; // statistics and their data, publications' tables and schemas, initial rights
                                                               // SAFETY: catalog look-ups, which
                                                               // give zeros for what is gone.
    unsafe {
        match class {
            RELATIONS => matches!(
                pg_sys::get_rel_relkind(object) as u8,
                pg_sys::RELKIND_TOASTVALUE | pg_sys::RELKIND_COMPOSITE_TYPE
            ),
            TYPES => {
                let rows = pg_sys::get_typ_typrelid(object);
                let composite = pg_sys::RELKIND_COMPOSITE_TYPE;
                let of_table =
                    rows != pg_sys::InvalidOid && pg_sys::get_rel_relkind(rows) as u8 != composite;
                of_table || pg_sys::get_element_type(object) != pg_sys::InvalidOid
            }
            _ => ATTACHED.contains(&class.to_u32()),
        }
    }
}

/// An object, or a column of it, in words for people.
pub fn description(class: pg_sys::Oid, object: pg_sys::Oid, column: i32) -> String {
    let address = pg_sys::ObjectAddress {
        classId: class,
        objectId: object,
        objectSubId: column,
    };
    // SAFETY: null for what is gone, else a fresh C string; raises for a catalog without such
    // objects.
    unsafe {
        let text = catch_c(|| getObjectDescription(&raw const address, true)).or_raise();
        if text.is_null() {
            return format!("object {}", object.to_u32());
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// The schema of a relation.
pub fn schema_of(relation: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up; invalid for a relation that is gone.
    unsafe { pg_sys::get_rel_namespace(relation) }
}

/// The schema of a relation or function; None for other objects and those that are gone.
pub fn schema_of_object(class: pg_sys::Oid, object: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let schema = match class {
        RELATIONS => schema_of(object),
        FUNCTIONS => catalog_oid(FUNCTIONS.to_u32(), PG_PROC_OID_INDEX, object, PRONAMESPACE)?,
        _ => return None,
    };
    (schema != pg_sys::InvalidOid).then_some(schema)
}

/// Name of a schema; None when there is none.
pub fn schema_name(schema: pg_sys::Oid) -> Option<String> {
    namespace_name(schema)
}

/// The type that an altered object of a catalog defines: itself, a composite type's relation, a
/// domain's constraint.
pub fn type_of(class: pg_sys::Oid, object: pg_sys::Oid) -> Option<pg_sys::Oid> {
    match class.to_u32() {
        c if c == PG_TYPE.0 => Some(object),
        // SAFETY: catalog look-ups.
        c if c == PG_CLASS.0 => unsafe {
            let composite = pg_sys::get_rel_relkind(object) as u8 == pg_sys::RELKIND_COMPOSITE_TYPE;
            composite.then(|| pg_sys::get_rel_type_id(object))
        },
        c if c == PG_CONSTRAINT.0 => {
            catalog_oid(PG_CONSTRAINT.0, PG_CONSTRAINT.1, object, CONTYPID)
                .filter(|t| *t != pg_sys::InvalidOid)
        }
        _ => None,
    }
}

/// Whether values of type `outer` contain values of type `inner`, or are such.
pub fn type_contains(outer: pg_sys::Oid, inner: pg_sys::Oid) -> bool {
    outer == inner
        || type_parts(outer)
            .into_iter()
            .any(|part| type_contains(part, inner))
}

/// The types that values of a type are made of: elements, the domain's base, bounds, fields.
fn type_parts(oid: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: catalog look-ups; the descriptor is a copy.
    let mut parts = unsafe {
        let range = pg_sys::get_multirange_range(oid);
        let mut parts = vec![
            pg_sys::get_element_type(oid),
            range,
            pg_sys::get_range_subtype(oid),
        ];
        if pg_sys::get_typtype(oid) as u8 == pg_sys::TYPTYPE_COMPOSITE {
            let descriptor = catch_c(|| lookup_rowtype_tupdesc_copy(oid, -1)).or_raise();
            let fields = major::attributes(descriptor);
            parts.extend(
                fields
                    .iter()
                    .filter(|f| !f.attisdropped)
                    .map(|f| f.atttypid),
            );
            pg_sys::FreeTupleDesc(descriptor);
        }
        parts
    };
    parts.extend(catalog_oid(PG_TYPE.0, PG_TYPE.1, oid, TYPBASETYPE));
    parts.retain(|part| *part != pg_sys::InvalidOid);
    parts
}

/// An oid column of the catalog row of `object`, seen even when this command made it.
fn catalog_oid(catalog: u32, index: u32, object: pg_sys::Oid, column: i16) -> Option<pg_sys::Oid> {
    catalog_row(catalog, index, object, |row| row.get::<pg_sys::Oid>(column))
}

/// The result of `read` for the catalog row of `object`, seen even when this command made it.
fn catalog_row<T>(
    catalog: u32,
    index: u32,
    object: pg_sys::Oid,
    read: impl FnOnce(&Tuple<'_>) -> Option<T>,
) -> Option<T> {
    let relation = Relation::open(pg_sys::Oid::from(catalog), Lock::AccessShare);
    let mut scratch = Scratch::default();
    // SAFETY: one key on the index's only column, of type oid; the tuple is read before the scan
    // ends.
    unsafe {
        let mut key = pg_sys::ScanKeyData::default();
        let equal = pg_sys::BTEqualStrategyNumber as u16;
        pg_sys::ScanKeyInit(
            &mut key,
            1,
            equal,
            pg_sys::F_OIDEQ.into(),
            pg_sys::Datum::from(object),
        );
        let snapshot = &raw mut pg_sys::SnapshotSelfData;
        let scan = pg_sys::systable_beginscan(
            relation.raw(),
            pg_sys::Oid::from(index),
            true,
            snapshot,
            1,
            &mut key,
        );
        let tuple = pg_sys::systable_getnext(scan);
        let found = (!tuple.is_null())
            .then(|| read(&scratch.deform(tuple, relation.descriptor())))
            .flatten();
        pg_sys::systable_endscan(scan);
        found
    }
}

/// The greatest value in the first column of a table, a bigint that the index has alone; None: the
/// table is empty, or missing. Sees the active snapshot, and looks at no rights. Cost: one descent
/// of the index, where a statement would be planned first.
pub fn greatest(schema: &str, table: &str, index: &str) -> Option<i64> {
    let index = relation_named(schema, index)?;
    let table = Relation::open(relation_named(schema, table)?, Lock::AccessShare);
    let mut scratch = Scratch::default();
    // SAFETY: a snapshot is active; the tuple is read before the scan ends, and the index is closed
    // in the frame that opened it.
    unsafe {
        let index = pg_sys::index_open(index, Lock::AccessShare as pg_sys::LOCKMODE);
        let snapshot = pg_sys::GetActiveSnapshot();
        let keys = std::ptr::null_mut();
        let scan = pg_sys::systable_beginscan_ordered(table.raw(), index, snapshot, 0, keys);
        let tuple =
            pg_sys::systable_getnext_ordered(scan, pg_sys::ScanDirection::BackwardScanDirection);
        let found = (!tuple.is_null())
            .then(|| scratch.deform(tuple, table.descriptor()).get::<i64>(1))
            .flatten();
        pg_sys::systable_endscan_ordered(scan);
        pg_sys::index_close(index, Lock::AccessShare as pg_sys::LOCKMODE);
        found
    }
}

/// A relation changed; None: any may have.
pub type Changed = Option<pg_sys::Oid>;

/// Above this, everything is taken as changed.
const CHANGES_MAX: usize = 64;

thread_local! {
    /// Not yet taken; the callback may come at any moment, so it only notes.
    static CHANGES: RefCell<Vec<Changed>> = const { RefCell::new(Vec::new()) };
}

/// A number that no relation has. A message that it changed makes a session look at something else
/// (`session_transaction.rs`).
pub(crate) const NO_RELATION: u32 = 1;

/// PostgreSQL tells that a relation changed; InvalidOid: any may have.
pub(crate) fn relation_changed(relation: pg_sys::Oid) {
    if relation.to_u32() == NO_RELATION {
        return;
    }
    generation::note_relation(relation);
    without_raising("noting a change of a relation", || note_change(relation));
}

fn note_change(relation: pg_sys::Oid) {
    CHANGES.with_borrow_mut(|changes| {
        if relation == pg_sys::InvalidOid || changes.len() >= CHANGES_MAX {
            changes.clear();
            changes.push(None);
        } else if changes.first() != Some(&None) {
            changes.push(Some(relation));
        }
    });
}

/// The changes since the last call.
pub fn take_changes() -> Vec<Changed> {
    CHANGES.with_borrow_mut(std::mem::take)
}

/// Tells every backend, at commit, that `relation` changed; this one at the next command.
pub fn announce_change(relation: pg_sys::Oid) {
    // SAFETY: the relation exists, or this raises.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) }
}
