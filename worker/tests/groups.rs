//! Groups: every transaction runs once, groups grow with successes, and the members of a group that
//! failed run alone.

use chainify_seeded::check;
use chainify_worker::groups::{Pace, MEMBERS_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

/// A transaction of a block, as far as pacing sees it.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    may_share: bool,
    fails: bool,
}

const GOOD: Transaction = Transaction { may_share: true, fails: false };
const BAD: Transaction = Transaction { may_share: true, fails: true };
const DEPLOY: Transaction = Transaction { may_share: false, fails: false };

/// One run: first position, how many, whether they succeeded.
type Run = (usize, usize, bool);

/// Runs a block as the extension does.
fn run(pace: &mut Pace, after: Option<usize>, block: &[Transaction]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < block.len() {
        assert!(runs.len() < 2 * block.len(), "runs the same again and again: {runs:?}");
        let rest = &block[at..];
        let members = pace.members(after, rest.iter().map(|t| t.may_share));
        let succeeded = !rest[..members.unwrap_or(1)].iter().any(|t| t.fails);
        runs.push((at, members.unwrap_or(1), succeeded));
        match members {
            Some(members) => {
                *pace = pace.ran_together(members, succeeded, after);
                at += if succeeded { members } else { 0 };
            }
            None => {
                *pace = pace.ran_alone(succeeded, after);
                at += 1;
            }
        }
    }
    runs
}

fn sizes(runs: &[Run]) -> Vec<usize> {
    runs.iter().map(|(_, members, _)| *members).collect()
}

#[test]
fn a_group_grows_by_one_member_for_each_so_many_successes() {
    let runs = run(&mut Pace::new(), Some(2), &[GOOD; 20]);
    // Successes before each: 0, 1, 2, 4, 7, 11, 17; members are 1 + successes / 2.
    assert_eq!(sizes(&runs), [1, 1, 2, 3, 4, 6, 3]);
}

#[test]
fn groups_stop_growing_and_one_failure_begins_again() {
    let mut pace = Pace::new();
    let runs = run(&mut pace, Some(1), &[GOOD; 500]);
    assert_eq!(runs[runs.len() - 3].1, MEMBERS_MAX);
    // However long all went well: a failure is not made up for by what came long before it.
    assert_eq!(sizes(&run(&mut pace, Some(1), &[BAD]))[0], 1);
    assert_eq!(sizes(&run(&mut pace, Some(1), &[GOOD; 7])), [1, 2, 4]);
}

#[test]
fn zero_is_a_whole_group_at_once_and_none_is_no_group() {
    assert_eq!(sizes(&run(&mut Pace::new(), Some(0), &[GOOD; 70])), [32, 32, 6]);
    assert_eq!(sizes(&run(&mut Pace::new(), None, &[GOOD; 3])), [1, 1, 1]);
}

#[test]
fn members_of_a_group_that_failed_run_alone_each() {
    let mut block = [GOOD; 40];
    block[3] = BAD;
    let runs = run(&mut Pace::new(), Some(0), &block);
    assert_eq!(runs[0], (0, 32, false));
    assert_eq!(sizes(&runs[1..33]), [1; 32]);
    assert_eq!(runs[33..], [(32, 8, true)]);
}

#[test]
fn a_deploy_ends_a_group_and_stays_alone() {
    let block = [GOOD, GOOD, DEPLOY, GOOD, DEPLOY, DEPLOY, GOOD, GOOD];
    assert_eq!(sizes(&run(&mut Pace::new(), Some(0), &block)), [2, 1, 1, 1, 1, 2]);
}

#[test]
fn every_transaction_runs_to_its_end_once() {
    let transaction = (any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(share, fails)| Transaction { may_share: share || !fails, fails });
    let after = prop_oneof![Just(None), (0usize..40).prop_map(Some)];
    check(4000, (vec(vec(transaction, 0..120), 1..4), after), |(blocks, after)| {
        let mut pace = Pace::new();
        for block in blocks {
            let runs = run(&mut pace, after, &block);
            let (mut next, mut alone) = (0, 0);
            for (at, members, succeeded) in runs {
                prop_assert_eq!(at, next);
                prop_assert!((1..=MEMBERS_MAX).contains(&members));
                let group = &block[at..at + members];
                prop_assert!(members == 1 || (alone == 0 && group.iter().all(|t| t.may_share)));
                let undone = members > 1 && !succeeded;
                next += if undone { 0 } else { members };
                alone = if undone { members } else { alone.saturating_sub(1) };
            }
            prop_assert_eq!(next, block.len());
            // A group is shorter than what may share now, so its members end with the block at the
            // latest.
            prop_assert_eq!(alone, 0);
        }
        Ok(())
    });
}
