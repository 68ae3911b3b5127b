//! Effect votes: the content of a precommit's vote extension about the pending ledger block.

use std::ops::Range;

use crate::{length_prefix, sha256, Hash, WireError};

/// Bytes of a vote that is not empty, without its parts.
pub const VOTE_BYTES: usize = 78;
/// Bytes of a part's hash.
pub const PART_BYTES: usize = 16;
/// Parts of a vote at most.
pub const PARTS_MAX: usize = 1_024;
const VERSION: u8 = 1;
/// Followed by `u16 parts ‖ their hashes`.
const VERSION_BY_PARTS: u8 = 2;
const KIND_EFFECTS: u8 = 1;
const KIND_STUCK: u8 = 2;

const BLOCK: Range<usize> = 1..9;
const EFFECT_ROUND: Range<usize> = BLOCK.end..13;
const ORDER_HASH: Range<usize> = EFFECT_ROUND.end..45;
const KIND: usize = ORDER_HASH.end;
const VALUE: Range<usize> = KIND + 1..VOTE_BYTES;
const STUCK_AT: Range<usize> = VALUE.start..VALUE.start + 4;
const _: () = assert!(ORDER_HASH.end - ORDER_HASH.start == 32 && VALUE.end - VALUE.start == 32);

/// The vote of an organisation on one execution of a ledger block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectVote {
    /// Number of the ledger block, from 1.
    pub block: u64,
    /// The effect round it votes in.
    pub effect_round: u32,
    /// Hash of the order block that ordered the ledger block.
    pub order_hash: Hash,
    /// The result of the execution.
    pub verdict: Verdict,
    /// From effect round 1 on, the hashes of the block's parts; empty where they are not known.
    pub parts: Vec<[u8; PART_BYTES]>,
}

/// The result of executing a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It had effects; their LedgerBlockHash, salted by [`salted`].
    Effects(Hash),
    /// It did not get past the transaction with this index.
    Stuck(u32),
}

/// `H("chainify/effect-vote/1" ‖ lp(organisation) ‖ LedgerBlockHash)`: only a node that knows the
/// hash can make it or check it.
pub fn salted(organisation: &str, ledger_block_hash: &Hash) -> Hash {
    let name = organisation.as_bytes();
    sha256(&[b"chainify/effect-vote/1", &length_prefix(name), name, ledger_block_hash])
}

/// The bytes of a vote extension. At most [`PARTS_MAX`] parts.
pub fn encode(vote: &EffectVote) -> Vec<u8> {
    let mut bytes = vec![0; VOTE_BYTES];
    bytes[0] = if vote.parts.is_empty() { VERSION } else { VERSION_BY_PARTS };
    bytes[BLOCK].copy_from_slice(&vote.block.to_be_bytes());
    bytes[EFFECT_ROUND].copy_from_slice(&vote.effect_round.to_be_bytes());
    bytes[ORDER_HASH].copy_from_slice(&vote.order_hash);
    match vote.verdict {
        Verdict::Effects(salted) => {
            bytes[KIND] = KIND_EFFECTS;
            bytes[VALUE].copy_from_slice(&salted);
        }
        Verdict::Stuck(index) => {
            bytes[KIND] = KIND_STUCK;
            bytes[STUCK_AT].copy_from_slice(&index.to_be_bytes());
        }
    }
    if !vote.parts.is_empty() {
        let count = u16::try_from(vote.parts.len()).expect("a vote has at most PARTS_MAX parts");
        bytes.extend(count.to_be_bytes());
        bytes.extend(vote.parts.as_flattened());
    }
    bytes
}

/// Reads a vote extension; `None` for an empty one: nothing pending, or nothing to say yet. Errors
/// name the field.
pub fn decode(extension: &[u8]) -> Result<Option<EffectVote>, WireError> {
    if extension.is_empty() {
        return Ok(None);
    }
    if extension.len() < VOTE_BYTES {
        return Err(WireError::new(
            "vote",
            format!("is {} bytes, want none or at least {VOTE_BYTES}", extension.len()),
        ));
    }
    let vote = EffectVote {
        block: u64::from_be_bytes(part(extension, BLOCK)),
        effect_round: u32::from_be_bytes(part(extension, EFFECT_ROUND)),
        order_hash: part(extension, ORDER_HASH),
        verdict: verdict(&extension[..VOTE_BYTES])?,
        parts: parts(extension)?,
    };
    if vote.block == 0 {
        return Err(WireError::new("vote.block", "is 0"));
    }
    Ok(Some(vote))
}

fn parts(extension: &[u8]) -> Result<Vec<[u8; PART_BYTES]>, WireError> {
    let rest = &extension[VOTE_BYTES..];
    match extension[0] {
        VERSION if rest.is_empty() => return Ok(Vec::new()),
        VERSION => return Err(WireError::new("vote", format!("is {} bytes, want {VOTE_BYTES}", extension.len()))),
        VERSION_BY_PARTS if extension[KIND] == KIND_EFFECTS && extension[EFFECT_ROUND] != [0; 4] => {}
        VERSION_BY_PARTS => {
            return Err(WireError::new(
                "vote.version",
                "is by parts, though not on effects of a round after the first",
            ));
        }
        version => {
            return Err(WireError::new("vote.version", format!("is {version}, want {VERSION} or {VERSION_BY_PARTS}")));
        }
    }
    let Some((count, rest)) = rest.split_first_chunk() else {
        return Err(WireError::new("vote.parts", "has no count"));
    };
    let count = usize::from(u16::from_be_bytes(*count));
    let (parts, over) = rest.as_chunks();
    if count == 0 || count > PARTS_MAX || parts.len() != count || !over.is_empty() {
        let length = rest.len();
        return Err(WireError::new(
            "vote.parts",
            format!("is {length} bytes for {count} parts, want 1 to {PARTS_MAX}"),
        ));
    }
    Ok(parts.to_vec())
}

fn verdict(extension: &[u8]) -> Result<Verdict, WireError> {
    match extension[KIND] {
        KIND_EFFECTS => Ok(Verdict::Effects(part(extension, VALUE))),
        KIND_STUCK if extension[STUCK_AT.end..] != [0; 28] => {
            Err(WireError::new("vote.effects", "is not zeros after the index of a stuck transaction"))
        }
        KIND_STUCK => Ok(Verdict::Stuck(u32::from_be_bytes(part(extension, STUCK_AT)))),
        kind => Err(WireError::new("vote.kind", format!("is {kind}, want {KIND_EFFECTS} or {KIND_STUCK}"))),
    }
}

fn part<const N: usize>(extension: &[u8], range: Range<usize>) -> [u8; N] {
    extension[range].try_into().expect("each range is as long as the field it is read into")
}

/// CometBFT's `CanonicalVoteExtension`, over which a validator's extension signature is made.
#[derive(Clone, PartialEq, prost::Message)]
struct CanonicalVoteExtension {
    #[prost(bytes = "vec", tag = "1")]
    extension: Vec<u8>,
    #[prost(sfixed64, tag = "2")]
    height: i64,
    #[prost(sfixed64, tag = "3")]
    round: i64,
    #[prost(string, tag = "4")]
    chain_id: String,
}

/// The bytes that a validator signs for its vote extension (CometBFT v0.40,
/// `types.VoteExtensionSignBytes`): the length-delimited `CanonicalVoteExtension`. `round` is
/// CometBFT's, not the effect round.
pub fn sign_bytes(chain_id: &str, height: i64, round: i32, extension: &[u8]) -> Vec<u8> {
    let canonical = CanonicalVoteExtension {
        extension: extension.to_vec(),
        height,
        round: round.into(),
        chain_id: chain_id.to_owned(),
    };
    prost::Message::encode_length_delimited_to_vec(&canonical)
}
