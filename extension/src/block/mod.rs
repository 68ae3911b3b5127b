//! One block, from request to seal: its parts, its LedgerBlock, half-committed blocks, and sessions
//! that are in a block's way.
//!
//! Knows the transactions. Must not know which process runs a part: for this room a block in one
//! part and a block in several are the same.
pub mod half_committed;
pub mod lock_conflicts;
pub mod part;
pub mod read_block;
pub mod restored;
pub mod seal;
