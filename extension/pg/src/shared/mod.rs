//! Shared memory, background workers and locks.
pub mod conflict_memory;
pub mod end_session;
pub mod lock_waits;
pub mod maintainer;
pub mod pool;
pub mod progress;
pub mod worker;
pub mod worker_transaction;
