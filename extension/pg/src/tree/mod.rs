//! Trees of nodes: walkers, literals, depth.
pub mod conditions;
pub mod constants;
pub(crate) mod nesting;
pub mod node;
pub mod parse;
pub(crate) mod tree_walkers;
