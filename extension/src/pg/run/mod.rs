//! Planning and running statements, and loading rows.
pub mod block_settings;
pub mod bulk;
pub mod bulk_indexes;
pub mod client_plan;
pub mod commit;
pub mod direct_call;
pub mod executor_cache;
pub mod executor_state;
mod index_bitmap;
pub mod index_check;
pub mod locked_rows;
pub mod plan_notes;
pub mod planned_access;
pub mod planning;
pub mod resettable_plans;
pub mod row_changes;
pub mod session_reads;
pub mod statement;
