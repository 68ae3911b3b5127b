//! The role a session acts as.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

/// A role that existed when it was looked up.
#[derive(Clone, Copy)]
pub struct Role(pg_sys::Oid);

impl Role {
    /// The current role: the session's, or that of SET ROLE.
    pub fn current() -> Self {
        // SAFETY: reads a variable of the process; a transaction is in progress whenever SQL functions run.
        Role(unsafe { pg_sys::GetUserId() })
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

    /// Directly or through other roles. A superuser is a member of every role; false when there is no such role.
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
}
