//! Checks ledger and tables.
