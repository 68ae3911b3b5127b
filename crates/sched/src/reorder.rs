//! The order in which the EFFECTS transactions of a block are validated and applied:
//! `spec/scheduling.md`, "Order of EFFECTS transactions".
//!
//! Every EFFECTS transaction saw the state before the block. One of them stays valid only if no
//! other writes what it saw before its turn comes. So those that saw a place come before those that
//! write it, and some transaction of each cycle of such conflicts is a victim.
//!
//! Source: Fabric++ (Sharma et al., SIGMOD 2019), section 4.1: conflict graph, cycles, victims by
//! number of cycles, order. Bounds, the cut by degree and the second chance are additions.

mod conflicts;
mod cut;
mod cycles;
mod groups;
mod second_chance;
mod turns;

use crate::TxIndex;
use conflicts::Conflicts;

/// The bounds on the time that [`reorder`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Accesses of a block, each place seen and each place written.
    pub accesses: u64,
    /// Steps of choosing victims. Beyond it, sets of transactions keep those that come first.
    pub cut_steps: u64,
    /// Cycles of a group. A group with more of them is cut by degree.
    pub cycles: u64,
    /// Transactions and conflicts of a group, times its cycles.
    pub cycle_steps: u64,
    /// Steps of second chances. Beyond it, only victims whose case is plain get one.
    pub chance_steps: u64,
}

/// The limits that all organisations use. A block of 4 MiB has no more accesses: an inserted row
/// takes 16 bytes and is two of them.
pub const LIMITS: Limits =
    Limits { accesses: 1 << 19, cut_steps: 3 << 18, cycles: 64, cycle_steps: 1 << 15, chance_steps: 1 << 19 };

/// The bound on the other transactions that a [`Why::Cycle`] names.
pub const OTHERS_MAX: usize = 8;

/// The number that the caller gave to a table and a key.
pub type PlaceNumber = u32;

/// The places of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// The rows that it saw, and the absent rows that it looked for.
    pub sees: Vec<PlaceNumber>,
    /// The rows that it inserts, updates or deletes. It normally saw them, too.
    pub writes: Vec<PlaceNumber>,
}

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
    /// The accesses of the block are more than [`Limits::accesses`].
    Excess,
}

/// The order of the EFFECTS transactions of a block.
///
/// Invariant S9: no transaction of `order` saw a place that an earlier one of `order` writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// The transactions to be validated and applied, in this order.
    pub order: Vec<TxIndex>,
    /// The others, ascending.
    pub victims: Vec<Victim>,
    /// The steps that choosing victims took.
    pub cut_steps: u64,
    /// The steps that second chances took.
    pub chance_steps: u64,
}

/// The order of transactions that are all valid before the block, and the victims.
///
/// Transactions keep the order of the block where no conflict demands another one. A victim closes
/// a cycle with those that remain, as far as [`Limits::chance_steps`] allows to know.
///
/// Cost: O(a log a) for a accesses, and the steps of [`LIMITS`].
///
/// # Panics
/// If there are 2^30 transactions or more.
pub fn reorder(block: &[Accesses]) -> Reordering {
    reorder_within(block, &LIMITS)
}

/// The same with other limits, for tests.
///
/// # Panics
/// If there are 2^30 transactions or more.
pub fn reorder_within(block: &[Accesses], limits: &Limits) -> Reordering {
    assert!(block.len() < 1 << 30, "a block has {} EFFECTS transactions, fewer than 2^30 are allowed", block.len());
    let admitted = admit(block, limits.accesses);
    let (conflicts, places) = Conflicts::of_block(block, &admitted);
    let (mut kept, cut_steps) = cut::cut(&conflicts, &admitted, limits);
    let (victims, chance_steps) =
        second_chance::give_second_chances(&conflicts, &places, &admitted, &mut kept, limits.chance_steps);
    Reordering { order: turns::take_turns(&conflicts, &kept), victims, cut_steps, chance_steps }
}

/// Whether each transaction is looked at. One whose accesses do not fit beside those of earlier
/// ones is not.
fn admit(block: &[Accesses], mut left: u64) -> Vec<bool> {
    let admit = |accesses: &Accesses| {
        let rest = left.checked_sub(accesses.sees.len() as u64 + accesses.writes.len() as u64);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    block.iter().map(admit).collect()
}
