//! What is on the ledger: its tables, rows, history and definitions, and what this session may do to them.
pub mod client_role;
pub mod definitions;
pub mod definitions_lock;
pub mod failure;
pub mod history;
pub mod ledger_tables;
pub mod row_bytes;
pub mod session;
pub mod table_scans;
pub mod tables;
pub mod triggers;
