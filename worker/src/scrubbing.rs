//! The scrubber's next table, its pace, and the pause before a repair of the same finding.

use std::cmp::Reverse;
use std::time::Duration;

/// When a ledger table was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRead {
    /// PostgreSQL's number of the table.
    pub relation: u32,
    /// How long ago it was read; None: never.
    pub ago: Option<Duration>,
}

/// The table that was not read for longest, never read ones first, the first of equals; None when
/// each was read within `interval`.
pub fn next_table(tables: &[TableRead], interval: Duration) -> Option<u32> {
    let due = tables.iter().filter(|table| table.ago.is_none_or(|ago| ago > interval));
    due.min_by_key(|table| (table.ago.is_some(), Reverse(table.ago))).map(|table| table.relation)
}

/// How long so many rows take.
pub fn time_of(rows: u64, rows_per_second: u64) -> Duration {
    let nanos = u128::from(rows) * 1_000_000_000 / u128::from(rows_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The rows read so far, and the permitted rate.
#[derive(Clone, Debug)]
pub struct Pace {
    rows: u64,
    /// Rows and entries read for the sake of indexes.
    entries: u64,
    /// None: as fast as it goes.
    rows_per_second: Option<u64>,
}

/// This many index look-ups or entries count as one hashed row, because they take about as long.
const ENTRIES_PER_ROW: u64 = 8;
/// Entries from one look at the clock to the next.
const ENTRIES_BETWEEN_LOOKS: u64 = 4_096;

impl Pace {
    /// Starts with no rows read. A rate of 0 or below means no limit.
    pub fn new(rows_per_second: Option<i64>) -> Self {
        let rate = rows_per_second.and_then(|rate| u64::try_from(rate).ok()).filter(|rate| *rate > 0);
        Pace { rows: 0, entries: 0, rows_per_second: rate }
    }

    /// Rows read and hashed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// So many rows more.
    pub fn read(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// One entry more; whether it is time to look at the clock.
    pub fn read_entry(&mut self) -> bool {
        self.entries += 1;
        self.entries.is_multiple_of(ENTRIES_BETWEEN_LOOKS)
    }

    /// How long to wait now to keep the rate; `elapsed` is the time since the first row.
    pub fn ahead(&self, elapsed: Duration) -> Duration {
        let rows = self.rows + self.entries / ENTRIES_PER_ROW;
        let due = self.rows_per_second.map_or(Duration::ZERO, |rate| time_of(rows, rate));
        due.saturating_sub(elapsed)
    }
}

/// The shortest and the longest pause before a finding that came back after a repair is repaired
/// again.
const PAUSE_MIN: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// The pause before the repair of a finding that came back `again` times after a repair. Pauses
/// double. None: no pause.
pub fn pause_of_repair(again: i32) -> Option<Duration> {
    let doublings = u32::try_from(again).ok()?.checked_sub(1)?;
    Some(PAUSE_MIN.saturating_mul(1 << doublings.min(6)).min(PAUSE_MAX))
}
