//! Receipts: the proof from one certified block that a transaction or a row is in it. A digest is a
//! receipt of the block alone. A reader needs the genesis and no database. Format:
//! `spec/receipt.md`.

use chainify_codec::{hex, leaf, merkle, sort_changes, Change, Op};
use serde_json::{json, Value};

use crate::certificate::{Certificate, CertifiedVote};
use crate::{sha256, Hash, LedgerBlock};

/// The version of the format.
pub const VERSION: u64 = 1;

/// A transaction's place among those of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionProof {
    /// Index in the block.
    pub index: u32,
    /// Its id.
    pub id: Hash,
    /// Bytes of the `ChainedTx`.
    pub body: Vec<u8>,
    /// Siblings from the leaf up.
    pub path: Vec<Hash>,
}

/// A change's place among the effects of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeProof {
    /// `schema.name`, unquoted.
    pub table: String,
    /// Row encoding of the primary key's columns alone.
    pub key: Vec<u8>,
    /// Encoding of the row after, or before it for [`Op::Delete`].
    pub row: Vec<u8>,
    /// Which of the key's changes in the block it is.
    pub serial: u32,
    /// What happened.
    pub op: Op,
    /// Its place among the sorted leaves.
    pub leaf: u32,
    /// Siblings from the leaf up.
    pub path: Vec<Hash>,
}

/// The inclusion proof of transaction `index` in the transaction root over `ids`; `None` when there
/// is no such transaction. Cost: one SHA-256 per transaction.
pub fn transaction_path(ids: &[Hash], index: u32) -> Option<Vec<Hash>> {
    let leaves: Vec<Hash> = ids.iter().map(|id| sha256(&[&[0], id])).collect();
    merkle::prove(&leaves, index as usize)
}

/// The place of change `wanted` among the sorted leaves of a block, and its inclusion proof in the
/// effects root; `None` when there is no such change. `changes` are all of the block, in the order
/// in which they happened; they get their serials. Cost: a sort and two SHA-256 per change.
pub fn change_path(changes: &mut [Change<'_>], wanted: usize) -> Option<(u32, Vec<Hash>)> {
    let order = sort_changes(changes);
    let place = order.iter().position(|&at| at as usize == wanted)?;
    let leaves: Vec<Hash> = order.iter().map(|&at| leaf(&changes[at as usize])).collect();
    Some((u32::try_from(place).ok()?, merkle::prove(&leaves, place)?))
}

/// The receipt as JSON; a digest when nothing is proven but the block.
pub fn to_json(
    header: &LedgerBlock,
    certificate: &Certificate,
    transaction: Option<&TransactionProof>,
    change: Option<&ChangeProof>,
) -> Value {
    let mut receipt = json!({
        "chainify_receipt": VERSION,
        "chain_id": header.chain_id,
        "block": {
            "number": header.number,
            "order_height": header.order_height,
            "block_time": header.block_time,
            "tx_root": hex(&header.tx_root),
            "tx_count": header.outcomes.count(),
            "outcomes": hex(header.outcomes.as_bytes()),
            "effects_root": hex(&header.effects_root),
            "effects_count": header.effects_count,
            "state_root": hex(&header.state_root),
            "previous": hex(&header.previous),
        },
        "hash": hex(&header.hash()),
        "certificate": {
            "effect_round": certificate.effect_round,
            "votes": certificate.votes.iter().map(vote).collect::<Vec<_>>(),
        },
    });
    if let Some(proof) = transaction {
        receipt["transaction"] = json!({
            "index": proof.index,
            "id": hex(&proof.id),
            "outcome": header.outcomes.succeeded(proof.index),
            "body": hex(&proof.body),
            "path": path(&proof.path),
        });
    }
    if let Some(proof) = change {
        receipt["change"] = json!({
            "table": proof.table,
            "key": hex(&proof.key),
            "row": hex(&proof.row),
            "serial": proof.serial,
            "op": char::from(proof.op as u8).to_string(),
            "leaf": proof.leaf,
            "path": path(&proof.path),
        });
    }
    receipt
}

fn vote(vote: &CertifiedVote) -> Value {
    json!({
        "organisation": vote.organisation,
        "validator": hex(&vote.validator),
        "height": vote.height,
        "round": vote.round,
        "extension": hex(&vote.extension),
        "signature": hex(&vote.signature),
    })
}

fn path(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(|hash| hex(hash)).collect()
}
