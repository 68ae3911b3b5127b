//! The places of transactions, and the limits of the work on them.

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

/// The bounds on the time that [`super::reorder`] takes.
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

/// The sums that the limits bound, of one order or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of [`Limits::accesses`].
    pub accesses: u64,
    /// Of [`Limits::cut_steps`].
    pub cut_steps: u64,
    /// Of [`Limits::chance_steps`].
    pub chance_steps: u64,
}

impl Counts {
    /// Adds those of one more order.
    pub fn add(&mut self, other: &Self) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.cut_steps = self.cut_steps.saturating_add(other.cut_steps);
        self.chance_steps = self.chance_steps.saturating_add(other.chance_steps);
    }

    /// Whether no limit has decided anything.
    ///
    /// Invariant S10: a block's components each have their own order. When the sums of these fit,
    /// the order and the victims of the block are those of its components, with the same reasons.
    pub fn fit(&self, limits: &Limits) -> bool {
        self.accesses <= limits.accesses
            && self.cut_steps <= limits.cut_steps
            && self.chance_steps < limits.chance_steps
    }
}

/// The limits that all organisations use. A block of 4 MiB has no more accesses: an inserted row
/// takes 16 bytes and is two of them.
pub const LIMITS: Limits =
    Limits { accesses: 1 << 19, cut_steps: 3 << 18, cycles: 64, cycle_steps: 1 << 15, chance_steps: 1 << 19 };
