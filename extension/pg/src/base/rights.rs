//! The rights of a role on a table, as PostgreSQL's executor asks for them.
use pgrx::pg_sys;

use crate::base::error::catch_c;
use crate::base::error::PgError;
use crate::base::role::Role;

const GRANTED: u32 = pg_sys::AclResult::ACLCHECK_OK;

/// Whether a role may read these columns of a table, and all of its rows: no policy of row-level
/// security applies to the role. Err: there is no such table.
pub fn may_read_all_rows(role: Role, table: pg_sys::Oid, columns: &[i16]) -> Result<bool, PgError> {
    let select = pg_sys::ACL_SELECT as pg_sys::AclMode;
    // SAFETY: catalog look-ups.
    unsafe {
        catch_c(|| {
            let on_column = |column: &i16| {
                pg_sys::pg_attribute_aclcheck(table, *column, role.oid(), select) == GRANTED
            };
            let on_all = pg_sys::pg_class_aclcheck(table, role.oid(), select) == GRANTED;
            (on_all || columns.iter().all(on_column))
                && pg_sys::check_enable_rls(table, role.oid(), true)
                    != pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
        })
    }
}

/// The part of a table that a role may read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayRead {
    /// Every row with every column.
    All,
    /// Not every column, or nothing.
    No,
    /// Row-level security hides rows.
    SomeRows,
}

/// The part of a table that a role may read by rights on the whole of it. Err: there is no such
/// table.
pub(crate) fn may_read(role: Role, table: pg_sys::Oid) -> Result<MayRead, PgError> {
    let select = pg_sys::ACL_SELECT as pg_sys::AclMode;
    // SAFETY: catalog look-ups.
    unsafe {
        catch_c(|| {
            if pg_sys::pg_class_aclcheck(table, role.oid(), select) != GRANTED {
                return MayRead::No;
            }
            match pg_sys::check_enable_rls(table, role.oid(), true)
                == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
            {
                true => MayRead::SomeRows,
                false => MayRead::All,
            }
        })
    }
}
