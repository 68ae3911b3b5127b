//! A buffer with one writer, who appends, and readers of the bytes before.

use std::ptr::copy_nonoverlapping;

use crate::chunk::Chunk;
use crate::sync::Arc;

/// The writer's end. There is one for each buffer: it cannot be cloned.
///
/// The bytes before `filled` never change again. Nobody reads those behind it.
pub struct Tail {
    shared: Arc<Chunk>,
    filled: usize,
}

/// The bytes that a buffer had at one moment.
#[derive(Clone)]
pub struct Filled {
    shared: Arc<Chunk>,
    filled: usize,
}

impl Tail {
    /// A buffer in this memory, with nothing in it.
    pub fn new(memory: Chunk) -> Self {
        Tail { shared: Arc::new(memory), filled: 0 }
    }

    /// Number of bytes that still fit.
    pub fn room(&self) -> usize {
        self.shared.len() - self.filled
    }

    /// Appends the bytes and returns their place.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        assert!(bytes.len() <= self.room(), "{} bytes into a room of {}", bytes.len(), self.room());
        let place = self.filled;
        // SAFETY: the room holds so many bytes. Only this function writes a buffer, `&mut self` and
        // the single `Tail` exclude a second writer, and every reader ends before `filled`. `bytes`
        // is a reference, so it ends there too, or is elsewhere.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.shared.start().as_ptr().add(place), bytes.len()) }
        self.filled += bytes.len();
        place
    }

    /// The bytes that are there now. Cost: one atomic addition.
    pub fn filled(&self) -> Filled {
        Filled { shared: self.shared.clone(), filled: self.filled }
    }
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a `Tail` wrote so many bytes before it made this value, and never writes them
        // again.
        unsafe { std::slice::from_raw_parts(self.shared.start().as_ptr(), self.filled) }
    }
}
