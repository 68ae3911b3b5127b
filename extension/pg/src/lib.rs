//! PostgreSQL's primitives behind safe functions: the only crate of the extension with `unsafe`.
//!
//! A C function exported with `sql_function!` gets a [`function::Call`]; expected failures are
//! raised with [`error::PgError`], which keeps SQLSTATEs of our own (`CH001` and so on) that pgrx's
//! error enumeration cannot hold.
//!
//! The groups import downwards alone, and no files of them form a circle. Lowest first:
//! [`base`] < [`indexes`], [`tree`] < [`describe`] < [`access`] < [`planner`] < [`run`] < [`ddl`],
//! [`translate`] < [`shared`] < [`session_transaction`] < [`hooks`].
#![deny(unsafe_op_in_unsafe_fn)]

#[macro_use]
mod c;

pub mod access;
pub mod base;
pub mod ddl;
pub mod describe;
pub mod hooks;
pub mod indexes;
pub mod planner;
pub mod run;
pub mod session_transaction;
pub mod shared;
pub mod translate;
pub mod tree;
