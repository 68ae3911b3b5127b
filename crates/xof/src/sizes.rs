//! Sizes of message and output.

/// Bytes of output.
pub const BYTES: usize = 2048;

/// Bytes of the longest message that is one chunk: of longer ones the library makes a tree.
pub(crate) const CHUNK: usize = 1024;
