//! The state of a table: LtHash16, an incremental hash of its set of rows, with BLAKE3 as its
//! expander. It is of Bellare and Micciancio's AdHash family, as in Lewi et al., "Securing Update
//! Propagation with Homomorphic Hashing", 2019.

use crate::{length_prefix, sha256, Hash};

/// Lanes of the hash.
const LANES: usize = 1024;
/// Bytes of the stored lanes.
pub const LANES_BYTES: usize = 2 * LANES;

/// 1024 lanes of u16, added modulo 2^16. Additions and subtractions commute, so order does not
/// matter.
#[derive(Clone, PartialEq, Eq)]
pub struct Lanes(Box<[u16; LANES]>);

impl Lanes {
    /// The state of no rows.
    pub fn zero() -> Self {
        Self(Box::new([0; LANES]))
    }

    /// Adds a row of `table`. For many rows use [`LaneHasher`].
    pub fn add(&mut self, table: &str, row: &[u8]) {
        LaneHasher::new(table).add(self, row);
    }

    /// Takes away a row of `table`.
    pub fn sub(&mut self, table: &str, row: &[u8]) {
        LaneHasher::new(table).sub(self, row);
    }

    /// Adds another state, for example that of another part of the table or of a block's net
    /// changes.
    pub fn merge(&mut self, other: &Lanes) {
        for (lane, more) in self.0.iter_mut().zip(other.0.iter()) {
            *lane = lane.wrapping_add(*more);
        }
    }

    /// Takes another state away, that of rows which are in this one.
    pub fn remove(&mut self, other: &Lanes) {
        for (lane, less) in self.0.iter_mut().zip(other.0.iter()) {
            *lane = lane.wrapping_sub(*less);
        }
    }

    /// The stored form: little-endian lanes.
    pub fn to_bytes(&self) -> [u8; LANES_BYTES] {
        let mut bytes = [0; LANES_BYTES];
        for (pair, lane) in bytes.chunks_exact_mut(2).zip(self.0.iter()) {
            pair.copy_from_slice(&lane.to_le_bytes());
        }
        bytes
    }

    /// Reads the stored form; `None` when it is not [`LANES_BYTES`] long.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LANES_BYTES] = bytes.try_into().ok()?;
        let mut lanes = Self::zero();
        lanes.merge_bytes(bytes);
        Some(lanes)
    }

    fn merge_bytes(&mut self, bytes: &[u8; LANES_BYTES]) {
        for (lane, pair) in self.0.iter_mut().zip(bytes.chunks_exact(2)) {
            *lane = lane.wrapping_add(u16::from_le_bytes([pair[0], pair[1]]));
        }
    }

    fn take_bytes(&mut self, bytes: &[u8; LANES_BYTES]) {
        for (lane, pair) in self.0.iter_mut().zip(bytes.chunks_exact(2)) {
            *lane = lane.wrapping_sub(u16::from_le_bytes([pair[0], pair[1]]));
        }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self::zero()
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lanes({:04x?}…)", &self.0[..4])
    }
}

/// Expands rows of one table. Cost: about 33 BLAKE3 compressions per row, eight at a time where the
/// processor can (`chainify_xof`).
#[derive(Clone)]
pub struct LaneHasher {
    prefix: Vec<u8>,
}

impl LaneHasher {
    /// For rows of `table`, `schema.name` unquoted.
    pub fn new(table: &str) -> Self {
        Self { prefix: [b"chainify/state/1", &length_prefix(table.as_bytes())[..], table.as_bytes()].concat() }
    }

    /// Adds a row to `lanes`.
    pub fn add(&self, lanes: &mut Lanes, row: &[u8]) {
        lanes.merge_bytes(&self.expand(row));
    }

    /// Takes a row away from `lanes`.
    pub fn sub(&self, lanes: &mut Lanes, row: &[u8]) {
        lanes.take_bytes(&self.expand(row));
    }

    fn expand(&self, row: &[u8]) -> [u8; LANES_BYTES] {
        let mut bytes = [0; LANES_BYTES];
        chainify_xof::fill(&self.prefix, row, &mut bytes);
        bytes
    }
}

/// `H("chainify/table/1" ‖ lp(table) ‖ schema_hash ‖ u64 row count ‖ lanes)`
pub fn table_state(table: &str, schema_hash: &Hash, row_count: u64, lanes: &Lanes) -> Hash {
    let length = length_prefix(table.as_bytes());
    let count = row_count.to_be_bytes();
    sha256(&[b"chainify/table/1", &length, table.as_bytes(), schema_hash, &count, &lanes.to_bytes()])
}

/// `H("chainify/schema/1" ‖ lp(schema text))`
pub fn schema_hash(text: &str) -> Hash {
    sha256(&[b"chainify/schema/1", &length_prefix(text.as_bytes()), text.as_bytes()])
}

/// `H("chainify/definitions/1" ‖ u32 count ‖ objects)`, where an object is
/// `lp(kind) ‖ lp(identity) ‖ lp(definition)`. Objects come in any order and are sorted by kind and
/// identity, byte-wise.
pub fn definitions<'a>(objects: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Hash {
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_unstable();
    let count = u32::try_from(objects.len()).expect("a catalog has fewer than 2^32 rows");
    let mut bytes = b"chainify/definitions/1".to_vec();
    bytes.extend_from_slice(&count.to_be_bytes());
    for part in objects.iter().flat_map(|(kind, identity, text)| [kind, identity, text]) {
        bytes.extend_from_slice(&length_prefix(part.as_bytes()));
        bytes.extend_from_slice(part.as_bytes());
    }
    sha256(&[&bytes])
}

/// The name under which the hash of the definitions stands in the state root; a table's has a dot.
pub const DEFINITIONS: &str = "definitions";

/// `H("chainify/state-root/1" ‖ state …)` over every table on the ledger and the definitions, given
/// as name and state in any order; sorts them by name, byte-wise. Names must differ.
pub fn state_root<'a>(tables: impl IntoIterator<Item = (&'a str, Hash)>) -> Hash {
    let mut tables: Vec<_> = tables.into_iter().collect();
    tables.sort_unstable();
    let mut bytes = b"chainify/state-root/1".to_vec();
    tables.iter().for_each(|(_, state)| bytes.extend_from_slice(state));
    sha256(&[&bytes])
}
