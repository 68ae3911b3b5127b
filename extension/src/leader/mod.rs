//! The steps of one block in the session that leads it: `execute_block` up to the seal, and the
//! commit of the parts.
//!
//! Knows parts and workers. Must not know recovery: a cure for a block that came out otherwise is
//! an argument.
pub mod commit;
pub mod execute_block;
