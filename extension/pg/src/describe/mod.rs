//! Analysed queries described in plain Rust.
pub mod analysis;
pub mod call;
pub mod complete_query;
pub mod frozen_time;
pub mod function_facts;
pub mod input_collations;
pub mod query_level;
pub mod relation_keys;
pub mod relation_use;
pub(crate) mod type_parts;
pub mod view_text;
