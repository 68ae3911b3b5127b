//! `execute_block` and the commit of its parts.
pub mod commit;
pub mod execute_block;
