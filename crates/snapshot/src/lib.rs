//! Columns in memory with cheap snapshots: a snapshot and its table share memory until one of them
//! changes it (README.md).
//!
//! A [`Table`] keeps rows by slot, as columns of cells. [`Table::snapshot`] gives the rows of now
//! to any number of readers in other threads, while one writer goes on. A [`Strategy`] decides how
//! memory is shared until a write. [`Choice`] names those that a program uses; the others are for
//! comparison.
//!
//! Sources: Sharma, Schuhknecht, Dittrich, "Accelerating Analytical Processing in MVCC using
//! Fine-Granular High-Frequency Virtual Snapshotting" (AnKer), SIGMOD 2018, sections 4 and 5.
//!
//! Invariants, cited by the tests:
//! * V1: a snapshot holds exactly the rows that the table had when it was made, while it lives.
//! * V2: a snapshot of a table has all columns as of one moment.
//! * V3: making a snapshot takes a time that depends on the number of columns alone ([`Chunks`]).
//! * V4: memory comes from a [`Pool`] with a bound, and goes back when no snapshot holds it. A
//!   write or snapshot beyond the bound is refused, and the rows stay as they were.

#![deny(unsafe_code)]

mod bitmap;
mod choice;
mod chunk;
mod columns;
mod directory;
mod error;
mod group;
mod heap;
mod inline;
mod pool;
#[allow(unsafe_code)]
mod raw;
mod rows;
mod strategies;
mod strategy;
mod sync;
mod table;

pub use bitmap::Bitmap;
pub use choice::Choice;
pub use columns::{Kind, Slot, VALUE_BYTES_MAX};
pub use error::Error;
pub use group::Group;
pub use inline::{INLINE_BYTES_MAX, VIEW_BYTES};
pub use pool::{Pool, Usage};
pub use rows::Rows;
pub use strategies::{Chunks, Copy};
#[cfg(target_os = "linux")]
pub use strategies::{Fork, Rewire, VmSnapshot, CALL_NUMBER};
pub use strategy::{ColumnId, Memory, Strategy, View, GROUP_ROWS};
pub use table::Table;
