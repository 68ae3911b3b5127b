//! The relations that a ledger transaction may use.
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::PgError;
use crate::pg::hooks::Access;

/// Schemas whose objects only the extension changes.
pub const OWN_SCHEMAS: [&str; 4] = [
    "chainify_ledger",
    "chainify_history",
    "chainify_checkpoint",
    "chainify_initial",
];

/// Why a ledger transaction may not use a relation; None when it may. Which catalogs it may read
/// the determinism checker knows.
pub fn refusal(relation: Oid, access: Access) -> Option<PgError> {
    let may = tables::owner(relation).is_some()
        || catalog::is_view(relation)
        || access == Access::Read && catalog::is_catalog(relation);
    (!may).then(|| not_on_the_ledger(relation))
}

/// CH004.
pub fn not_on_the_ledger(relation: Oid) -> PgError {
    let table = catalog::display_name(relation);
    PgError::new(b"CH004", format!("table \"{table}\" is not on the ledger"))
        .detail("A ledger transaction may use ledger tables only: what else a database holds differs between organisations.")
        .hint(format!("Put the table on the ledger with SELECT chainify.attach('{table}')."))
}
