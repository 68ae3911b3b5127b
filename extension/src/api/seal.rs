//! The end of a block: what its parts report becomes the running state of the tables and a LedgerBlock.
use std::collections::BTreeMap;

use chainify_codec::{state_root, table_state, Hash, Lanes, DEFINITIONS};
use chainify_ledger::messages::Kind;
use chainify_ledger::parts::Net;
use chainify_ledger::{tx_root, LedgerBlock, Outcomes};

use super::checkpoint;
use super::execute::Request;
use super::transaction::Outcome;
use crate::pg::error::PgError;
use crate::pg::function::cell;
use crate::pg::spi::query;

/// A block that has run, in one part or several.
pub struct Ran {
    /// In block order.
    pub outcomes: Vec<Outcome>,
    pub effects_root: Hash,
    pub effects_count: u32,
    /// Of all parts.
    pub nets: Vec<Net>,
    /// What each transaction did, when the request asks for it.
    pub transaction_effects: Option<Vec<Hash>>,
    /// Parts that workers hold open.
    pub workers: usize,
}

/// Writes states and LedgerBlock, and returns the latter. Cost: per ledger table one SHA-256 over its lanes.
pub fn seal(request: &Request, ran: &Ran) -> LedgerBlock {
    write_states(&ran.nets);
    let mut bitmap = Outcomes::failed(ran.outcomes.len() as u32);
    for (i, _) in ran.outcomes.iter().enumerate().filter(|(_, o)| o.is_ok()) {
        bitmap.succeed(i as u32);
    }
    let block = LedgerBlock {
        chain_id: request.chain_id.clone(),
        number: request.number as u64,
        order_height: request.order_height as u64,
        block_time: request.block_time,
        tx_root: root_of_ids(request),
        outcomes: bitmap,
        effects_root: ran.effects_root,
        effects_count: ran.effects_count,
        state_root: current_state_root(),
        previous: request.previous,
    };
    write_block(&block);
    checkpoint::at_seal(request.number, deploys(request, &ran.outcomes));
    block
}

fn deploys(request: &Request, outcomes: &[Outcome]) -> bool {
    let succeeded = request
        .transactions
        .iter()
        .zip(outcomes)
        .filter(|(_, o)| o.is_ok());
    succeeded
        .into_iter()
        .any(|(t, _)| t.proposal.kind == Kind::Deploy as i32)
}

/// The root over the ids of the block's transactions.
pub fn root_of_ids(request: &Request) -> Hash {
    let ids: Vec<Hash> = request.transactions.iter().map(|t| t.id).collect();
    tx_root(&ids)
}

/// The sum over all parts, by table.
fn sum(nets: &[Net]) -> BTreeMap<i32, (Lanes, i64)> {
    let mut sums: BTreeMap<i32, (Lanes, i64)> = BTreeMap::new();
    for net in nets {
        let Some(lanes) = Lanes::from_bytes(&net.lanes) else {
            PgError::new(b"XX001", "lanes of a part are malformed").raise()
        };
        let (sum, rows) = sums.entry(net.table_id).or_default();
        sum.merge(&lanes);
        *rows += net.rows;
    }
    sums
}

fn write_states(nets: &[Net]) {
    for (id, (net, rows)) in sum(nets) {
        let mut lanes = None;
        query(
            "SELECT lanes FROM chainify_ledger.table_state WHERE table_id = $1",
            &[cell(id)],
            |row| {
                lanes = Lanes::from_bytes(&row.must::<Vec<u8>>(1));
            },
        );
        let Some(mut lanes) = lanes else { continue }; // detached in this block
        lanes.merge(&net);
        let bytes = lanes.to_bytes();
        let args = [cell(id), cell(rows), cell(&bytes[..])];
        query("UPDATE chainify_ledger.table_state SET row_count = row_count + $2, lanes = $3 WHERE table_id = $1", &args, |_| ());
    }
}

/// The state root over what `table_state` holds now.
pub fn current_state_root() -> Hash {
    let mut states: Vec<(String, Hash)> = Vec::new();
    query(
        "SELECT t.name, t.schema_hash, s.row_count, s.lanes FROM chainify_ledger.ledger_table t
         JOIN chainify_ledger.table_state s ON s.table_id = t.id WHERE t.detached_at IS NULL",
        &[],
        |row| {
            let name: String = row.must(1);
            let (Ok(schema), Some(lanes)) = (
                Hash::try_from(row.must::<Vec<u8>>(2)),
                Lanes::from_bytes(&row.must::<Vec<u8>>(4)),
            ) else {
                PgError::new(
                    b"XX001",
                    format!("running state of ledger table \"{name}\" is malformed"),
                )
                .raise()
            };
            let state = table_state(&name, &schema, row.must::<i64>(3) as u64, &lanes);
            states.push((name, state));
        },
    );
    if let Some(hash) = definitions() {
        states.push((DEFINITIONS.to_owned(), hash));
    }
    state_root(states.iter().map(|(name, state)| (name.as_str(), *state)))
}

/// The hash of the definitions; None before the first DEPLOY of statements.
fn definitions() -> Option<Hash> {
    let mut found = None;
    query("SELECT hash FROM chainify_ledger.definitions", &[], |row| {
        let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>(1)) else {
            PgError::new(b"XX001", "hash of the definitions is malformed").raise()
        };
        found = Some(hash);
    });
    found
}

fn write_block(block: &LedgerBlock) {
    let args = [
        cell(block.number as i64),
        cell(block.order_height as i64),
        cell(block.block_time),
        cell(&block.tx_root[..]),
        cell(block.outcomes.count() as i32),
        cell(block.outcomes.as_bytes()),
        cell(&block.effects_root[..]),
        cell(block.effects_count as i32),
        cell(&block.state_root[..]),
        cell(&block.previous[..]),
        cell(&block.hash()[..]),
    ];
    query(
        "INSERT INTO chainify_ledger.block VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &args,
        |_| (),
    );
}
