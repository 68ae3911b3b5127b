//! The refusals outside of a block, and those of a transaction inside one.
//!
//! Knows what is on the ledger and what a session is doing. Must not know recovery.
pub mod changed_rows;
pub mod definitions;
pub mod digest_triggers;
pub mod plain_sql;
pub mod prepared;
pub mod reads;
pub mod stale_reads;
pub mod stored_values;
pub mod writes;
