//! A query level in plain Rust, which the rules judge: `crates/rules`.
pub use chainify_rules::level::*;
