//! Victims: transactions that fail with a conflict, and the reasons.

use super::input::PlaceNumber;
use crate::TxIndex;

/// The bound on the other transactions that a [`Why::Cycle`] names.
pub const OTHERS_MAX: usize = 8;

/// A transaction that is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The transaction.
    pub transaction: TxIndex,
    /// The reason.
    pub why: Why,
}

/// The reason for a victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It would close a cycle with transactions that are applied.
    Cycle {
        /// A place that it saw and the first of the others writes.
        place: PlaceNumber,
        /// The others in the order of the cycle, [`OTHERS_MAX`] at most: each saw what the next
        /// one writes. The last one of the whole cycle saw what the victim writes.
        others: Vec<TxIndex>,
    },
    /// It saw this place, which an applied transaction writes. Whether it would close a cycle
    /// remains open: the steps were used up.
    Place(PlaceNumber),
    /// The accesses of the block are more than [`super::Limits::accesses`].
    Excess,
}
