//! Which rows a query or a scan sees.

/// Which snapshot a query sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The snapshot of the calling statement: several queries of one call then see the same
    /// database.
    Statement,
    /// Also what this transaction has written since.
    Latest,
}
