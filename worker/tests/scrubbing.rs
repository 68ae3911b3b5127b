//! Which table the scrubber reads next, at what pace, and how long a repair waits that did not end
//! a deviation.

use chainify_seeded::check;
use std::time::Duration;

use chainify_worker::scrubbing::{next_table, pause_of_repair, time_of, Pace, TableRead};
use proptest::collection::vec;
use proptest::prelude::*;

const INTERVAL: Duration = Duration::from_secs(600);

fn tables(ago: &[Option<u64>]) -> Vec<TableRead> {
    let table = |(at, ago): (usize, &Option<u64>)| TableRead { relation: at as u32, ago: ago.map(Duration::from_secs) };
    ago.iter().enumerate().map(table).collect()
}

#[test]
fn a_table_that_was_never_read_comes_first() {
    assert_eq!(next_table(&tables(&[Some(9_999), None, None]), INTERVAL), Some(1));
    assert_eq!(next_table(&tables(&[Some(601), Some(700), Some(700)]), INTERVAL), Some(1));
    assert_eq!(next_table(&tables(&[Some(600), Some(0)]), INTERVAL), None);
    assert_eq!(next_table(&[], INTERVAL), None);
}

/// However often tables are read out of turn, each is read again in its time.
#[test]
fn every_table_has_its_turn() {
    check(500, vec(prop::option::of(0u64..2_000), 1..20), |ago| {
        let mut tables = tables(&ago);
        let due = tables.iter().filter(|t| t.ago.is_none_or(|ago| ago > INTERVAL)).count();
        let mut read = Vec::new();
        while let Some(relation) = next_table(&tables, INTERVAL) {
            prop_assert!(read.len() < due, "{relation} is read although none is due");
            read.push(ago[relation as usize].map_or(u64::MAX, |ago| ago));
            tables[relation as usize].ago = Some(Duration::ZERO);
        }
        prop_assert_eq!(read.len(), due);
        prop_assert!(read.is_sorted_by(|a, b| a >= b), "the longest unread first: {:?}", read);
        Ok(())
    });
}

#[test]
fn rows_take_their_time() {
    let mut pace = Pace::new(Some(1_000));
    pace.read(500);
    assert_eq!(pace.ahead(Duration::ZERO), Duration::from_millis(500));
    assert_eq!(pace.ahead(Duration::from_millis(300)), Duration::from_millis(200));
    assert_eq!(pace.ahead(Duration::from_secs(9)), Duration::ZERO);
    assert_eq!(pace.rows(), 500);
    for rate in [None, Some(0), Some(-1)] {
        let mut pace = Pace::new(rate);
        pace.read(u64::MAX / 2);
        assert_eq!(pace.ahead(Duration::ZERO), Duration::ZERO);
    }
    assert_eq!(time_of(u64::MAX, 1), Duration::from_nanos(u64::MAX));
}

#[test]
fn eight_entries_of_an_index_count_as_a_row() {
    let mut pace = Pace::new(Some(1_000));
    let looks: Vec<_> = (1..=10_000).filter(|_| pace.read_entry()).collect();
    assert_eq!(looks, [4_096, 8_192]);
    assert_eq!(pace.ahead(Duration::ZERO), Duration::from_millis(1_250));
    assert_eq!(pace.rows(), 0);
}

#[test]
fn pauses_double_from_a_minute_to_an_hour() {
    let minutes = |again| pause_of_repair(again).map(|pause| pause.as_secs() / 60);
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7, 8, i32::MAX].map(minutes),
        [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), Some(60), Some(60)]
    );
}
