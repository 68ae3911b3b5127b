//! Describes analysed queries for `crates/dialect`, which writes them for the analytics worker
//! (spec/analytics.md).
//!
//! A text is parsed and analysed as the caller, under the caller's search_path; nothing of it runs
//! but functions of constants, which the planner would compute as well.
pub mod analysed;
pub(crate) mod as_sent;
mod clauses;
mod constants;
mod expressions;
pub mod parameters;
pub mod planned;
pub mod reader;
mod scan;
pub mod worker;
