//! The facts of the catalog about a function.
use std::ffi::CStr;
use std::rc::Rc;

use chainify_rules::catalog::Declared;
use pgrx::pg_sys;

use crate::base::error::PgError;
use crate::base::relation::name_text;
use crate::describe::query_level::Function;

/// `pg_catalog`, and the oids of what initdb makes.
const PG_CATALOG: u32 = 11;
const SQL_LANGUAGE: u32 = 14;
const PG_PROC: u32 = 1255;

/// Raises 42883 when there is no such function (any more).
pub fn function(oid: pg_sys::Oid) -> Rc<Function> {
    // SAFETY: the tuple is a row of pg_proc and is read before it is released; names are C strings.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            PgError::new(
                b"42883",
                format!("function {} does not exist", oid.to_u32()),
            )
            .raise();
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let arguments = std::slice::from_raw_parts(
            form.proargtypes.values.as_ptr(),
            form.proargtypes.dim1 as usize,
        );
        let arguments: Vec<u32> = arguments.iter().map(|a| a.to_u32()).collect();
        let mut without_settings = false;
        pg_sys::SysCacheGetAttr(
            cache,
            tuple,
            pg_sys::Anum_pg_proc_proconfig as i16,
            &mut without_settings,
        );
        // A function that initdb pins belongs to no extension. A look-up scans pg_depend.
        let extension = match oid.to_u32() < pg_sys::FirstUnpinnedObjectId {
            true => pg_sys::InvalidOid,
            false => pg_sys::getExtensionOfObject(PG_PROC.into(), oid),
        };
        let facts = Function::from(Declared {
            oid: oid.to_u32(),
            schema: &text(pg_sys::get_namespace_name(form.pronamespace)),
            name: &name_text(&form.proname),
            built_in: form.pronamespace.to_u32() == PG_CATALOG
                && oid.to_u32() < pg_sys::FirstNormalObjectId,
            language: &text(pg_sys::get_language_name(form.prolang, true)),
            in_sql: form.prolang.to_u32() == SQL_LANGUAGE,
            volatility: form.provolatile as u8,
            kind: form.prokind as u8,
            arguments: &arguments,
            returns_set: form.proretset,
            definer: form.prosecdef,
            settings: !without_settings,
            extension: (extension != pg_sys::InvalidOid)
                .then(|| text(pg_sys::get_extension_name(extension))),
        });
        pg_sys::ReleaseSysCache(tuple);
        Rc::new(facts)
    }
}

/// A function by its oid; raises 42883 when there is none.
pub fn facts(oid: pg_sys::Oid) -> Rc<Function> {
    function(oid)
}

/// Whether a function is written in SQL.
pub fn is_sql(oid: pg_sys::Oid) -> bool {
    // SAFETY: as above; an unknown oid has no row.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return false;
        }
        let language = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>()).prolang;
        pg_sys::ReleaseSysCache(tuple);
        language.to_u32() == SQL_LANGUAGE
    }
}

/// # Safety
/// `name` must be null or a C string.
unsafe fn text(name: *const std::ffi::c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}
