//! A block in parts that run beside each other (spec/parallel.md).
pub mod block_access;
pub mod declared_access;
pub mod executor;
pub mod focus;
pub mod leader;
pub mod team;
