//! The contents of the ledger: tables, rows, history, definitions, stored blocks and checkpoints.
//!
//! Knows how these are stored and read. Must not know who changes them, and why: rules,
//! transactions and blocks are above.
pub mod as_of;
pub mod checkpoints;
pub mod client_role;
pub mod damaged_rows;
pub mod definitions;
pub mod definitions_lock;
pub mod deployed;
pub mod dropped;
pub mod failure;
pub mod history;
pub mod key_ranges;
pub mod known_definitions;
pub mod ledger_tables;
pub mod outcome;
pub mod own_tables;
pub mod place;
pub mod procedures;
pub mod row_bytes;
pub mod running_state;
pub mod shared_schema;
pub mod stored_blocks;
pub mod stored_values;
pub mod table_scans;
pub mod tables;
pub mod triggers;
