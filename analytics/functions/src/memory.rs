//! The bound of the texts that a function makes of a batch: DataFusion bounds what it keeps, and not
//! what functions give.
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

use crate::error::SqlError;

/// One batch takes this part of the memory of all queries at most, and so many bytes at least.
const PART: usize = 8;
const BATCH_BYTES_LEAST: usize = 1 << 20;
/// Bytes that are reserved together.
const STEP: usize = 64 << 10;

/// The memory of all queries.
#[derive(Clone)]
pub(crate) struct Memory {
    pool: Arc<dyn MemoryPool>,
    /// Bytes of the texts that a function makes of one batch.
    pub batch_bytes_max: usize,
}

impl Memory {
    pub fn new(pool: Arc<dyn MemoryPool>) -> Memory {
        let batch_bytes_max = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => (bytes / PART).max(BATCH_BYTES_LEAST),
            _ => usize::MAX,
        };
        Memory { pool, batch_bytes_max }
    }

    /// The texts of a batch that begins.
    pub fn batch(&self) -> Batch {
        let reserved = MemoryConsumer::new("texts of a batch").register(&self.pool);
        Batch { bytes: 0, bytes_max: self.batch_bytes_max, reserved }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(Arc::new(UnboundedMemoryPool::default()))
    }
}

/// The bytes of a batch's texts. They are reserved until it is dropped.
pub(crate) struct Batch {
    bytes: usize,
    bytes_max: usize,
    reserved: MemoryReservation,
}

impl Batch {
    /// Takes one text more in. Errors: 53200, and that of the pool.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > self.bytes_max {
            return Err(SqlError::too_much_memory().into());
        }
        if self.bytes > self.reserved.size() + STEP {
            self.reserved.try_grow(self.bytes - self.reserved.size())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn batches_are_bounded() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(16 << 20));
        let memory = Memory::new(pool.clone());
        let mut batch = memory.batch();
        for _ in 0..2 {
            batch.grow(1 << 20).expect("an eighth");
        }
        assert_eq!(pool.reserved(), 2 << 20);
        let error = batch.grow(1).expect_err("more than an eighth");
        assert_eq!(SqlError::of(&error).map(|error| error.sqlstate), Some("53200"));
        drop(batch);
        assert_eq!(pool.reserved(), 0);
        let others = MemoryConsumer::new("others").register(&pool);
        others.try_grow(15 << 20).expect("there is room");
        memory.batch().grow(2 << 20).expect_err("the pool is full");
    }
}
