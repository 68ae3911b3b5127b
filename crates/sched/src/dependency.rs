//! The three ways in which a transaction depends on an earlier one.

use std::fmt;

/// One way. The earlier transaction comes first in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The earlier one writes what the later one reads.
    WriteRead,
    /// The earlier one reads what the later one writes.
    ReadWrite,
    /// Both write.
    WriteWrite,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteRead => "write-read",
            Self::ReadWrite => "read-write",
            Self::WriteWrite => "write-write",
        })
    }
}

/// A set of ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependencies(u8);

impl Dependencies {
    /// None.
    pub const NONE: Self = Self(0);

    /// The union of both sets.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is among them.
    pub fn contains(self, kind: Dependency) -> bool {
        self.0 & Self::from(kind).0 != 0
    }

    /// Each of them, in the order of [`Dependency`].
    pub fn iter(self) -> impl Iterator<Item = Dependency> {
        use Dependency::{ReadWrite, WriteRead, WriteWrite};
        [WriteRead, ReadWrite, WriteWrite].into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl From<Dependency> for Dependencies {
    fn from(kind: Dependency) -> Self {
        Self(1 << kind as u8)
    }
}

impl fmt::Display for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, kind) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{kind}")?;
        }
        Ok(())
    }
}
