//! What a transaction may say: the determinism rules, and the settings that all organisations share.
pub mod agreed_settings;
pub mod determinism;
