//! Computes the dependencies between the transactions of a block (`spec/scheduling.md`), and from
//! them which transactions may run in parallel.
//!
//! The order of the block is the semantics. The rows that each transaction may read and write
//! ([`AccessSet`]) give the graph of dependencies ([`graph::build`]) and independent parts
//! ([`division::assign`]). They change the time a block takes, and never its result.
//!
//! [`reorder`] computes the serialization order of EFFECTS transactions. That order does decide
//! outcomes.
//!
//! Everything is a function of its arguments: no PostgreSQL, no clock, no thread, no randomness, no
//! global.

#![forbid(unsafe_code)]

mod access;
mod bytes;
pub mod changes;
pub mod cost;
pub mod declared;
mod dependency;
pub mod division;
pub mod explain;
mod few;
pub mod focus;
pub mod graph;
mod interval;
mod lists;
mod place;
pub mod ranges;
pub mod reorder;
mod statement;
pub mod template;
pub mod text;
mod units;
pub mod value;

pub use access::{AccessSet, PLACES_MAX, TARGETS_MAX};
pub use changes::Changes;
pub use dependency::{Dependencies, Dependency};
pub use division::Division;
pub use focus::Focus;
pub use graph::{Edge, Graph, STEPS_MAX};
pub use interval::{Interval, KEY_BYTES_MAX};
pub use place::{KeyId, Place, RelationId, Target, BOUNDS_MAX};

/// The position of a transaction in its block, from 0.
pub type TxIndex = u32;
