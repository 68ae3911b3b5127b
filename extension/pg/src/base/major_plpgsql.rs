//! The differences between majors of PostgreSQL in PL/pgSQL; [`major`](super::major) has others.
use pgrx::pg_sys;

/// The number of uses of a compiled function. 18 keeps it with other facts.
///
/// # Safety
/// `function` must be one that PL/pgSQL compiled; nothing else may use the number meanwhile.
pub(crate) unsafe fn uses_of<'f>(function: *mut pg_sys::PLpgSQL_function) -> &'f mut Uses {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return &mut (*function).use_count;
        #[cfg(feature = "pg18")]
        return &mut (*function).cfunc.use_count;
    }
}

/// The transaction that made the row of `pg_proc` that a function was compiled from, by which
/// PL/pgSQL finds it current. 18 keeps it with other facts.
///
/// # Safety
/// As for [`uses_of`].
pub(crate) unsafe fn row_of<'f>(
    function: *mut pg_sys::PLpgSQL_function,
) -> (&'f mut pg_sys::TransactionId, pg_sys::ItemPointerData) {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return (&mut (*function).fn_xmin, (*function).fn_tid);
        #[cfg(feature = "pg18")]
        return (&mut (*function).cfunc.fn_xmin, (*function).cfunc.fn_tid);
    }
}

#[cfg(not(feature = "pg18"))]
pub(crate) type Uses = std::ffi::c_ulong;
#[cfg(feature = "pg18")]
pub(crate) type Uses = u64;

/// The item of GET DIAGNOSTICS that is the number of the function, since 16.
pub(crate) const GETS_ROUTINE: Option<pg_sys::PLpgSQL_getdiag_kind::Type> = {
    #[cfg(feature = "pg15")]
    let kind = None;
    #[cfg(not(feature = "pg15"))]
    let kind = Some(pg_sys::PLpgSQL_getdiag_kind::PLPGSQL_GETDIAG_ROUTINE_OID);
    kind
};

/// Whether a role may name the objects of a schema.
///
/// # Safety
/// A transaction must be in progress. To be called where an ERROR may be raised.
pub(crate) unsafe fn may_name(schema: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    let mode = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: a catalog look-up, by the caller's promise.
    let checked = unsafe {
        #[cfg(feature = "pg15")]
        let checked = pg_sys::pg_namespace_aclcheck(schema, role, mode);
        #[cfg(not(feature = "pg15"))]
        let checked = pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, role, mode);
        checked
    };
    checked == pg_sys::AclResult::ACLCHECK_OK
}
