//! A ledger in a database that pg_restore made. Its objects have other OIDs here than those in the
//! ledger's rows. So the ledger stays closed until it is adopted.
//!
//! Invariant R10: the ledger is closed until each object that its rows name by OID was found by
//! name.
//!
//! The row of `chainify_ledger.here` tells the two apart, because no dump contains it: without it
//! the blocks were executed in another database.
use crate::pg::base::backend::unrecorded;
use crate::pg::base::spi::SpiClient;

use crate::ledger::tables;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::spi::{connected, query};

crate::pg::sql_function!(
    chainify_adopt_restored,
    pg_finfo_chainify_adopt_restored,
    adopt_restored
);

crate::pg::sql_function!(
    chainify_refuse_restored,
    pg_finfo_chainify_refuse_restored,
    refuse_restored
);

/// The error of a closed ledger: SQLSTATE 55000, with a hint how to adopt it.
pub fn refusal() -> PgError {
    PgError::new(
        b"55000",
        "this ledger was restored from a dump and is not adopted",
    )
    .detail("Until then its tables are closed, and no block is executed.")
    .hint("As superuser: SELECT chainify.adopt_restored().")
}

/// Whether blocks are there that were not executed in this database.
fn is(client: &SpiClient<'_>, sees: Sees) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM chainify_ledger.block) AND NOT EXISTS (SELECT FROM chainify_ledger.here)";
    Cursor::open(client, sees, sql, &[])
        .next_row()
        .and_then(|row| row.boolean(1))
        .unwrap_or_default()
}

/// Raises 55000 when the ledger was restored and is not adopted.
pub fn refuse(client: &SpiClient<'_>, sees: Sees) {
    if is(client, sees) {
        refusal().raise();
    }
}

/// `chainify_ledger.refuse_restored()`, for functions in SQL.
fn refuse_restored(call: &mut Call) -> Answer {
    spi::connect(|client| refuse(client, Sees::Latest));
    call.void()
}

/// Called before the block after `last`. The first block makes the ledger this database's own; any
/// other block must find that it is. Needs [`connected`].
pub fn check(last: i64, own: bool) {
    match (own, last) {
        (true, _) => (),
        (false, 0) => make_own(),
        (false, _) => refusal().raise(),
    }
}

/// Marks the blocks of this database as its own.
pub fn make_own() {
    query(
        "INSERT INTO chainify_ledger.here DEFAULT VALUES",
        &[],
        |_| (),
    );
    tables::announce_change();
}

/// `chainify.adopt_restored(organisation)`; contract in spec/sql-api.md. Cost: linear in the number
/// of tables and definitions; reads no rows.
fn adopt_restored(call: &mut Call) -> Answer {
    if !Role::current().is_superuser() {
        PgError::new(b"42501", "must be superuser to adopt a restored ledger").raise();
    }
    let organisation = call.arg::<String>(0);
    unrecorded(|| {
        connected(|| {
            query(
                "LOCK TABLE chainify_ledger.block IN SHARE ROW EXCLUSIVE MODE",
                &[],
                |_| (),
            );
            if !spi::connect(|client| is(client, Sees::Latest)) {
                PgError::new(b"55000", "there is no restored ledger to adopt")
                    .detail("This database has no block, or executed its blocks itself.")
                    .raise();
            }
            let adopt = "SELECT chainify_ledger.adopt($1)";
            query(adopt, &[cell::<String>(organisation)], |_| ());
            make_own();
        })
    });
    call.void()
}
