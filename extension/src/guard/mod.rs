//! What is refused outside of a block.
pub mod definitions;
pub mod digest_triggers;
pub mod stale_reads;
pub mod writes;
