//! The refusals outside of a block, and those of a transaction inside one.
//!
//! Knows what is on the ledger and what a session is doing. Must not know recovery.
pub mod definitions;
pub mod prepared;
pub mod stale_reads;
pub mod writes;
