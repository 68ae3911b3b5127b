//! The facts that the order of texts, and of values that hold some, depends on.
use std::ffi::CStr;

use chainify_rules::catalog::{local_collation, BY_BYTES, DEFAULT_COLLATION, OF_USERS};
use pgrx::pg_sys;

use crate::base::major::LOCALE_OF_OTHER_PROVIDERS;

/// Name of the collation when its order depends on the machine's libraries; None for byte order,
/// and for none at all.
pub(crate) fn local(collation: pg_sys::Oid) -> Option<String> {
    local_collation(collation.to_u32(), || match collation.to_u32() {
        DEFAULT_COLLATION => default_collation(),
        _ => name_of(collation),
    })
}

/// Name of the collation whose letters `upper` and `lower` change: "C" where it is none, and empty
/// for one that a user made.
pub(crate) fn letters(collation: pg_sys::Oid) -> String {
    match collation {
        pg_sys::InvalidOid | pg_sys::C_COLLATION_OID => "C".to_owned(),
        of if of.to_u32() == DEFAULT_COLLATION => default_letters(),
        of if of.to_u32() < OF_USERS => name_of(of),
        _ => String::new(),
    }
}

/// As [`local`] of the database's own collation, under which those compare that take none.
pub fn of_database() -> Option<String> {
    local(DEFAULT_COLLATION.into())
}

/// As [`local`], of the order of values of a type, which has `collation` where it is one of texts.
/// Of a record that has no declared columns it is the database's.
///
/// # Safety
/// The oids are those of an analysed expression.
pub(crate) unsafe fn order_of(
    of: pg_sys::Oid,
    typmod: i32,
    collation: pg_sys::Oid,
) -> Option<String> {
    if collation != pg_sys::InvalidOid {
        return local(collation);
    }
    // SAFETY: catalog look-ups of a type that there is; raises when types are nested too deeply.
    unsafe {
        pg_sys::check_stack_depth();
        let of = pg_sys::getBaseType(of);
        let element = pg_sys::get_element_type(of);
        if element != pg_sys::InvalidOid {
            return order_of(element, -1, pg_sys::get_typcollation(element));
        }
        match pg_sys::get_typtype(of) as u8 {
            pg_sys::TYPTYPE_RANGE => {
                let subtype = pg_sys::get_range_subtype(of);
                order_of(subtype, -1, pg_sys::get_range_collation(of))
            }
            pg_sys::TYPTYPE_MULTIRANGE => {
                let range = pg_sys::get_multirange_range(of);
                order_of(range, -1, pg_sys::InvalidOid)
            }
            pg_sys::TYPTYPE_COMPOSITE => order_of_columns(of, typmod),
            _ if of == pg_sys::RECORDOID && typmod >= 0 => order_of_columns(of, typmod),
            _ if of == pg_sys::RECORDOID || of == pg_sys::JSONBOID => of_database(),
            _ => None,
        }
    }
}

unsafe fn order_of_columns(of: pg_sys::Oid, typmod: i32) -> Option<String> {
    // SAFETY: a copy of the description of a row type, with `natts` columns.
    unsafe {
        let description = pg_sys::lookup_rowtype_tupdesc_copy(of, typmod);
        let columns = crate::base::major::attributes(description);
        columns
            .iter()
            .filter(|column| !column.attisdropped)
            .find_map(|c| order_of(c.atttypid, c.atttypmod, c.attcollation))
    }
}

/// Name of the collation when it takes different texts as equal.
pub(crate) fn nondeterministic(collation: pg_sys::Oid) -> Option<String> {
    // SAFETY: a catalog look-up of a collation that a query names.
    let differs = collation != pg_sys::InvalidOid
        && !unsafe { pg_sys::get_collation_isdeterministic(collation) };
    differs.then(|| name_of(collation))
}

fn name_of(collation: pg_sys::Oid) -> String {
    // SAFETY: null or a fresh C string.
    unsafe {
        let name = pg_sys::get_collation_name(collation);
        if name.is_null() {
            return collation.to_u32().to_string();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// The names of the database's own collation and of its letters.
fn default_locale() -> (String, String) {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
    // SAFETY: the row of this session's database, which is copied from before it is released.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(pg_sys::MyDatabaseId));
        if row.is_null() {
            return (String::new(), String::new());
        }
        let text = |column| {
            let mut null = false;
            let value = pg_sys::SysCacheGetAttr(cache, row, column as i16, &raw mut null);
            let text =
                (!null).then(|| CStr::from_ptr(pg_sys::text_to_cstring(value.cast_mut_ptr())));
            text.unwrap_or_default().to_string_lossy().into_owned()
        };
        let database = pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_database>();
        let names = match (*database).datlocprovider as u8 {
            b'c' => (
                text(pg_sys::Anum_pg_database_datcollate),
                text(pg_sys::Anum_pg_database_datctype),
            ),
            of => {
                let icu = if of == b'i' { "icu " } else { "" }; // a C of its own is not by bytes
                let name = format!("{icu}{}", text(LOCALE_OF_OTHER_PROVIDERS));
                (name.clone(), name)
            }
        };
        pg_sys::ReleaseSysCache(row);
        names
    }
}

/// The name of the database's own collation, or of its letters where these are not trusted.
fn default_collation() -> String {
    let (order, letters) = default_locale();
    match BY_BYTES.contains(&letters.as_str()) {
        true => order,
        false => letters,
    }
}

/// The name of the letters of the database's own collation.
fn default_letters() -> String {
    default_locale().1
}
