//! Plans of the ledger's own SQL over users' tables (invariant X11).
//!
//! The planner evaluates constant parts of CHECK constraints, and of the expressions and conditions
//! of indexes and statistics. So it may call functions of the table's owner as the current role,
//! which is a superuser in the ledger's own SQL. Here the planner runs as the owner instead, in a
//! context in which the owner's code can change nothing. The statement was analysed before and runs
//! afterwards, both as the current role.
use std::ptr::{null_mut, NonNull};

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};
use crate::base::own_search_path::{is_under_way, with_setting};
use crate::base::role::Role;

extern "C-unwind" {
    fn find_all_inheritors(
        relation: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
}

/// The role to plan a query as; None: the current one. Cost: some look-ups for own SQL alone, when
/// it is planned.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(super) unsafe fn planner_of(query: NonNull<pg_sys::Query>) -> Option<Role> {
    if !is_under_way() || !Role::current().is_superuser() {
        return None;
    }
    let (mut relations, mut items, mut policies) = (null_mut(), null_mut(), false);
    // SAFETY: by the caller's promise; the lists are of oids, and of what is not looked at.
    let relations = unsafe {
        let (to, items_to) = (&raw mut relations, &raw mut items);
        pg_sys::extract_query_dependencies(query.as_ptr().cast(), to, items_to, &mut policies);
        oids(relations)
    };
    let of_users = |oid: &pg_sys::Oid| oid.to_u32() >= pg_sys::FirstNormalObjectId;
    let mut owners: Vec<Role> = Vec::new();
    for relation in relations.into_iter().filter(of_users) {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        // SAFETY: the planner locks these as well; partitions may have other owners.
        let parts =
            unsafe { oids(catch_c(|| find_all_inheritors(relation, lock, null_mut())).or_raise()) };
        let of_parts = parts.into_iter().map(Role::owner_of);
        owners.extend(of_parts.filter(|owner| !owner.is_superuser()));
    }
    let one = *owners.first()?;
    Some(match owners.iter().all(|owner| *owner == one) {
        true => one,
        false => Role::nobody(), // none of them may act as another
    })
}

/// Has `plan` work as this role. It compares no CHECK constraints with conditions: partitions are
/// told apart by their bounds.
pub(super) fn planned_as<T>(role: Role, plan: impl FnOnce() -> T) -> T {
    with_setting(c"constraint_exclusion", c"off", || role.run(plan))
}

/// # Safety
/// `list` must be null or a list of oids.
unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: by the caller's promise.
    unsafe {
        let Some(list) = list.as_ref() else {
            return Vec::new();
        };
        let elements = std::slice::from_raw_parts(list.elements, list.length as usize);
        elements.iter().map(|cell| cell.oid_value).collect()
    }
}
