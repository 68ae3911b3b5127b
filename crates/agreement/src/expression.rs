//! A policy as a tree, and its bounds.

use std::fmt;

use crate::need::Need;
use crate::text::{is_plain, write_list};

/// Bytes of a policy's text, as given and in its one spelling.
pub const TEXT_BYTES_MAX: usize = 4_096;
/// How deep `AND`, `OR` and `OF` nest.
pub const DEPTH_MAX: usize = 8;
/// Organisations and columns that a policy names.
pub const NAMES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Organisation(String),
    /// The organisation that the row names there.
    Column(String),
    /// At least so many of these; all of them for AND, one for OR.
    AtLeast(usize, Vec<Expression>),
}

impl Expression {
    pub(crate) fn each_leaf<'p>(&'p self, f: &mut dyn FnMut(&'p Self)) {
        match self {
            Self::AtLeast(_, parts) => parts.iter().for_each(|part| part.each_leaf(f)),
            leaf => f(leaf),
        }
    }

    /// The agreements that are missing for it; `None`: none is missing.
    pub(crate) fn need(&self, value: &dyn Fn(&str) -> Option<String>, agrees: &dyn Fn(&str) -> bool) -> Option<Need> {
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

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organisation(name) => f.write_str(name),
            Self::Column(name) if is_plain(name) => write!(f, "org({name})"),
            Self::Column(name) => write!(f, "org(\"{}\")", name.replace('"', "\"\"")),
            Self::AtLeast(count, parts) => write_list(f, *count, parts),
        }
    }
}
