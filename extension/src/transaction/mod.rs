//! One transaction of a block, of whatever kind, undone alone when it fails.
//!
//! Knows the request that its block is. Must not know the other transactions of it, nor how many
//! processes run them.
pub mod groups;
pub mod run;
