//! The time that executions of a statement take, learnt from those measured.

use std::cell::Cell;

/// So many executions are measured at first, and then one of so many.
const MEASURED_FIRST: u32 = 8;
const MEASURED_EACH: u32 = 8;
/// A measurement counts for one part in so many.
const WEIGHT: u64 = 8;

/// A running mean, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    seen: Cell<u32>,
    mean: Cell<u64>,
}

impl Cost {
    /// Counts an execution; says whether to measure it.
    pub fn is_due(&self) -> bool {
        let seen = self.seen.get().wrapping_add(1);
        self.seen.set(seen);
        seen <= MEASURED_FIRST || seen.is_multiple_of(MEASURED_EACH)
    }

    /// An execution took so long.
    pub fn add(&self, nanoseconds: u64) {
        let mean = match self.mean.get() {
            0 => nanoseconds,
            mean => mean - mean / WEIGHT + nanoseconds / WEIGHT,
        };
        self.mean.set(mean.max(1));
    }

    /// The time that an execution takes; `None` when none was measured.
    pub fn expected(&self) -> Option<u64> {
        Some(self.mean.get()).filter(|mean| *mean > 0)
    }
}

/// Costs of transactions, those not known taken for the mean of the others; 1 each when none is
/// known.
pub fn fill_up(costs: &[Option<u64>]) -> Vec<u64> {
    let known = costs.iter().flatten().copied();
    let sum = known.clone().fold(0, u64::saturating_add);
    let mean = sum.checked_div(known.count() as u64).map_or(1, |mean| mean.max(1));
    costs.iter().map(|cost| cost.unwrap_or(mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::{fill_up, Cost};

    #[test]
    fn the_mean_follows_what_was_measured() {
        let cost = Cost::default();
        assert_eq!(cost.expected(), None);
        cost.add(1000);
        assert_eq!(cost.expected(), Some(1000));
        (0..100).for_each(|_| cost.add(5000));
        assert!(cost.expected().is_some_and(|mean| (4900..=5000).contains(&mean)), "{cost:?}");
        let due = (0..80).filter(|_| cost.is_due()).count();
        assert_eq!(due, 17, "8 at first, then each eighth");
    }

    #[test]
    fn what_is_not_known_costs_the_mean() {
        assert_eq!(fill_up(&[Some(2), None, Some(4)]), [2, 3, 4]);
        assert_eq!(fill_up(&[None, None]), [1, 1]);
        assert_eq!(fill_up(&[]), [0; 0]);
    }
}
