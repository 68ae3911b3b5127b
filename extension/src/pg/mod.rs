//! PostgreSQL's primitives behind safe functions: the only place of the crate with `unsafe`.
//!
//! A C function exported with `sql_function!` gets a [`function::Call`]; expected failures are raised with
//! [`error::PgError`], which keeps SQLSTATEs of our own (`CH001` and so on) that pgrx's error enumeration cannot hold.
#[macro_use]
mod c;

pub mod access;
mod analysis;
mod asked;
pub mod block_settings;
pub mod bulk;
mod bulk_indexes;
pub mod catalog;
pub mod collation;
pub mod commit;
pub mod complete;
pub mod conflict_memory;
pub mod constants;
pub mod crash;
pub mod cursor;
pub mod ddl;
mod ddl_kinds;
pub mod ddl_targets;
mod direct_call;
pub mod encode;
pub mod end_session;
pub mod error;
pub mod function;
pub mod function_facts;
pub mod hooks;
pub mod index_check;
pub mod inspect;
pub mod kept;
mod kept_nodes;
mod kept_state;
pub mod latch;
pub mod level;
pub mod lock_waits;
pub mod maintainer;
mod major;
pub mod memory;
mod nesting;
pub mod own_lock;
mod own_path;
pub mod planned_access;
pub mod planning;
pub mod pool;
pub mod progress;
pub mod raised;
pub mod random;
pub mod record;
pub mod relation;
mod relation_keys;
pub mod report;
pub mod role;
pub mod sequence;
pub mod settings;
pub mod slices;
pub mod spi;
pub mod startup;
pub mod statement;
pub mod subtransaction;
pub mod time_limit;
mod tree_walkers;
pub mod trigger;
pub mod variadic;
pub mod worker;
pub mod worker_transaction;
