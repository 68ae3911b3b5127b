//! The relations that a statement names, and the rights on them that it needs.
//!
//! In PostgreSQL 15 the range table has both, and a view has an entry of its own beside that of its
//! query. PostgreSQL 16 moved the rights into a separate list, and the entry of a view's query
//! names the view.
use pgrx::pg_sys;

use crate::base::lists::nodes;

/// How a statement uses a relation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// The access for which the executor wants the rights.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    tables: *mut pg_sys::List,
    #[cfg(not(feature = "pg15"))]
    rights: *mut pg_sys::List,
}

const WRITE: u32 = pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE;

mod raw {
    use super::pg_sys;
    #[cfg(feature = "pg15")]
    c_functions! {
        pub(crate) fn ExecCheckRTPerms(tables: *mut pg_sys::List, raise: bool) -> bool;
    }
    #[cfg(not(feature = "pg15"))]
    c_functions! {
        pub(crate) fn ExecCheckPermissions(
            tables: *mut pg_sys::List,
            rights: *mut pg_sys::List,
            raise: bool,
        ) -> bool;
    }
}

/// Whether an entry of a range table names a relation, which is locked with its plan.
pub(crate) fn names_relation(entry: &pg_sys::RangeTblEntry) -> bool {
    use pg_sys::RTEKind::*;
    match entry.rtekind {
        RTE_RELATION => true,
        RTE_SUBQUERY => cfg!(not(feature = "pg15")) && entry.relid != pg_sys::InvalidOid,
        _ => false,
    }
}

impl Asked {
    /// The relations named.
    ///
    /// # Safety
    /// The lists must be of one statement.
    pub(crate) unsafe fn relations(self) -> impl Iterator<Item = (pg_sys::Oid, Access)> {
        // SAFETY: a range table has entries alone.
        let entries = unsafe { nodes(self.tables) }.map(|e| unsafe { e.cast().as_ref() });
        let named = entries.filter(|entry| names_relation(entry));
        // SAFETY: by the caller's promise.
        named.map(move |entry| match unsafe { self.writes(entry) } {
            true => (entry.relid, Access::Write),
            false => (entry.relid, Access::Read),
        })
    }
}

#[cfg(feature = "pg15")]
impl Asked {
    /// Of a statement, by its range table.
    pub(crate) fn of(tables: *mut pg_sys::List) -> Self {
        Asked { tables }
    }

    /// # Safety
    /// As for [`Asked::relations`].
    unsafe fn writes(self, entry: &pg_sys::RangeTblEntry) -> bool {
        entry.requiredPerms & WRITE != 0
    }

    /// The answer of the hook behind ours.
    ///
    /// # Safety
    /// As for [`Asked::relations`].
    pub(crate) unsafe fn told(self, next: Next, raise: bool) -> bool {
        // SAFETY: by the caller's promise.
        next.is_none_or(|next| unsafe { next(self.tables, raise) })
    }
}

#[cfg(not(feature = "pg15"))]
impl Asked {
    /// Of a statement, by its range table and the rights that it wants.
    pub(crate) fn of(tables: *mut pg_sys::List, rights: *mut pg_sys::List) -> Self {
        Asked { tables, rights }
    }

    /// # Safety
    /// As for [`Asked::relations`].
    unsafe fn writes(self, entry: &pg_sys::RangeTblEntry) -> bool {
        // Counted from 1; 0 where nothing is asked, as of a partition.
        let Some(at) = (entry.perminfoindex as usize).checked_sub(1) else {
            return false;
        };
        // SAFETY: by the caller's promise, the list has as many elements as the entries point to.
        let info = unsafe { nodes(self.rights).nth(at) };
        info.is_some_and(|info| {
            // SAFETY: as above.
            let info = unsafe { info.cast::<pg_sys::RTEPermissionInfo>().as_ref() };
            info.requiredPerms & pg_sys::AclMode::from(WRITE) != 0
        })
    }

    /// The answer of the hook behind ours.
    ///
    /// # Safety
    /// As for [`Asked::relations`].
    pub(crate) unsafe fn told(self, next: Next, raise: bool) -> bool {
        // SAFETY: by the caller's promise.
        next.is_none_or(|next| unsafe { next(self.tables, self.rights, raise) })
    }
}

type Next = pg_sys::ExecutorCheckPerms_hook_type;

/// Declares an `ExecutorCheckPerms_hook` that passes what is asked to a function as an [`Asked`];
/// the answer is the hook's.
macro_rules! permissions_hook {
    ($hook:ident, $on_permissions:path) => {
        #[cfg(feature = "pg15")]
        unsafe extern "C-unwind" fn $hook(tables: *mut pg_sys::List, raise: bool) -> bool {
            // SAFETY: the executor passes the range table of a statement.
            unsafe { $on_permissions($crate::describe::relation_use::Asked::of(tables), raise) }
        }

        #[cfg(not(feature = "pg15"))]
        unsafe extern "C-unwind" fn $hook(
            tables: *mut pg_sys::List,
            rights: *mut pg_sys::List,
            raise: bool,
        ) -> bool {
            let asked = $crate::describe::relation_use::Asked::of(tables, rights);
            // SAFETY: the executor passes both lists of one statement.
            unsafe { $on_permissions(asked, raise) }
        }
    };
}
pub(crate) use permissions_hook;

/// Checks the current role's rights as the executor does. Raises when one is missing.
///
/// # Safety
/// Only where an ERROR may be raised.
pub(crate) unsafe fn check(statement: &pg_sys::PlannedStmt) {
    // SAFETY: by the caller's promise; the lists are of one statement.
    unsafe {
        #[cfg(feature = "pg15")]
        raw::ExecCheckRTPerms(statement.rtable, true);
        #[cfg(not(feature = "pg15"))]
        raw::ExecCheckPermissions(statement.rtable, statement.permInfos, true);
    }
}
