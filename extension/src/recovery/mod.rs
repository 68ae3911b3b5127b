//! The steps by which a database that deviates comes back, the records of them, and the scrubber
//! that looks for deviations.
//!
//! Each step has a file of its own; `repair` chooses between them and stands above. Must not know
//! the node, which asks for the steps.
pub mod adopt;
pub mod certified;
pub mod checkpoint_repair;
pub mod cured;
pub mod definition_repair;
pub mod deviations;
pub mod drop_archived;
pub mod earlier_blocks;
pub mod earlier_deploys;
pub mod fold_history;
pub mod index_repair;
pub mod join;
pub mod join_again;
pub mod maintenance;
pub mod repair;
pub mod repair_by_key;
pub mod repair_from_peer;
pub mod replay;
pub mod row_repair;
pub mod scrub;
pub mod start_over;
pub mod surplus;
pub mod take_over_block;
pub mod tell_foundation;
pub mod tell_rows;
