//! Compares the version of the extension's SQL objects with that of this library, which works with
//! no other version.
use std::cell::Cell;

use pgrx::pg_sys;

use crate::base::error::PgError;
use crate::base::relation::{Lock, Relation};

/// Of this library, and of the objects that it knows: `default_version` of the control file.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Columns of pg_extension.
const NUMBER: i16 = 1;
const VERSION: i16 = 6;

thread_local! {
    /// The transaction that found the objects to be of this version; zero: one that had changed
    /// nothing, so that what it found was committed.
    static FOUND_BY: Cell<Option<pg_sys::TransactionId>> = const { Cell::new(None) };
}

/// Errors: 55000 while the objects in this database are of another version. Cost: a scan of
/// pg_extension, once in a session; that they differ is not kept.
pub fn check() -> Result<(), PgError> {
    // SAFETY: a look at this process's transaction.
    let now = unsafe { pg_sys::GetTopTransactionIdIfAny() };
    let committed = pg_sys::InvalidTransactionId;
    if FOUND_BY
        .get()
        .is_some_and(|found_by| found_by == committed || found_by == now)
    {
        return Ok(());
    }
    match installed() {
        Some(version) if version != OWN => Err(other(&version)),
        _ => {
            FOUND_BY.set(Some(now));
            Ok(())
        }
    }
}

fn other(version: &str) -> PgError {
    PgError::new(
        b"55000",
        format!("extension chainify is of version {version} in this database, and its library is of {OWN}"),
    )
    .detail("Reads go on. Nothing is submitted and no block is executed until both are of one version.")
    .hint("As superuser, in this database: ALTER EXTENSION chainify UPDATE")
}

/// The version of the objects; None without the extension.
fn installed() -> Option<String> {
    // SAFETY: a catalog look-up by a C string; zero for an extension that is not there.
    let chainify = unsafe { pg_sys::get_extension_oid(c"chainify".as_ptr(), true) };
    let mut version = None;
    Relation::open(pg_sys::ExtensionRelationId, Lock::AccessShare).scan(|row| {
        if row.get(NUMBER) == Some(chainify) {
            version = row.get(VERSION);
        }
    });
    version
}
