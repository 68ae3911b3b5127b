//! Refuses reads of ledger tables while their rows may not be those agreed on, in sessions that ask
//! for it.
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;
use crate::pg::base::settings;
use crate::pg::base::spi::{connected, query};

/// Raises CH008 when `relation` is on the ledger, `chainify.status` says that it is stale and the
/// session wants to know.
///
/// Repair and verification have to read: superusers, whose rights the ledger's own functions
/// have, and the node are not refused. Cost: one question to the node for each ledger table that a
/// statement names.
pub fn refuse_read(relation: Oid) {
    if !settings::refuse_stale_reads() || Role::current().is_member_of("chainify_node") {
        return;
    }
    let Some(table) = tables::owner(relation) else {
        return;
    };
    if is_stale() {
        PgError::new(b"CH008", format!("the rows of table \"{}\" may not be those agreed on", table.name))
            .detail("This organisation's database deviates and is not put right yet; the setting chainify.refuse_stale_reads is on.")
            .hint("Try again later. What was found is shown by chainify.deviations, how the node stands by chainify.status.")
            .raise();
    }
}

fn is_stale() -> bool {
    let mut stale = false;
    Role::bootstrap().run(|| {
        connected(|| {
            query("SELECT stale FROM chainify.status", &[], |row| {
                stale = row.must(1);
            })
        })
    });
    stale
}
