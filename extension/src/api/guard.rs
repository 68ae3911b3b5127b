//! Refuses writes and DDL on ledger tables outside a block.

/// Installs hooks and callbacks; once, in the postmaster.
pub fn install() {}
