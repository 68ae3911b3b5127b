//! `chainify.uuid`: UUIDs that follow from the id of the transaction.
use std::cell::Cell;

use chainify_codec::{transaction_uuid, Hash};

use crate::ledger::session;
use crate::ledger::session::Mode;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{Answer, Call};

crate::sql_function!(chainify_uuid, pg_finfo_chainify_uuid, uuid);

thread_local! {
    /// The transaction being run, and how many UUIDs it took.
    static DRAWN: Cell<(Hash, u64)> = const { Cell::new(([0; 32], 0)) };
}

/// Starts the UUIDs of the transaction `id`.
pub fn seed_uuid(id: &Hash) {
    DRAWN.set((*id, 0));
}

/// `chainify.uuid`: the next UUID of the transaction; 55000 outside of a block.
fn uuid(call: &mut Call) -> Answer {
    if !matches!(session::mode(), Mode::Client { .. }) {
        PgError::new(
            b"55000",
            "chainify.uuid() can be called in a ledger transaction only",
        )
        .detail("Its result follows from the transaction's id.")
        .hint("Outside of the ledger use gen_random_uuid().")
        .raise();
    }
    let (id, counter) = DRAWN.get();
    DRAWN.set((id, counter + 1));
    call.value(pgrx::Uuid::from_bytes(transaction_uuid(&id, counter)))
}
