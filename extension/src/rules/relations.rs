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

/// The schema of opened views.
pub const OPENED_VIEWS: &str = "chainify_open";

/// Why a ledger transaction may not use a relation; None when it may. Which catalogs it may read
/// the determinism checker knows.
pub fn refusal(relation: Oid, access: Access) -> Option<PgError> {
    if is_opened(relation) {
        let name = catalog::display_name(relation);
        let refusal = PgError::new(b"CH004", format!("\"{name}\" shows private values"))
            .detail("Organisations see different rows in it, and a ledger transaction has to do the same everywhere.")
            .hint("Use it in plain SQL, with SET chainify.writes = 'effects'.");
        return Some(refusal);
    }
    let may = tables::owner(relation).is_some()
        || catalog::is_view(relation)
        || access == Access::Read && catalog::is_catalog(relation);
    (!may).then(|| not_on_the_ledger(relation))
}

/// Whether it is the opened view of a table with sealed columns (spec/private.md).
pub fn is_opened(relation: Oid) -> bool {
    catalog::is_view(relation)
        && catalog::schema_name(catalog::schema_of(relation))
            .is_some_and(|schema| schema == OPENED_VIEWS)
}

/// CH004.
pub fn not_on_the_ledger(relation: Oid) -> PgError {
    let table = catalog::display_name(relation);
    PgError::new(b"CH004", format!("table \"{table}\" is not on the ledger"))
        .detail("A ledger transaction may use ledger tables only: what else a database holds differs between organisations.")
        .hint(format!("Put the table on the ledger with SELECT chainify.attach('{table}')."))
}
