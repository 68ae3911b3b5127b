//! The rules for the text of a transaction: the determinism rules, the settings that all
//! organisations share, and who agrees to a change of these.
//!
//! Knows a statement and the definitions it uses. Must not know how a transaction runs.
pub mod agreed_settings;
pub mod agreeing;
pub mod determinism;
pub mod relations;
