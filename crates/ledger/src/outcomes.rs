//! Which transactions of a block succeeded, one bit each.

use crate::WireError;

/// The outcome bitmap: transaction i is bit `1 << (i mod 8)` of byte `i / 8`, 1 for success.
///
/// Invariant: `⌈count / 8⌉` bytes, unused bits 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    count: u32,
    bytes: Vec<u8>,
}

impl Outcomes {
    /// `count` transactions, none of which has succeeded.
    pub fn failed(count: u32) -> Self {
        Self { count, bytes: vec![0; bytes_for(count)] }
    }

    /// Reads the stored form of `count` outcomes.
    pub fn from_bytes(count: u32, bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() != bytes_for(count) {
            let what = format!("{} bytes for {count} transactions, want {}", bytes.len(), bytes_for(count));
            return Err(WireError::new("outcomes", what));
        }
        if !count.is_multiple_of(8) && bytes.last().is_some_and(|last| last >> (count % 8) != 0) {
            return Err(WireError::new("outcomes", "a bit beyond the last transaction is set"));
        }
        Ok(Self { count, bytes: bytes.to_vec() })
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many transactions there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Records that transaction `index` succeeded. Panics when there is no such transaction.
    pub fn succeed(&mut self, index: u32) {
        assert!(index < self.count, "transaction {index} of {}", self.count);
        self.bytes[(index / 8) as usize] |= 1 << (index % 8);
    }

    /// Whether transaction `index` succeeded; `None` when there is no such transaction.
    pub fn succeeded(&self, index: u32) -> Option<bool> {
        (index < self.count).then(|| self.bytes[(index / 8) as usize] >> (index % 8) & 1 == 1)
    }

    /// How many succeeded.
    pub fn successes(&self) -> u32 {
        self.bytes.iter().map(|byte| byte.count_ones()).sum()
    }
}

fn bytes_for(count: u32) -> usize {
    count.div_ceil(8) as usize
}
