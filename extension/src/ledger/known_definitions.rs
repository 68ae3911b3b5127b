//! The objects and roles that DEPLOY transactions put under the ledger.
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::catalog::relation_named;
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::ddl::targets::Address;

/// An object under the ledger.
pub struct Known {
    pub class: Oid,
    pub object: Oid,
    pub kind: String,
    pub identity: String,
}

/// Everything under the ledger. Cost: one scan of a table with a row per object; only for
/// statements that change definitions.
pub fn known() -> Vec<Known> {
    let mut known = Vec::new();
    if !tables::is_own() {
        return known;
    }
    if let Some(list) = relation_named("chainify_ledger", "definition") {
        Relation::open(list, Lock::AccessShare).scan(|row| {
            let columns = (row.get(1), row.get(2), row.get(3), row.get(4));
            if let (Some(class), Some(object), Some(kind), Some(identity)) = columns {
                known.push(Known {
                    class,
                    object,
                    kind,
                    identity,
                });
            }
        });
    }
    known
}

/// Whether a DEPLOY transaction made, altered or granted on the object. Cost: that of [`known`].
pub fn knows(object: Address) -> bool {
    let same = |k: &Known| (k.class, k.object) == (object.class, object.object);
    known().iter().any(same)
}

/// Whether a DEPLOY transaction named the role.
pub fn governs(role: &str) -> bool {
    let mut found = false;
    if let Some(list) = relation_named("chainify_ledger", "governed_role") {
        Relation::open(list, Lock::AccessShare)
            .scan(|row| found |= row.get::<String>(1).as_deref() == Some(role));
    }
    found
}
