//! Memory of a pool that goes back to it.

use std::ptr::NonNull;

use crate::error::Error;
use crate::pool::Pool;
use crate::raw::aligned::AlignedBytes;
use crate::sync::Arc;

/// Bytes that go back to their pool with the last owner (V4).
pub(crate) struct Chunk {
    /// Present until the drop.
    memory: Option<AlignedBytes>,
    pool: Arc<Pool>,
}

impl Chunk {
    /// A chunk of so many bytes, with any contents.
    pub(crate) fn any(pool: &Arc<Pool>, bytes: usize) -> Result<Self, Error> {
        Ok(Chunk { memory: Some(pool.take(bytes)?), pool: pool.clone() })
    }

    /// A chunk of zeros.
    pub(crate) fn zeroed(pool: &Arc<Pool>, bytes: usize) -> Result<Self, Error> {
        let mut chunk = Self::any(pool, bytes)?;
        chunk.as_mut_slice().fill(0);
        Ok(chunk)
    }

    /// A chunk with the same bytes. Cost: 64 KiB take 3 to 5 µs from spare memory, 30 from fresh.
    pub(crate) fn copied(&self) -> Result<Self, Error> {
        let mut copy = Self::any(&self.pool, self.len())?;
        copy.as_mut_slice().copy_from_slice(self.as_ref());
        Ok(copy)
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, AlignedBytes::len)
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory.as_ref().map_or(NonNull::dangling(), AlignedBytes::start)
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], AlignedBytes::as_mut_slice)
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], AlignedBytes::as_slice)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}
