//! Trees of nodes: walkers, literals, depth.
pub mod conditions;
pub mod constants;
pub mod nesting;
pub mod node;
pub mod parse;
pub mod tree_walkers;
