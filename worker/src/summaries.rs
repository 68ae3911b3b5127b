//! Summaries of BRIN indexes on block numbers. A query for some blocks reads each range of pages
//! that has no summary. PostgreSQL makes summaries when it vacuums, which may be gigabytes later.
//! The maintenance worker makes the summary of a range as soon as the range is full.
//!
//! A summary holds the first and the last block of its range, and PostgreSQL never narrows it. New
//! rows reuse the pages of dropped ones, so each summary would soon cover every block. After blocks
//! were dropped, the worker makes all summaries anew.

use std::collections::BTreeMap;

/// With more ranges than this to summarise, the worker asks PostgreSQL to find and summarise them
/// all.
const ONE_BY_ONE: i64 = 1_000;

/// Ranges whose summaries the worker makes anew at a time. It locks their table against vacuum
/// meanwhile.
const ANEW: i64 = 250;

/// A BRIN index on block numbers, and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIndex {
    /// The index's oid.
    pub index: u32,
    /// Pages of the table.
    pub pages: i64,
    /// Pages of a range.
    pub pages_per_range: i64,
    /// The last block whose rows were dropped after archiving; 0: none.
    pub dropped: i64,
}

/// The ranges of an index that need a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Every range that has no summary.
    All,
    /// Some ranges, which have no summary.
    Ranges(Ranges),
    /// Some ranges, without regard to the summaries that they have.
    Anew(Ranges),
}

/// Neighbouring ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// First page of the first range.
    pub first: i64,
    /// First page of the last range.
    pub last: i64,
    /// Pages of a range.
    pub step: i64,
}

/// The progress of summaries in all indexes.
#[derive(Debug, Default)]
pub struct Summaries {
    indexes: BTreeMap<u32, Index>,
}

/// The progress of summaries in one index.
#[derive(Debug)]
struct Index {
    /// Pages that are in ranges with a summary.
    done: i64,
    /// The last block dropped, as of the last look.
    dropped: i64,
    /// Summaries cover no rows that were dropped up to this block.
    without: i64,
    /// While the worker makes summaries anew: the next page, and the value of `without` at the end.
    anew: Option<(i64, i64)>,
}

impl Summaries {
    /// The ranges that are due now; None: none are. While blocks are being dropped, no summary is
    /// made anew, since the next drop would make it due again.
    pub fn due(&mut self, of: &BlockIndex) -> Option<Due> {
        let Some(index) = self.indexes.get_mut(&of.index) else {
            return Some(Due::All);
        };
        let step = of.pages_per_range.max(1);
        match of.pages / step - index.done / step {
            ..=0 => {}
            1..=ONE_BY_ONE => {
                let (first, last) = (index.done, full(of) - step);
                return Some(Due::Ranges(Ranges { first, last, step }));
            }
            _ => return Some(Due::All),
        }
        let rests = of.dropped == std::mem::replace(&mut index.dropped, of.dropped);
        if index.anew.is_none() && rests && of.dropped != index.without {
            index.anew = Some((0, of.dropped));
        }
        let (first, without) = index.anew?;
        let last = (first + (ANEW - 1) * step).min(full(of) - step);
        if last < first {
            (index.without, index.anew) = (without, None);
            return None;
        }
        Some(Due::Anew(Ranges { first, last, step }))
    }

    /// To be called when the due ranges of an index have their summaries.
    pub fn summed_up(&mut self, of: &BlockIndex, due: Due) {
        let fresh = Index { done: 0, dropped: of.dropped, without: 0, anew: None };
        let index = self.indexes.entry(of.index).or_insert(fresh);
        match (due, &mut index.anew) {
            (Due::Anew(ranges), Some((next, _))) => *next = ranges.last + ranges.step,
            _ => index.done = full(of),
        }
    }

    /// Forgets indexes that are gone.
    pub fn keep(&mut self, there: &[BlockIndex]) {
        self.indexes.retain(|index, _| there.iter().any(|of| of.index == *index));
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
        BlockIndex { index: 7, pages, pages_per_range: 16, dropped: 0 }
    }

    fn ranges(first: i64, last: i64) -> Option<Due> {
        Some(Due::Ranges(Ranges { first, last, step: 16 }))
    }

    fn anew(first: i64, last: i64) -> Option<Due> {
        Some(Due::Anew(Ranges { first, last, step: 16 }))
    }

    #[test]
    fn a_range_is_due_once_and_when_it_is_full() {
        let mut summaries = Summaries::default();
        assert_eq!(summaries.due(&index(40)), Some(Due::All));
        summaries.summed_up(&index(40), Due::All);
        for pages in [40, 47, 10, 0] {
            assert_eq!(summaries.due(&index(pages)), None, "{pages} pages");
        }
        assert_eq!(summaries.due(&index(48)), ranges(32, 32));
        assert_eq!(summaries.due(&index(81)), ranges(32, 64));
        summaries.summed_up(&index(81), Due::All);
        assert_eq!(summaries.due(&index(95)), None);
    }

    #[test]
    fn many_ranges_are_looked_for_at_once() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(0), Due::All);
        assert_eq!(summaries.due(&index(16_000)), ranges(0, 15_984));
        assert_eq!(summaries.due(&index(16_016)), Some(Due::All));
    }

    #[test]
    fn a_table_that_shrank_grows_anew() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(160), Due::All);
        summaries.summed_up(&index(16), Due::All);
        assert_eq!(summaries.due(&index(32)), ranges(16, 16));
    }

    #[test]
    fn an_index_that_is_gone_is_forgotten() {
        let mut summaries = Summaries::default();
        summaries.summed_up(&index(16), Due::All);
        summaries.keep(&[BlockIndex { index: 8, ..index(16) }]);
        assert_eq!(summaries.due(&index(16)), Some(Due::All));
    }

    #[test]
    fn all_ranges_are_summed_up_anew_when_dropping_rests() {
        let at = |dropped| BlockIndex { dropped, ..index(16 * 600 + 5) };
        let mut summaries = Summaries::default();
        summaries.summed_up(&at(0), Due::All);
        assert_eq!(summaries.due(&at(0)), None);
        for dropped in [10, 20, 30] {
            assert_eq!(summaries.due(&at(dropped)), None, "blocks up to {dropped} went just now");
        }
        for (first, last) in [(0, 249), (250, 499), (500, 599)] {
            let due = summaries.due(&at(30));
            assert_eq!(due, anew(16 * first, 16 * last));
            assert_eq!(summaries.due(&at(30)), due, "until it is done");
            summaries.summed_up(&at(30), due.unwrap());
        }
        assert_eq!(summaries.due(&at(30)), None);
        assert_eq!(summaries.due(&at(30)), None);
    }

    #[test]
    fn what_is_dropped_meanwhile_makes_them_due_again() {
        let at = |dropped| BlockIndex { dropped, ..index(16 * 300) };
        let mut summaries = Summaries::default();
        summaries.summed_up(&at(0), Due::All);
        assert_eq!(summaries.due(&at(7)), None);
        let mut seen = Vec::new();
        for dropped in [7, 8, 8, 8, 8, 8, 8] {
            let due = summaries.due(&at(dropped));
            seen.push(due);
            if let Some(due) = due {
                summaries.summed_up(&at(dropped), due);
            }
        }
        let (first, rest) = (anew(0, 16 * 249), anew(16 * 250, 16 * 299));
        assert_eq!(seen, [first, rest, None, first, rest, None, None]);
    }

    #[test]
    fn a_worker_that_starts_sums_up_what_was_dropped_before() {
        let of = BlockIndex { dropped: 9, ..index(40) };
        let mut summaries = Summaries::default();
        for due in [Some(Due::All), anew(0, 16)] {
            assert_eq!(summaries.due(&of), due);
            summaries.summed_up(&of, due.unwrap());
        }
        assert_eq!(summaries.due(&of), None);
    }

    #[test]
    fn new_ranges_come_before_those_anew() {
        let at = |pages| BlockIndex { dropped: 9, ..index(pages) };
        let mut summaries = Summaries::default();
        summaries.summed_up(&at(16), Due::All);
        assert_eq!(summaries.due(&at(32)), ranges(16, 16));
        summaries.summed_up(&at(32), Due::Ranges(Ranges { first: 16, last: 16, step: 16 }));
        assert_eq!(summaries.due(&at(32)), anew(0, 16));
    }
}
