//! The role a session acts as.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

/// PostgreSQL's functions without pgrx's boundary: they raise nothing.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn GetUserIdAndSecContext(user: *mut pg_sys::Oid, context: *mut i32);
        pub(crate) fn SetUserIdAndSecContext(user: pg_sys::Oid, context: i32);
    }
}

/// A role that existed when it was looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Role(pg_sys::Oid);

impl Role {
    /// The current role: the session's, or that of SET ROLE.
    pub fn current() -> Self {
        // SAFETY: reads a variable of the process; a transaction is in progress whenever SQL
        // functions run.
        Role(unsafe { pg_sys::GetUserId() })
    }

    /// The role of the session or of SET ROLE, also inside of a SECURITY DEFINER function.
    pub fn chosen() -> Self {
        // SAFETY: reads a variable of the process.
        Role(unsafe { pg_sys::GetOuterUserId() })
    }

    /// The superuser that the cluster was made with: for what the ledger reads on behalf of roles
    /// that may not.
    pub fn bootstrap() -> Self {
        Role(pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID))
    }

    /// The role `pg_checkpoint`, which is everywhere: it has the rights that everybody has, and may
    /// run CHECKPOINT.
    pub(crate) fn nobody() -> Role {
        Role(pg_sys::Oid::from(pg_sys::ROLE_PG_CHECKPOINT))
    }

    /// The role with an oid from a catalog.
    pub(crate) fn of(oid: pg_sys::Oid) -> Role {
        Role(oid)
    }

    pub(crate) fn oid(self) -> pg_sys::Oid {
        self.0
    }

    /// None when there is no role of this name.
    pub fn find(name: &str) -> Option<Role> {
        let name = CString::new(name).ok()?;
        // SAFETY: a catalog look-up by a C string.
        let oid = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
        (oid != pg_sys::InvalidOid).then_some(Role(oid))
    }

    /// The owner of a table; raises when there is no such table.
    pub fn owner_of(table: pg_sys::Oid) -> Role {
        let relation =
            crate::base::relation::Relation::open(table, crate::base::relation::Lock::AccessShare);
        // SAFETY: held open by `relation`.
        Role(unsafe { (*(*relation.raw()).rd_rel).relowner })
    }

    pub fn name(self) -> String {
        // SAFETY: raises for an unknown role, else returns a palloc'd C string.
        unsafe { CStr::from_ptr(pg_sys::GetUserNameFromId(self.0, false)) }
            .to_string_lossy()
            .into_owned()
    }

    pub fn is_superuser(self) -> bool {
        // SAFETY: a catalog look-up.
        unsafe { pg_sys::superuser_arg(self.0) }
    }

    /// Directly or through other roles. A superuser is a member of every role; false when there is
    /// no such role.
    pub fn is_member_of(self, role: &str) -> bool {
        let Ok(role) = CString::new(role) else {
            return false;
        };
        // SAFETY: catalog look-ups; the name is NUL-terminated and a missing role gives InvalidOid.
        unsafe {
            let role = pg_sys::get_role_oid(role.as_ptr(), true);
            role != pg_sys::InvalidOid && pg_sys::is_member_of_role(self.0, role)
        }
    }

    /// Runs `f` as this role, which can then neither change role nor leave session state behind.
    /// When `f` raises, abort processing puts the caller's role back, so `f` must run in a
    /// (sub)transaction of its own.
    pub fn run<T>(self, f: impl FnOnce() -> T) -> T {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        let restricted =
            pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
        // SAFETY: the saved pair is put back in the same frame.
        unsafe {
            raw::GetUserIdAndSecContext(&mut user, &mut context);
            raw::SetUserIdAndSecContext(self.0, context | restricted as i32);
            let result = f();
            raw::SetUserIdAndSecContext(user, context);
            result
        }
    }
}

/// Whether the statement that runs is a check of a foreign key, or an action of one.
pub fn checks_foreign_keys() -> bool {
    // SAFETY: reads variables of this process. Only such statements pass by FORCE ROW LEVEL
    // SECURITY.
    unsafe { pg_sys::InNoForceRLSOperation() }
}
