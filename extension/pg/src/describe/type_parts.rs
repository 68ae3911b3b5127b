//! The element, range, field and base types of a type.
use std::cell::RefCell;
use std::collections::HashMap;

use chainify_rules::catalog::{is_plain, object_identifier, OF_USERS};
use pgrx::pg_sys;

use crate::base::catalog;

/// The types that count within a type: of elements of an array, columns of a row, bounds of a
/// range, and the base type of a domain.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    /// One whose values are numbers of objects of one database.
    pub object_identifier: Option<&'static str>,
    /// Base types that came with an extension.
    pub(crate) of_users: Vec<pg_sys::Oid>,
}

thread_local! {
    /// By type, as of a generation of the catalog.
    static KNOWN: RefCell<(u64, HashMap<u32, Parts>)> = RefCell::default();
}

/// The parts of a type, with the modifier that says which row type a record has. None of the plain
/// types that most values have.
///
/// # Safety
/// The type must be one of an analysed expression.
pub(crate) unsafe fn parts(of: pg_sys::Oid, typmod: i32) -> Option<Parts> {
    if is_plain(of.to_u32()) {
        return None;
    }
    let generation = catalog::generation();
    let known = KNOWN.with_borrow_mut(|(of_generation, known)| {
        if *of_generation != generation {
            (*of_generation, *known) = (generation, HashMap::new());
        }
        known.get(&of.to_u32()).cloned()
    });
    if known.is_some() {
        return known;
    }
    let mut parts = Parts::default();
    // SAFETY: by the caller's promise.
    unsafe { add(&mut parts, of, typmod) };
    if of != pg_sys::RECORDOID {
        KNOWN.with_borrow_mut(|(_, known)| known.insert(of.to_u32(), parts.clone()));
    }
    Some(parts)
}

unsafe fn add(parts: &mut Parts, of: pg_sys::Oid, typmod: i32) {
    if let Some(name) = object_identifier(of.to_u32()) {
        parts.object_identifier.get_or_insert(name);
    }
    // SAFETY: catalog look-ups of a type that there is; raises when types are nested too deeply.
    unsafe {
        pg_sys::check_stack_depth();
        let base = pg_sys::getBaseType(of);
        let element = pg_sys::get_element_type(base);
        match pg_sys::get_typtype(base) as u8 {
            _ if base != of => add(parts, base, -1),
            _ if element != pg_sys::InvalidOid => add(parts, element, -1),
            pg_sys::TYPTYPE_RANGE => add(parts, pg_sys::get_range_subtype(base), -1),
            pg_sys::TYPTYPE_MULTIRANGE => add(parts, pg_sys::get_multirange_range(base), -1),
            pg_sys::TYPTYPE_COMPOSITE => add_columns(parts, base, -1),
            _ if base == pg_sys::RECORDOID && typmod >= 0 => add_columns(parts, base, typmod),
            pg_sys::TYPTYPE_BASE if base.to_u32() >= OF_USERS => parts.of_users.push(base),
            _ => (),
        }
    }
}

unsafe fn add_columns(parts: &mut Parts, of: pg_sys::Oid, typmod: i32) {
    // SAFETY: a copy of the description of a row type, with `natts` columns.
    unsafe {
        let description = pg_sys::lookup_rowtype_tupdesc_copy(of, typmod);
        let columns = crate::base::major::attributes(description);
        for column in columns.iter().filter(|column| !column.attisdropped) {
            add(parts, column.atttypid, column.atttypmod);
        }
    }
}
