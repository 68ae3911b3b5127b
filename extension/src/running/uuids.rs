//! `chainify.uuid`: UUIDs that follow from the id of the transaction.
use chainify_codec::{transaction_uuid, Hash};

use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{Answer, Call};
use crate::running::block_state::block;

crate::pg::sql_function!(chainify_uuid, pg_finfo_chainify_uuid, uuid);

/// Starts the UUIDs of the transaction `id`.
pub fn seed_uuid(id: &Hash) {
    block(|block| block.uuids.set((*id, 0)));
}

/// `chainify.uuid`: the next UUID of the transaction; 55000 outside of a block.
fn uuid(call: &mut Call) -> Answer {
    if !matches!(phase(), Phase::Client { .. }) {
        PgError::new(
            b"55000",
            "chainify.uuid() can be called in a ledger transaction only",
        )
        .detail("Its result follows from the transaction's id.")
        .hint("Outside of the ledger use gen_random_uuid().")
        .raise();
    }
    let (id, counter) = block(|block| {
        let (id, counter) = block.uuids.get();
        block.uuids.replace((id, counter + 1))
    });
    call.value(pgrx::Uuid::from_bytes(transaction_uuid(&id, counter)))
}
