//! The bound on memory, and memory that is used again.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::raw::aligned::AlignedBytes;
use crate::sync::{locked, Arc, Mutex};

/// The largest memory that is kept: chunks and buffers of several values. A larger one is of a size
/// that seldom comes again.
const KEPT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Hands out memory up to a bound, and keeps returned memory for the next request (V4).
///
/// Several tables may share a pool. Pointers to chunks are not counted: they are less than 2 % of a
/// chunk of bytes, and a thousandth of one of 8-byte cells.
pub struct Pool {
    bytes_max: usize,
    state: Mutex<State>,
}

/// Bytes that a pool has handed out, and bytes that it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// In use by tables and snapshots.
    pub used: usize,
    /// Returned memory, kept for the next request.
    pub spare: usize,
    /// The bound on both together.
    pub bytes_max: usize,
}

#[derive(Default)]
struct State {
    used: usize,
    spare: usize,
    by_size: BTreeMap<usize, Vec<AlignedBytes>>,
}

impl Pool {
    /// A pool of at most so many bytes, in use and spare together.
    pub fn new(bytes_max: usize) -> Arc<Pool> {
        Arc::new(Pool { bytes_max, state: Mutex::default() })
    }

    /// The bytes in use and spare now.
    pub fn usage(&self) -> Usage {
        let state = locked(&self.state);
        Usage { used: state.used, spare: state.spare, bytes_max: self.bytes_max }
    }

    /// Gives spare memory back to the machine.
    pub fn trim(&self) {
        let spare = {
            let mut state = locked(&self.state);
            state.spare = 0;
            std::mem::take(&mut state.by_size)
        };
        drop(spare); // after the lock
    }

    /// Memory of so many bytes with any contents, from what is spare if possible. Spare memory of
    /// other sizes makes room.
    pub(crate) fn take(&self, bytes: usize) -> Result<AlignedBytes, Error> {
        let freed = {
            let mut state = locked(&self.state);
            if let Some(memory) = state.by_size.get_mut(&bytes).and_then(Vec::pop) {
                state.spare -= bytes;
                state.used += bytes;
                return Ok(memory);
            }
            state.charge(bytes, self.bytes_max)?
        };
        drop(freed); // after the lock
        AlignedBytes::zeroed(bytes).ok_or_else(|| {
            self.discharge(bytes);
            Error::Memory { wanted: bytes }
        })
    }

    /// Takes memory back that [`take`](Self::take) gave.
    pub(crate) fn give_back(&self, memory: AlignedBytes) {
        if memory.len() > KEPT_BYTES_MAX {
            let bytes = memory.len();
            drop(memory);
            return self.discharge(bytes);
        }
        let mut state = locked(&self.state);
        state.used -= memory.len();
        state.spare += memory.len();
        state.by_size.entry(memory.len()).or_default().push(memory);
    }

    /// Counts memory that does not come from here, until [`discharge`](Self::discharge).
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Error> {
        let freed = locked(&self.state).charge(bytes, self.bytes_max)?;
        drop(freed);
        Ok(())
    }

    /// Ends the counting of so many bytes.
    pub(crate) fn discharge(&self, bytes: usize) {
        locked(&self.state).used -= bytes;
    }
}

impl State {
    /// Counts the bytes as used, or nothing. Returns the spare memory that had to go for them.
    fn charge(&mut self, bytes: usize, bytes_max: usize) -> Result<Vec<AlignedBytes>, Error> {
        let refused = Error::Full { wanted: bytes, used: self.used, bytes_max };
        let used = self.used.checked_add(bytes).filter(|used| *used <= bytes_max).ok_or(refused)?;
        let mut freed = Vec::new();
        while used + self.spare > bytes_max {
            let Some(memory) = self.by_size.values_mut().rev().find_map(Vec::pop) else { break };
            self.spare -= memory.len();
            freed.push(memory);
        }
        self.used = used;
        Ok(freed)
    }
}
