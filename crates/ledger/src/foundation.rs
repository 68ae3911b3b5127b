//! A part of the foundation of a ledger, on its way to an organisation that joins with an empty
//! database (spec/state-transfer.md, "Joining with an empty database"):
//!
//! * `01 ‖ header`
//! * `02 ‖ lp(table) ‖ schema_hash ‖ u64 rows ‖ lanes`
//! * `03 ‖ hash of the definitions`
//! * `04 ‖ u64 block ‖ u32 index ‖ u16 siblings ‖ hash … ‖ ChainedTx`
//! * `05 ‖ hash of the procedures`

use chainify_codec::{merkle, Hash, Lanes, State};

use crate::read::Reader;
use crate::{length_prefix, sha256, LedgerBlock, WireError};

/// Siblings of a transaction: a block has fewer than 2^32.
const SIBLINGS_MAX: u16 = 32;

/// A part. Nothing in it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The header of a block.
    Header(LedgerBlock),
    /// A table at the end of the block that was asked for.
    Table {
        /// `schema.name`, unquoted.
        name: &'a str,
        /// The hash of its definition.
        schema_hash: Hash,
        /// Rows and lanes.
        state: State,
    },
    /// The hash of all definitions at that block.
    Definitions(Hash),
    /// A DEPLOY transaction that succeeded.
    Deploy(Deploy<'a>),
    /// The hash of all procedures at that block.
    Procedures(Hash),
}

/// A DEPLOY transaction, with its place in its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deploy<'a> {
    /// Number of the block.
    pub block: u64,
    /// Index in the block.
    pub index: u32,
    /// Siblings from the leaf up.
    pub path: Vec<Hash>,
    /// `ChainedTx`, as ordered.
    pub body: &'a [u8],
}

impl Deploy<'_> {
    /// Whether the block of this header has the transaction of this id at this place, as one that
    /// succeeded. Cost: a SHA-256 for each sibling.
    pub fn is_in(&self, header: &LedgerBlock, id: &Hash) -> bool {
        let leaf = sha256(&[&[0], id]);
        let size = u64::from(header.outcomes.count());
        header.number == self.block
            && header.outcomes.succeeded(self.index) == Some(true)
            && merkle::verify(&leaf, u64::from(self.index), size, &self.path, &header.tx_root)
    }
}

/// The bytes of a part.
pub fn encode(part: &Part) -> Vec<u8> {
    let mut out = Vec::new();
    match part {
        Part::Header(header) => {
            out.push(1);
            out.extend_from_slice(&header.encode());
        }
        Part::Table { name, schema_hash, state } => {
            out.push(2);
            out.extend_from_slice(&length_prefix(name.as_bytes()));
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(schema_hash);
            out.extend_from_slice(&state.row_count.to_be_bytes());
            out.extend_from_slice(&state.lanes.to_bytes());
        }
        Part::Definitions(hash) => {
            out.push(3);
            out.extend_from_slice(hash);
        }
        Part::Deploy(deploy) => {
            out.push(4);
            out.extend_from_slice(&deploy.block.to_be_bytes());
            out.extend_from_slice(&deploy.index.to_be_bytes());
            out.extend_from_slice(&(deploy.path.len() as u16).to_be_bytes());
            deploy.path.iter().for_each(|hash| out.extend_from_slice(hash));
            out.extend_from_slice(deploy.body);
        }
        Part::Procedures(hash) => {
            out.push(5);
            out.extend_from_slice(hash);
        }
    }
    out
}

/// Takes apart what [`encode`] gives; one spelling is accepted.
pub fn decode(bytes: &[u8]) -> Result<Part<'_>, WireError> {
    let mut reader = Reader::new(bytes);
    match reader.u8("kind")? {
        1 => {
            let header = reader.take("header", reader.remaining())?;
            Ok(Part::Header(LedgerBlock::decode(header)?))
        }
        2 => {
            let name = std::str::from_utf8(reader.prefixed("table")?);
            let name = name.map_err(|_| WireError::new("table", "is not UTF-8"))?;
            let schema_hash = reader.hash("schema_hash")?;
            let row_count = reader.u64("rows")?;
            let lanes = Lanes::from_bytes(reader.take("lanes", reader.remaining())?);
            let lanes = lanes.ok_or_else(|| WireError::new("lanes", "are none"))?;
            Ok(Part::Table { name, schema_hash, state: State { row_count, lanes } })
        }
        3 => {
            let hash = reader.hash("definitions")?;
            reader.end("part")?;
            Ok(Part::Definitions(hash))
        }
        4 => {
            let (block, index) = (reader.u64("block")?, reader.u32("index")?);
            let siblings = reader.u16("siblings")?;
            if siblings > SIBLINGS_MAX {
                return Err(WireError::new("siblings", format!("are {siblings}")));
            }
            let path = (0..siblings).map(|_| reader.hash("sibling")).collect::<Result<_, _>>()?;
            let body = reader.take("body", reader.remaining())?;
            Ok(Part::Deploy(Deploy { block, index, path, body }))
        }
        5 => {
            let hash = reader.hash("procedures")?;
            reader.end("part")?;
            Ok(Part::Procedures(hash))
        }
        kind => Err(WireError::new("kind", format!("is {kind}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::transaction_path;
    use crate::{tx_root, Outcomes};

    fn header(ids: &[Hash]) -> LedgerBlock {
        let mut outcomes = Outcomes::failed(ids.len() as u32);
        outcomes.succeed(1);
        LedgerBlock {
            chain_id: "trade".into(),
            number: 7,
            order_height: 9,
            block_time: 1,
            tx_root: tx_root(ids),
            outcomes,
            effects_root: [2; 32],
            effects_count: 3,
            state_root: [4; 32],
            previous: [5; 32],
        }
    }

    fn deploy(ids: &[Hash], index: u32) -> Deploy<'static> {
        let path = transaction_path(ids, index).expect("is in it");
        Deploy { block: 7, index, path, body: b"body" }
    }

    #[test]
    fn parts_come_back_as_they_went() {
        let ids = [[1; 32], [2; 32], [3; 32]];
        let state = State { row_count: 4, lanes: Lanes::zero() };
        for part in [
            Part::Header(header(&ids)),
            Part::Table { name: "public.t", schema_hash: [6; 32], state },
            Part::Definitions([7; 32]),
            Part::Deploy(deploy(&ids, 1)),
            Part::Procedures([8; 32]),
        ] {
            let bytes = encode(&part);
            assert_eq!(decode(&bytes), Ok(part));
            assert!(decode(&bytes[..4]).is_err());
        }
        assert!(decode(&[]).is_err() && decode(&[6]).is_err());
    }

    #[test]
    fn a_transaction_is_in_its_block_at_its_place_and_succeeded() {
        let ids = [[1; 32], [2; 32], [3; 32]];
        let header = header(&ids);
        assert!(deploy(&ids, 1).is_in(&header, &ids[1]));
        assert!(!deploy(&ids, 1).is_in(&header, &ids[2]), "another transaction");
        assert!(!deploy(&ids, 2).is_in(&header, &ids[2]), "one that failed");
        assert!(!Deploy { block: 8, ..deploy(&ids, 1) }.is_in(&header, &ids[1]), "another block");
        assert!(!Deploy { path: vec![], ..deploy(&ids, 1) }.is_in(&header, &ids[1]), "no proof");
    }
}
