//! What the background workers of a database decide, without PostgreSQL.
//!
//! A loop reaches the world through a trait `Host`: its methods are the actions, their results the answers. The extension
//! implements each `Host` with PostgreSQL; the tests of this crate implement it with a scripted world.
//! Times are durations since a start that the host chooses: there is no clock here.

#![forbid(unsafe_code)]

pub mod conflicts;
pub mod groups;
pub mod maintenance;
pub mod scrubbing;
pub mod steps;
