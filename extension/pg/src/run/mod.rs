//! Running statements, and loading rows.
pub mod bulk;
pub(crate) mod bulk_indexes;
pub(crate) mod client_plan;
pub mod commit;
pub mod crossed;
mod cursors;
pub(crate) mod direct_call;
pub mod executor_cache;
pub(crate) mod executor_state;
pub(crate) mod locked_rows;
pub mod plpgsql;
pub(crate) mod resettable_plans;
pub mod row_changes;
pub mod statement;
pub mod step;
