//! Runs one block of transactions.
