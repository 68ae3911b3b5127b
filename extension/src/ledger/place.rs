//! The block and index of a transaction in the order.

/// Where in the ledger a DEPLOY transaction stands.
#[derive(Clone, Copy)]
pub struct At {
    pub block: i64,
    pub tx: u32,
}
