//! The agreements that a policy still needs.

use std::collections::BTreeSet;
use std::fmt;

use crate::text::write_list;

/// The other organisations that have to agree; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// This organisation.
    Organisation(String),
    /// The row names none: nobody can agree.
    Nobody {
        /// The column that is null.
        column: String,
    },
    /// At least so many of these.
    AtLeast(usize, Vec<Need>),
}

impl Need {
    pub(crate) fn at_least(count: usize, mut parts: Vec<Self>) -> Self {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Self::AtLeast(count, parts)
            }
        }
    }

    /// The organisations whose agreement counts. All of them together are enough, unless the row
    /// names nobody where an organisation has to agree.
    pub fn organisations(&self) -> BTreeSet<&str> {
        match self {
            Self::Organisation(name) => BTreeSet::from([name.as_str()]),
            Self::Nobody { .. } => BTreeSet::new(),
            Self::AtLeast(_, parts) => parts.iter().flat_map(Self::organisations).collect(),
        }
    }
}

/// As a policy is written, with organisations in place of columns.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organisation(name) => f.write_str(name),
            Self::Nobody { column } => write!(f, "org({column}), which is null"),
            Self::AtLeast(count, parts) => write_list(f, *count, parts),
        }
    }
}
