//! The block that is run, checked: what every transaction of it is run with.
use chainify_codec::Hash;
use chainify_ledger::Transaction;

/// A block to run, checked.
pub struct Request<'a> {
    pub chain_id: String,
    pub number: i64,
    pub order_height: i64,
    pub block_time: i64,
    pub previous: Hash,
    pub transactions: Vec<Transaction>,
    /// Their positions in the block: all of them, but for a worker, which is given those of its
    /// part.
    pub indices: Vec<u32>,
    /// Their bytes as ordered.
    pub bodies: Vec<&'a [u8]>,
    pub quarantined: Vec<i32>,
    pub quarantine_all: bool,
    /// Asked for where organisations differed about the block: what each transaction did.
    pub effect_hashes: bool,
}

/// Whether the node said not to run it.
pub fn is_quarantined(request: &Request, at: usize) -> bool {
    request.quarantine_all || request.quarantined.contains(&(request.indices[at] as i32))
}
