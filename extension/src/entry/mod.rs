//! The SQL functions that clients and people call.
pub mod access;
pub mod analyze;
pub mod client;
pub mod connection;
pub mod execute_block;
pub mod rehearsal;
pub mod views;
