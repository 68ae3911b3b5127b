//! Whether an index finds the rows of its table.
mod bitmap;
pub mod check;
