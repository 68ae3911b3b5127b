//! The end of a block. The reports of its parts become the running state of the tables and a
//! LedgerBlock, in the database transaction that also has the effects (L3).
use chainify_codec::Hash;
use chainify_ledger::foundation::Deploy;
use chainify_ledger::messages::Kind;
use chainify_ledger::parts::Net;
use chainify_ledger::receipt::transaction_path;
use chainify_ledger::{seal, tx_root, LedgerBlock};

use crate::ledger::checkpoints;
use crate::ledger::deployed;
use crate::ledger::outcome::Outcome;
use crate::ledger::running_state::{change_states, root_of, states};
use crate::pg::base::catalog::relation_named;
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::run::bulk::BulkInsert;
use crate::planned;
use crate::running::request::Request;

/// A block that has run, in one part or several.
pub struct Ran {
    /// In block order.
    pub outcomes: Vec<Outcome>,
    pub effects_root: Hash,
    pub effects_count: u32,
    /// Of all parts.
    pub nets: Vec<Net>,
    /// The effects of each transaction, when the request asks for it.
    pub transaction_effects: Option<Vec<Hash>>,
    /// Parts that workers hold open.
    pub workers: usize,
}

/// Writes states and LedgerBlock, and returns the latter. Cost: per ledger table one SHA-256 over
/// its lanes.
pub fn seal(request: &Request, ran: &Ran) -> LedgerBlock {
    let mut states = states();
    change_states(&mut states, &ran.nets);
    let succeeded: Vec<bool> = ran.outcomes.iter().map(Outcome::is_ok).collect();
    let block = LedgerBlock {
        chain_id: request.chain_id.clone(),
        number: request.number as u64,
        order_height: request.order_height as u64,
        block_time: request.block_time,
        tx_root: root_of_ids(request),
        outcomes: seal::outcomes(&succeeded),
        effects_root: ran.effects_root,
        effects_count: ran.effects_count,
        state_root: root_of(&states),
        previous: request.previous,
    };
    write_block(&block);
    let kinds = request.transactions.iter().map(|t| t.proposal.kind);
    let deployed = seal::deploys(kinds, &succeeded) || planned::attached();
    if deployed {
        keep_deployed(request, &succeeded);
    }
    checkpoints::at_seal(request.number, deployed);
    block
}

/// Keeps the DEPLOY transactions that succeeded, for organisations that join.
fn keep_deployed(request: &Request, succeeded: &[bool]) {
    let ids = ids(request);
    for (at, transaction) in request.transactions.iter().enumerate() {
        let index = request.indices[at];
        let path = match transaction.kind() == Kind::Deploy && succeeded[at] {
            true => transaction_path(&ids, index),
            false => None,
        };
        if let Some(path) = path {
            deployed::keep(&Deploy {
                block: request.number as u64,
                index,
                path,
                body: request.bodies[at],
            });
        }
    }
}

fn ids(request: &Request) -> Vec<Hash> {
    request.transactions.iter().map(|t| t.id).collect()
}

/// The root over the ids of the block's transactions.
pub fn root_of_ids(request: &Request) -> Hash {
    tx_root(&ids(request))
}

/// The row of a block.
pub fn write_block(block: &LedgerBlock) {
    write_blocks(std::slice::from_ref(block));
}

/// The rows of blocks.
pub fn write_blocks(blocks: &[LedgerBlock]) {
    let Some(relation) = relation_named("chainify_ledger", "block") else {
        PgError::new(b"55000", "chainify_ledger.block is not in this database").raise()
    };
    let mut rows = BulkInsert::open(relation);
    for block in blocks {
        rows.row(|row| {
            row.push(cell(block.number as i64));
            row.push(cell(block.order_height as i64));
            row.push(cell(block.block_time));
            row.push(cell(&block.tx_root[..]));
            row.push(cell(block.outcomes.count() as i32));
            row.push(cell(block.outcomes.as_bytes()));
            row.push(cell(&block.effects_root[..]));
            row.push(cell(block.effects_count as i32));
            row.push(cell(&block.state_root[..]));
            row.push(cell(&block.previous[..]));
            row.push(cell(&block.hash()[..]));
        });
    }
    rows.finish();
}
