//! Indexes by block hold a summary of each range of a table's pages. A range without one is read by
//! every query of some blocks. PostgreSQL makes summaries when it vacuums, which may be gigabytes
//! later. Here a range gets its own as soon as it is full.

use std::collections::BTreeMap;

/// Ranges that are summed up one by one; more than these are looked for by PostgreSQL.
const ONE_BY_ONE: i64 = 1_000;

/// An index by block, and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIndex {
    /// The index's oid.
    pub index: u32,
    /// Pages of the table.
    pub pages: i64,
    /// Pages of a range.
    pub pages_per_range: i64,
}

/// The ranges of an index that are to be summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Every range that has no summary.
    All,
    /// The ranges that begin with these pages: the first, the last, and from one to the next.
    Ranges {
        /// First page of the first range.
        first: i64,
        /// First page of the last range.
        last: i64,
        /// Pages of a range.
        step: i64,
    },
}

/// How far indexes are summed up.
#[derive(Debug, Default)]
pub struct Summaries {
    /// Pages that are in ranges with a summary, by index.
    done: BTreeMap<u32, i64>,
}

impl Summaries {
    /// The ranges that are due now; None: no range is full that was not summed up.
    pub fn due(&self, of: &BlockIndex) -> Option<Due> {
        let Some(done) = self.done.get(&of.index) else {
            return Some(Due::All);
        };
        let step = of.pages_per_range.max(1);
        match of.pages / step - done / step {
            ..=0 => None,
            1..=ONE_BY_ONE => Some(Due::Ranges { first: *done, last: full(of) - step, step }),
            _ => Some(Due::All),
        }
    }

    /// To be called when all that was due of an index is summed up.
    pub fn summed_up(&mut self, of: &BlockIndex) {
        self.done.insert(of.index, full(of));
    }

    /// Forgets indexes that are gone.
    pub fn keep(&mut self, there: &[BlockIndex]) {
        self.done.retain(|index, _| there.iter().any(|of| of.index == *index));
    }
}

/// Pages in ranges that are full.
fn full(of: &BlockIndex) -> i64 {
    let step = of.pages_per_range.max(1);
    of.pages / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(pages: i64) -> BlockIndex {
        BlockIndex { index: 7, pages, pages_per_range: 16 }
    }

    #[test]
    fn a_range_is_due_once_and_when_it_is_full() {
        let mut summaries = Summaries::default();
        assert_eq!(summaries.due(&index(40)), Some(Due::All));
        summaries.summed_up(&index(40));
        for pages in [40, 47, 10, 0] {
            assert_eq!(summaries.due(&index(pages)), None, "{pages} pages");
        }
        assert_eq!(summaries.due(&index(48)), Some(Due::Ranges { first: 32, last: 32, step: 16 }));
        assert_eq!(summaries.due(&index(81)), Some(Due::Ranges { first: 32, last: 64, step: 16 }));
        summaries.summed_up(&index(81));
        assert_eq!(summaries.due(&index(95)), None);
    }

    #[test]
    fn many_ranges_are_looked_for_at_once() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(0));
        assert_eq!(summaries.due(&index(16_000)), Some(Due::Ranges { first: 0, last: 15_984, step: 16 }));
        assert_eq!(summaries.due(&index(16_016)), Some(Due::All));
    }

    #[test]
    fn a_table_that_shrank_grows_anew() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(160));
        summaries.summed_up(&index(16));
        assert_eq!(summaries.due(&index(32)), Some(Due::Ranges { first: 16, last: 16, step: 16 }));
    }

    #[test]
    fn an_index_that_is_gone_is_forgotten() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(16));
        summaries.keep(&[BlockIndex { index: 8, ..index(16) }]);
        assert_eq!(summaries.due(&index(16)), Some(Due::All));
    }
}
