//! Queries on their way to the planner, the agreed facts that it is given, and notes on its plans.
pub(crate) mod agreed_order;
pub(crate) mod agreed_plans;
pub mod block_settings;
mod own_plans;
pub(crate) mod plan_notes;
pub mod planned_access;
pub mod planning;
pub mod session_reads;
