//! The SQL functions that clients, people and the node call: each translates arguments, calls what
//! is below, and translates the answer.
//!
//! Knows every room. No room knows it.
pub mod access;
pub mod analytics;
pub mod analyze;
pub mod client;
pub mod digest_trigger;
pub mod execute_block;
pub mod planned;
pub mod private;
pub mod rehearsal;
pub mod views;
