//! Decisions and loops of a database's background workers, without PostgreSQL.
//!
//! A loop reaches the world through a trait `Host`: its methods are the actions, their results the
//! answers. The extension implements each `Host` with PostgreSQL; the tests of this crate implement
//! it with a scripted world. Times are durations since a start that the host chooses: there is no
//! clock here.

#![forbid(unsafe_code)]

pub mod conflicts;
pub mod executor;
mod failure;
pub mod groups;
pub mod maintenance;
pub mod parts;
pub mod prepared;
pub mod scrubbing;
pub mod steps;
pub mod summaries;
pub mod team;

pub use failure::Failure;
