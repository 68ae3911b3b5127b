//! One block: parts, sealing, half-committed blocks, and who waits for a block.
pub mod half_committed;
pub mod lock_conflicts;
pub mod part;
pub mod read_block;
pub mod restored;
pub mod seal;
