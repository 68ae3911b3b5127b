//! The steps by which a database that deviates comes back, and the checkpoints and scans they rest on.
pub mod checkpoint;
pub mod checkpoint_repair;
pub mod definition_repair;
pub mod deviations;
pub mod earlier_blocks;
pub mod maintenance;
pub mod repair;
pub mod repair_by_key;
pub mod repair_from_peer;
pub mod replay;
pub mod scrub;
pub mod start_over;
pub mod take_over_block;
pub mod tell_rows;
