//! The rooms above, which ask the analytics worker.
use std::collections::BTreeMap;

use crate::base::above::Above;
use crate::base::error::PgError;
use crate::base::text_rows::Sink;

/// Runs a query, at a block if there is one, and gives the block of the answer.
type Ask = fn(&str, Option<i64>, Sink) -> Result<Option<i64>, PgError>;

/// Their answers about queries that the worker may compute.
pub struct Analytics {
    /// Whether the session's queries may go to the worker; asked first, for every query.
    pub wanted: fn() -> bool,
    /// The cost of PostgreSQL's plan from which on they go.
    pub least_cost: fn() -> f64,
    /// Numbers of mirrored tables by relation.
    pub mirrored: fn() -> BTreeMap<u32, i32>,
    /// The last block that the statement's snapshot sees.
    pub last_block: fn() -> i64,
    /// Has the worker run a query of its dialect, at this block if there is one. Gives the block
    /// whose rows it answered with.
    pub ask: Ask,
}

pub(crate) static ABOVE: Above<Analytics> = Above::new();
