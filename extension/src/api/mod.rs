//! The SQL functions and triggers, in safe Rust over `crate::pg`.
pub mod attach;
pub mod client;
pub mod connection;
pub mod execute;
pub mod guard;
pub mod repair;
pub mod verify;
pub mod views;
