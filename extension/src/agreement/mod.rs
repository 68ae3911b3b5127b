//! Whose agreement a transaction takes: policies of tables, organisations of roles, and whether
//! these are satisfied.
//!
//! Knows the changes of a transaction. Must not know how it makes them.
pub mod agreement_policies;
pub mod agreements;
pub mod circles;
pub mod role_organisations;
