//! The changes and reads of an ordinary session by plain SQL, captured until it commits.
//!
//! Knows ledger tables. Must not know what is refused, nor how changes are ordered.
pub mod changed_rows;
pub mod plain_sql;
pub mod reads;
