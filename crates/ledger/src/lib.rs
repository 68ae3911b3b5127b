//! Transactions, ledger blocks, effect votes and certificates: bytes, bounds, hashes and checks.
//!
//! Formats: `spec/formats.md`; messages: `spec/proto/chainify.proto`. Everything is a function of
//! its arguments.

#![forbid(unsafe_code)]

pub mod agreement;
pub mod audit;
pub mod block_buffer;
pub mod captured;
pub mod cells;
pub mod certificate;
pub mod change;
pub mod digest;
mod error;
mod fields;
pub mod foundation;
mod header;
pub mod messages;
mod names;
pub mod node_messages;
mod outcomes;
pub mod parts;
pub mod planned;
mod read;
pub mod receipt;
pub mod seal;
pub mod sequence;
pub mod told;
mod transaction;
pub mod vote;
pub mod write_set;

pub use chainify_codec::Hash;
pub use error::WireError;
pub use header::LedgerBlock;
pub use names::{check_chain_id, check_organisation, check_role, CHAIN_ID_BYTES_MAX, NAME_BYTES_MAX};
pub use outcomes::Outcomes;
pub use transaction::{
    decode_proposal, decode_strict, proposal_id, tx_id, tx_root, Transaction, AGREEMENTS_MAX, PARAMETERS_MAX,
    PROPOSAL_BYTES_MAX,
};

use sha2::{Digest, Sha256};

/// SHA-256 of the parts, one after the other; the caller prefixes lengths.
fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The length in front of `bytes` in `lp(bytes)`.
fn length_prefix(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("what has a length prefix is bounded far below 4 GiB").to_be_bytes()
}
