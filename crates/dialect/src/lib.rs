//! Writes an analysed query in the dialect of the analytics worker (spec/analytics.md), or refuses
//! it with the construct that the worker would compute in another way than PostgreSQL.
//!
//! PostgreSQL's own parser decides what a text means. The extension describes the analysed tree as
//! a [`query::Query`]; this crate knows neither PostgreSQL nor the worker. A function that is not
//! in [`allowed::RULES`] is refused.

pub mod allowed;
mod kinds;
pub mod query;
pub mod types;
pub mod wire;
mod write;

pub use kinds::Kind;
pub use write::{translate, Output, Settings, Translation, DEPTH_MAX, TEXT_BYTES_MAX};

/// Why a query stays with PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the construct.
    pub kind: Kind,
    /// The construct, in words or as SQL.
    pub construct: String,
    /// Where it stands in the text, in bytes, as far as it is known.
    pub at: Option<usize>,
}

impl Refusal {
    /// A refusal of a construct of unknown place.
    pub fn new(kind: Kind, construct: impl Into<String>) -> Self {
        Refusal { kind, construct: construct.into(), at: None }
    }

    /// The same at a place, unless one is known already.
    pub fn at(mut self, at: Option<usize>) -> Self {
        self.at = self.at.or(at);
        self
    }
}
