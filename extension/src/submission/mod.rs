//! The transactions that an ordinary session has ordered, on their way to the node.
//!
//! Knows the node's socket and the refusals outside of a block. Must not know SQL functions.
pub mod as_sql;
pub mod connection;
pub mod plain_sql;
mod reads;
pub mod sql_statement;
pub mod submit;
