//! Analysed queries described in plain Rust.
pub mod analysis;
pub mod complete_query;
pub mod function_facts;
pub mod query_level;
pub mod relation_keys;
pub mod relation_use;
