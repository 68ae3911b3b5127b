//! Decides which blocks are divided into parts, from how the blocks before them went.

use std::time::Duration;

/// Blocks of fewer transactions run in the leader: what they take is less than what parts cost.
pub const TRANSACTIONS_MIN: usize = 32;
/// After a block that had to run again, took longer in parts than alone, or was looked at in vain,
/// so many run alone. Twice as many after the next, up to the limit.
pub const PAUSE_MAX: u32 = 64;

/// Blocks that run alone because parts did not go well, or there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    length: u32,
    left: u32,
}

impl Pause {
    /// A block had to run again, took longer in parts, or fell into none.
    pub fn failed(&mut self) {
        let length = (2 * self.length).clamp(1, PAUSE_MAX);
        *self = Pause { length, left: length };
    }

    /// A block ran in parts, and that paid.
    pub fn went_well(&mut self) {
        *self = Pause { length: self.length / 2, left: 0 };
    }

    /// Whether to look for parts of a block at all; it counts as one of those that run alone. A
    /// block that is executed `again` may be one whose effects differed: the second time nothing is
    /// taken for granted.
    pub fn may_pay(&mut self, transactions: usize, again: bool) -> bool {
        if again || transactions < TRANSACTIONS_MIN {
            return false;
        }
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }
}

/// Whether a block that `took` so long in parts would have taken longer alone. Its first part ran
/// for `own`, and was expected to take `first` of the `whole` block.
pub fn paid(took: Duration, own: Duration, first: u64, whole: u64) -> bool {
    took.as_nanos().saturating_mul(first.into()) < own.as_nanos().saturating_mul(whole.into())
}
