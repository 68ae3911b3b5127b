//! Queries at a block, which the analytics worker answers from its mirrors (spec/analytics.md).
//!
//! PostgreSQL's parser decides what a query means and who may ask it. `crates/dialect` writes it
//! for the worker, or says why the worker would not compute it as PostgreSQL does.
pub mod ask;
pub mod mirrored;
pub mod planned;
mod worker;
