//! The rules for the text of a transaction: the determinism rules and the deploy rules.
//!
//! A rule looks at a described statement and at values that the caller read from the catalog, and
//! at nothing else. So a refusal is the same in every organisation, and an outcome like any other.
//!
//! * [`level`]: a query as plain values, and which rows and orders follow from it
//! * [`determinism`]: findings on a query; [`functions`], [`aggregates`] and [`changes`] hold its
//!   rules of functions, of the order of rows and of changed rows
//! * [`errors`]: which statements fail alike, so that functions may catch their errors
//! * [`immutable`]: functions that are declared so and are not
//! * [`plans`]: which queries are checked when PostgreSQL plans them (invariant X6)
//! * [`catalog`]: what rows of PostgreSQL's catalog say of functions, types and collations
//! * [`deploy`]: statements of a DEPLOY transaction; [`objects`] the kinds of objects that they may
//!   name
//! * [`planned`]: what may be done about a planned transaction
//! * [`settings`]: settings that all organisations share

pub mod aggregates;
pub mod catalog;
pub mod changes;
pub mod deploy;
pub mod determinism;
pub mod errors;
pub mod finding;
pub mod functions;
pub mod immutable;
pub mod level;
pub mod objects;
pub mod planned;
pub mod plans;
pub mod refusal;
pub mod settings;
