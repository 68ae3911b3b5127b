//! A block in parts that run beside each other (spec/parallel.md): which transactions can, and the
//! processes that run them.
//!
//! Knows how a part runs. Must not know when a block commits, and not verification.
pub mod block_access;
pub mod declared_access;
pub mod effects_access;
pub mod executor;
pub mod focus;
pub mod leader;
pub mod team;
