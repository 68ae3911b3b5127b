//! Digests kept elsewhere (`spec/receipt.md`), and votes as JSON: reads them as `receipt` writes
//! them. Nothing in it is trusted.

use chainify_codec::from_hex;
use serde_json::Value;

use crate::audit::StoredBlock;
use crate::certificate::{Certificate, CertifiedVote};
use crate::fields::{bytes, integer, member, text};
use crate::receipt::VERSION;

/// The facts that a digest, or any receipt, states of its block. Fields of the block may have any
/// length and value.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The chain it is said to be of.
    pub chain_id: String,
    /// The block.
    pub block: StoredBlock,
    effect_round: u32,
    votes: Value,
}

impl Digest {
    /// Errors name the field.
    pub fn read(digest: &Value) -> Result<Self, String> {
        let version = integer::<u64>(digest, "chainify_receipt")?;
        if version != VERSION {
            return Err(format!("chainify_receipt is {version}, want {VERSION}"));
        }
        let block = member(digest, "block")?;
        let certificate = member(digest, "certificate")?;
        Ok(Self {
            chain_id: text(digest, "chain_id")?.to_owned(),
            effect_round: integer(certificate, "effect_round")?,
            votes: member(certificate, "votes")?.clone(),
            block: StoredBlock {
                number: integer(block, "number")?,
                order_height: integer(block, "order_height")?,
                block_time: integer(block, "block_time")?,
                tx_root: bytes(block, "tx_root")?,
                tx_count: integer(block, "tx_count")?,
                outcomes: bytes(block, "outcomes")?,
                effects_root: bytes(block, "effects_root")?,
                effects_count: integer(block, "effects_count")?,
                state_root: bytes(block, "state_root")?,
                previous_hash: bytes(block, "previous")?,
                hash: bytes(digest, "hash")?,
            },
        })
    }

    /// Its certificate. Errors say what is malformed.
    pub fn certificate(&self) -> Result<Certificate, String> {
        Ok(Certificate {
            number: u64::try_from(self.block.number).map_err(|_| "number is malformed")?,
            effect_round: self.effect_round,
            hash: self.block.hash[..].try_into().map_err(|_| "hash is malformed")?,
            votes: read_votes(&self.votes)?,
        })
    }
}

/// The votes of a certificate, as a receipt has them and as they are stored. Errors say which is
/// malformed.
pub fn read_votes(votes: &Value) -> Result<Vec<CertifiedVote>, String> {
    let votes = votes.as_array().ok_or("votes are no array")?;
    votes.iter().enumerate().map(|(i, vote)| read_vote(vote).ok_or(format!("vote {i} is malformed"))).collect()
}

fn read_vote(vote: &Value) -> Option<CertifiedVote> {
    let bytes = |field: &str| from_hex(vote.get(field)?.as_str()?);
    Some(CertifiedVote {
        organisation: vote.get("organisation")?.as_str()?.to_owned(),
        validator: bytes("validator")?,
        height: vote.get("height")?.as_i64()?,
        round: vote.get("round")?.as_i64()?.try_into().ok()?,
        extension: bytes("extension")?,
        signature: bytes("signature")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::receipt::to_json;
    use crate::{LedgerBlock, Outcomes};

    fn header() -> LedgerBlock {
        LedgerBlock {
            chain_id: "trade-1".into(),
            number: 7,
            order_height: 9,
            block_time: -1,
            tx_root: [1; 32],
            outcomes: Outcomes::failed(3),
            effects_root: [2; 32],
            effects_count: 4,
            state_root: [3; 32],
            previous: [4; 32],
        }
    }

    fn certificate() -> Certificate {
        let vote = CertifiedVote {
            organisation: "acme".into(),
            validator: vec![5; 20],
            height: 11,
            round: 2,
            extension: vec![6; 78],
            signature: vec![7; 64],
        };
        Certificate { number: 7, effect_round: 1, hash: header().hash(), votes: vec![vote] }
    }

    fn digest() -> Value {
        to_json(&header(), &certificate(), None, None)
    }

    #[test]
    fn what_a_receipt_says_is_read_back() {
        let read = Digest::read(&digest()).expect("is a digest");
        assert_eq!(read.block.header(&read.chain_id), Ok(header()));
        assert_eq!(read.certificate(), Ok(certificate()));
    }

    #[test]
    fn what_is_malformed_is_named() {
        let refused = |pointer: &str, value: Value| {
            let mut digest = digest();
            *digest.pointer_mut(pointer).expect("is there") = value;
            Digest::read(&digest).and_then(|read| read.certificate()).expect_err(pointer)
        };
        for (pointer, value, why) in [
            ("/chainify_receipt", json!(2), "chainify_receipt is 2, want 1"),
            ("/certificate", json!(null), "effect_round is missing"),
            ("/chain_id", json!(7), "chain_id is no text"),
            ("/block/tx_count", json!(1.5), "tx_count is no such number"),
            ("/block/tx_count", json!("3"), "tx_count is no such number"),
            ("/block/outcomes", json!("0"), "outcomes is not hexadecimal"),
            ("/block/outcomes", json!("é"), "outcomes is not hexadecimal"),
            ("/block/number", json!(-7), "number is malformed"),
            ("/hash", json!("00"), "hash is malformed"),
            ("/certificate/votes", json!({}), "votes are no array"),
            ("/certificate/votes/0/round", json!(1u64 << 31), "vote 0 is malformed"),
        ] {
            assert_eq!(refused(pointer, value), why);
        }
    }
}
