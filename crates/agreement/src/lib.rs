//! Agreement policies: the organisations that have to agree to a change (`spec/agreement.md`).
//!
//! `AND(org(seller), OR(auditor, 2 OF (acme, bolt, cargo)))`
//!
//! Invariant C1: whether a policy is satisfied is a function of its text, the row and the
//! organisations that agree. A satisfied policy stays satisfied when more of them agree.

#![forbid(unsafe_code)]

mod need;
mod parse;

pub use need::Need;
pub use parse::ParseError;

use std::fmt;

/// Bytes of a policy's text, as given and in its one spelling.
pub const TEXT_BYTES_MAX: usize = 4_096;
/// Depth to which `AND`, `OR` and `OF` nest.
pub const DEPTH_MAX: usize = 8;
/// Organisations and columns that a policy names.
pub const NAMES_MAX: usize = 256;

/// The organisations that have to agree to a change of a row. Made by [`Policy::parse`], so its
/// bounds hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(Expression);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Organisation(String),
    /// The organisation that the row names there.
    Column(String),
    /// At least so many of these; all of them for AND, one for OR.
    AtLeast(usize, Vec<Expression>),
}

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

impl Expression {
    fn each_leaf<'p>(&'p self, f: &mut dyn FnMut(&'p Self)) {
        match self {
            Self::AtLeast(_, parts) => parts.iter().for_each(|part| part.each_leaf(f)),
            leaf => f(leaf),
        }
    }

    fn need(&self, value: &dyn Fn(&str) -> Option<String>, agrees: &dyn Fn(&str) -> bool) -> Option<Need> {
        let organisation = |name: &str| (!agrees(name)).then(|| Need::Organisation(name.to_owned()));
        match self {
            Self::Organisation(name) => organisation(name),
            Self::Column(column) => match value(column) {
                Some(name) => organisation(&name),
                None => Some(Need::Nobody { column: column.clone() }),
            },
            Self::AtLeast(count, parts) => {
                let missing: Vec<Need> = parts.iter().filter_map(|part| part.need(value, agrees)).collect();
                let left = count.saturating_sub(parts.len() - missing.len());
                (left > 0).then(|| Need::at_least(left, missing))
            }
        }
    }
}

/// The text in its one spelling, which reads as the same policy.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organisation(name) => f.write_str(name),
            Self::Column(name) if parse::is_plain(name) => write!(f, "org({name})"),
            Self::Column(name) => write!(f, "org(\"{}\")", name.replace('"', "\"\"")),
            Self::AtLeast(count, parts) => write_list(f, *count, parts),
        }
    }
}

/// `AND(a, b)`, `OR(a, b)` or `2 OF (a, b, c)`.
fn write_list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, count: usize, parts: &[T]) -> fmt::Result {
    match count {
        _ if count == parts.len() => f.write_str("AND(")?,
        1 => f.write_str("OR(")?,
        _ => write!(f, "{count} OF (")?,
    }
    for (i, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
    }
    f.write_str(")")
}
