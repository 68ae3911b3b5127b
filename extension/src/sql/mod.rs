//! SQL transactions: a client's statements, their plans, and their run as its role.
//!
//! Knows what a client may say. Must not know the other kinds of transactions.
pub mod plans;
pub mod statements;
