//! The LedgerBlock: what organisations agree on about one block.

use crate::names::check_chain_id;
use crate::read::Reader;
use crate::{length_prefix, sha256, Hash, Outcomes, WireError};

const DOMAIN: &[u8] = b"chainify/ledger-block/1";

/// The header of a ledger block, field by field as hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerBlock {
    /// The chain it belongs to.
    pub chain_id: String,
    /// From 1.
    pub number: u64,
    /// Height of the order block that holds its transactions.
    pub order_height: u64,
    /// Microseconds since the Unix epoch.
    pub block_time: i64,
    /// Over the ids of its transactions, see [`crate::tx_root`].
    pub tx_root: Hash,
    /// Which of its transactions succeeded; there is at least one transaction.
    pub outcomes: Outcomes,
    /// Over the changes of its transactions.
    pub effects_root: Hash,
    /// How many changes there are.
    pub effects_count: u32,
    /// Over the state of every table on the ledger after it.
    pub state_root: Hash,
    /// LedgerBlockHash of the block before; zeros for block 1.
    pub previous: Hash,
}

impl LedgerBlock {
    /// The bytes that are hashed.
    pub fn encode(&self) -> Vec<u8> {
        let chain_id = self.chain_id.as_bytes();
        let outcomes = self.outcomes.as_bytes();
        let mut out = Vec::with_capacity(DOMAIN.len() + chain_id.len() + outcomes.len() + 164);
        out.extend_from_slice(DOMAIN);
        out.extend_from_slice(&length_prefix(chain_id));
        out.extend_from_slice(chain_id);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.order_height.to_be_bytes());
        out.extend_from_slice(&self.block_time.to_be_bytes());
        out.extend_from_slice(&self.tx_root);
        out.extend_from_slice(&self.outcomes.count().to_be_bytes());
        out.extend_from_slice(outcomes);
        out.extend_from_slice(&self.effects_root);
        out.extend_from_slice(&self.effects_count.to_be_bytes());
        out.extend_from_slice(&self.state_root);
        out.extend_from_slice(&self.previous);
        out
    }

    /// The LedgerBlockHash.
    pub fn hash(&self) -> Hash {
        sha256(&[&self.encode()])
    }

    /// Reads a header. Refuses everything that [`LedgerBlock::encode`] would not write for a valid
    /// block.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.take("domain", DOMAIN.len())? != DOMAIN {
            return Err(WireError::new("domain", "not a ledger block of version 1"));
        }
        let block = Self {
            chain_id: read_chain_id(&mut reader)?,
            number: reader.u64("number")?,
            order_height: reader.u64("order_height")?,
            block_time: reader.i64("block_time")?,
            tx_root: reader.hash("tx_root")?,
            outcomes: read_outcomes(&mut reader)?,
            effects_root: reader.hash("effects_root")?,
            effects_count: reader.u32("effects_count")?,
            state_root: reader.hash("state_root")?,
            previous: reader.hash("previous")?,
        };
        reader.end("header")?;
        block.check()?;
        Ok(block)
    }

    /// The rules a header follows beyond its bytes; [`LedgerBlock::decode`] applies them.
    pub fn check(&self) -> Result<(), WireError> {
        check_chain_id(&self.chain_id)?;
        if self.number == 0 {
            return Err(WireError::new("number", "is 0"));
        }
        if self.outcomes.count() == 0 {
            return Err(WireError::new("tx_count", "is 0"));
        }
        if self.number == 1 && self.previous != [0; 32] {
            return Err(WireError::new("previous", "is not zeros for block 1"));
        }
        Ok(())
    }
}

fn read_chain_id(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let bytes = reader.prefixed("chain_id")?;
    let chain_id = std::str::from_utf8(bytes).map_err(|_| WireError::new("chain_id", "is not UTF-8"))?;
    Ok(chain_id.to_owned())
}

fn read_outcomes(reader: &mut Reader<'_>) -> Result<Outcomes, WireError> {
    let count = reader.u32("tx_count")?;
    let bytes = reader.take("outcomes", count.div_ceil(8) as usize)?;
    Outcomes::from_bytes(count, bytes)
}
