//! The SQL functions and triggers, in safe Rust over `crate::pg`.
pub mod attach;
pub mod client;
pub mod connection;
pub mod digest;
pub mod effects;
pub mod execute;
pub mod guard;
pub mod repair;
pub mod seal;
pub mod session;
pub mod tables;
pub mod transaction;
pub mod verify;
pub mod views;
