//! PostgreSQL's primitives behind safe functions: the only place of the crate with `unsafe`.
//!
//! A C function exported with `sql_function!` gets a [`function::Call`]; expected failures are raised with
//! [`error::PgError`], which keeps SQLSTATEs of our own (`CH001` and so on) that pgrx's error enumeration cannot hold.
pub mod cursor;
pub mod error;
pub mod function;
pub mod latch;
pub mod role;
pub mod settings;
pub mod startup;
pub mod variadic;
