//! Puts tables on the ledger and takes them off.
