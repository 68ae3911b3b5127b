//! DEPLOY transactions: statements that change definitions, ATTACH and DETACH.
//!
//! Knows the objects on the ledger. Must not know the other kinds of transactions.
pub mod attach;
pub mod deploy;
pub mod deploy_checks;
