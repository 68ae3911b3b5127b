//! Memory that begins at a multiple of 64, as Arrow wants it.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;

/// Alignment of memory, in bytes: a line of the cache, and of Arrow's buffers.
pub const ALIGNMENT: usize = 64;

/// Bytes that belong to one owner and never move.
pub struct AlignedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

impl AlignedBytes {
    /// So many zeros, at least one; `None` when the machine has no memory left.
    pub fn zeroed(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout has at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(AlignedBytes { start, layout })
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.layout.size()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` leads to so many initialised bytes, which change through `&mut self`
        // alone. `append.rs` writes behind a `&self`, and never calls this function.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    /// Where the bytes begin.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: `zeroed` took the memory with this layout, and nothing else frees it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: the memory belongs to this value alone, and is written through `&mut self` (or by
// `append.rs`, which says why that is no race).
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
unsafe impl Sync for AlignedBytes {}
