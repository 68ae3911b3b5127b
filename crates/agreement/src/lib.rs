//! Agreement policies: the organisations that have to agree to a change (`spec/agreement.md`).
//!
//! `AND(org(seller), OR(auditor, 2 OF (acme, bolt, cargo)))`
//!
//! Invariant C1: whether a policy is satisfied is a function of its text, the row and the
//! organisations that agree. A satisfied policy stays satisfied when more of them agree.

#![forbid(unsafe_code)]

mod expression;
mod need;
mod parse;
mod text;

pub use expression::{DEPTH_MAX, NAMES_MAX, TEXT_BYTES_MAX};
pub use need::Need;
pub use parse::ParseError;

use std::fmt;

use expression::Expression;

/// The organisations that have to agree to a change of a row. Made by [`Policy::parse`], so its
/// bounds hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(Expression);

impl Policy {
    /// Reads a policy. Keywords are taken in either case, names as they stand. The error gives the
    /// place.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::policy(text).map(Self)
    }

    /// The columns that it takes organisations from, in the order of the text.
    pub fn columns(&self) -> Vec<&str> {
        self.names(|leaf| match leaf {
            Expression::Column(name) => Some(name),
            _ => None,
        })
    }

    /// The organisations that it names, in the order of the text.
    pub fn organisations(&self) -> Vec<&str> {
        self.names(|leaf| match leaf {
            Expression::Organisation(name) => Some(name),
            _ => None,
        })
    }

    /// The missing agreements for a row with these values when these organisations agree; None: no
    /// agreement is missing.
    pub fn need(&self, value: &dyn Fn(&str) -> Option<String>, agrees: &dyn Fn(&str) -> bool) -> Option<Need> {
        self.0.need(value, agrees)
    }

    fn names<'p>(&'p self, pick: impl Fn(&'p Expression) -> Option<&'p String>) -> Vec<&'p str> {
        let mut found = Vec::new();
        self.0.each_leaf(&mut |leaf| found.extend(pick(leaf).map(String::as_str)));
        found
    }
}

/// The text in its one spelling, which reads as the same policy.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
