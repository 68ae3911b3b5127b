//! The serialization order: the order in which the EFFECTS transactions of a block are certified
//! and applied: `spec/scheduling.md`, "Order of EFFECTS transactions".
//!
//! Every EFFECTS transaction saw the state before the block. It stays valid only if no earlier
//! transaction of the order writes a place in its read set. So readers of a place come before its
//! writers. Of each cycle of such conflicts one transaction at least is a victim, and fails.
//!
//! Source: Fabric++ (Sharma et al., SIGMOD 2019), section 4.1: conflict graph, cycles, victims by
//! number of cycles, order. Bounds, the cut by degree and the second chance are additions.

mod conflicts;
mod cut;
mod cycles;
mod groups;
mod input;
mod order;
mod second_chance;
mod victim;

use crate::TxIndex;
use conflicts::Conflicts;
pub use input::{Accesses, Counts, Limits, PlaceNumber, LIMITS};
pub use victim::{Victim, Why, OTHERS_MAX};

/// The order of the EFFECTS transactions of a block.
///
/// Invariant S9: no transaction of `order` saw a place that an earlier one of `order` writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// The transactions to be validated and applied, in this order.
    pub order: Vec<TxIndex>,
    /// The others, ascending.
    pub victims: Vec<Victim>,
    /// The accesses of all, and the steps that choosing victims and second chances took.
    pub counts: Counts,
}

/// The order of transactions that are all valid before the block, and the victims.
///
/// Transactions keep the order of the block where no conflict demands another one. A victim closes
/// a cycle with those that remain, as far as [`Limits::chance_steps`] allows to know.
///
/// Cost: O(a log a) for a accesses, and the steps of [`LIMITS`]. 1,024 transactions without
/// conflicts take 0.1 ms. The worst of the hostile blocks in `examples/reorder.rs` takes 45 ms.
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
    let accesses = block.iter().map(size).sum();
    let counts = Counts { accesses, cut_steps, chance_steps };
    Reordering { order: order::order_of(&conflicts, &kept), victims, counts }
}

fn size(accesses: &Accesses) -> u64 {
    accesses.sees.len() as u64 + accesses.writes.len() as u64
}

/// Whether each transaction is looked at. One whose accesses do not fit beside those of earlier
/// ones is not.
fn admit(block: &[Accesses], mut left: u64) -> Vec<bool> {
    let admit = |accesses: &Accesses| {
        let rest = left.checked_sub(size(accesses));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    block.iter().map(admit).collect()
}
