//! Which rows a query or a scan sees.

/// Which snapshot a query sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// What the calling statement sees: several queries of one call then see the same database.
    Statement,
    /// Also what this transaction has written since.
    Latest,
}
