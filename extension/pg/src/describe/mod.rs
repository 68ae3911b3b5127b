//! Analysed queries described in plain Rust.
pub(crate) mod analysis;
pub mod call;
pub(crate) mod complete_query;
pub mod frozen_time;
pub mod function_facts;
pub(crate) mod input_collations;
pub mod query_level;
pub(crate) mod relation_keys;
pub(crate) mod relation_use;
pub(crate) mod type_parts;
pub mod view_text;
