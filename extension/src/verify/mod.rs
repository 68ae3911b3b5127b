//! Findings, receipts and digests: compares this database with the state that the organisations
//! agreed on.
//!
//! Knows what was agreed. Must not know how a difference is put right: recovery is above.
pub mod anchored;
pub mod archived;
pub mod certificates;
pub mod finding;
pub mod indexes;
pub mod ledger;
pub mod progress;
pub mod receipt;
pub mod row_history;
pub mod table;
