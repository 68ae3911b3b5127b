//! The blocks that maintenance takes in one step: bounded, without gaps, and to the end.

use chainify_seeded::check;
use std::time::Duration;

use chainify_worker::steps::{audit_range, checkpoint_is_due, fold_range, Past, Range, BLOCKS_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

const INTERVAL: Duration = Duration::from_secs(600);

/// Blocks 1 and following, with their changes.
fn blocks(changes: &[i64]) -> impl Fn(Range) -> Vec<(i64, i64)> + '_ {
    |range| {
        let numbered = (1..).zip(changes.iter().copied());
        numbered.filter(|(number, _)| *number > range.after && *number <= range.to).collect()
    }
}

fn to(range: Option<Range>) -> Option<i64> {
    range.map(|range| range.to)
}

#[test]
fn a_checkpoint_has_its_turn_or_follows_a_deploy() {
    let due = |number, interval| checkpoint_is_due(number, interval, false);
    assert!(due(100, Some(100)) && due(200, Some(100)) && !due(101, Some(100)) && !due(100, None));
    assert!(checkpoint_is_due(101, Some(100), true) && checkpoint_is_due(1, None, true));
}

#[test]
fn a_step_ends_before_there_are_too_many_changes() {
    let fold = |changes: &[i64]| to(fold_range(0, 5, 10, blocks(changes)));
    assert_eq!(fold(&[4, 4, 2, 1, 0]), Some(3));
    assert_eq!(fold(&[4, 7, 0, 0, 0]), Some(1));
    assert_eq!(fold(&[99, 0, 0, 0, 0]), Some(1)); // a block is folded whole
    assert_eq!(fold(&[0; 9]), Some(5)); // up to the checkpoint
    assert_eq!(fold(&[]), None);
    assert_eq!(to(fold_range(0, 5_000, 10, blocks(&[0; 5_000]))), Some(BLOCKS_MAX));
}

/// Step by step, folding gets to its checkpoint; each step makes at most so many changes, unless it
/// is of one block.
#[test]
fn folding_gets_there() {
    check(1_000, (vec(0i64..50, 1..60), 0i64..100), |(changes, most)| {
        let (target, mut at) = (changes.len() as i64, 0);
        while at < target {
            let range = fold_range(at, target, most, blocks(&changes)).unwrap();
            prop_assert_eq!(range.after, at);
            prop_assert!(range.to > at && range.to <= target);
            let made: i64 = changes[at as usize..range.to as usize].iter().sum();
            prop_assert!(made <= most || range.to == at + 1);
            // As far as it may.
            let next = changes.get(range.to as usize).filter(|_| range.to < target);
            prop_assert!(next.is_none_or(|next| made + next > most));
            at = range.to;
        }
        Ok(())
    });
}

fn audit(read: i64, ago: Option<Duration>, base: i64, changes: &[i64]) -> Option<Range> {
    audit_range(Past { read, ago }, base, INTERVAL, 10, blocks(changes))
}

#[test]
fn a_pass_over_the_past_begins_in_its_time() {
    let begins = |ago| audit(0, ago, 3, &[1; 9]).is_some();
    assert!(begins(None) && begins(Some(INTERVAL + Duration::from_micros(1))) && !begins(Some(INTERVAL)));
    // One under way goes on.
    assert_eq!(audit(2, Some(Duration::ZERO), 3, &[1; 9]), Some(Range { after: 2, to: 3 }));
    // Nothing is folded yet.
    assert_eq!(audit(0, None, 0, &[1; 9]), None);
}

#[test]
fn a_pass_ends_with_an_empty_range() {
    assert_eq!(audit(3, None, 3, &[1; 9]), Some(Range { after: 3, to: 3 }));
    // Recovery may have put the bases back meanwhile.
    assert_eq!(audit(7, None, 3, &[1; 9]), Some(Range { after: 7, to: 7 }));
}

#[test]
fn missing_blocks_are_read_over() {
    assert_eq!(audit(0, None, 4, &[]), Some(Range { after: 0, to: 4 }));
    assert_eq!(to(audit(0, None, 5_000, &[])), Some(BLOCKS_MAX));
    assert_eq!(to(audit_range(Past { read: 1, ago: None }, 9, INTERVAL, 10, |_| [(5, 3), (6, 8)])), Some(5));
    // The first one that is there is too large: all up to the base, so that the pass goes on.
    assert_eq!(to(audit_range(Past { read: 1, ago: None }, 9, INTERVAL, 10, |_| [(5, 11)])), Some(9));
}
