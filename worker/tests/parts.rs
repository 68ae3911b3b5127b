//! Blocks that run alone after parts did not go well, and what it means that parts paid.

use chainify_seeded::check;
use std::time::Duration;

use chainify_worker::parts::{paid, Pause, PAUSE_MAX, TRANSACTIONS_MIN};
use proptest::collection::vec;
use proptest::prelude::*;

/// How many blocks run alone until parts are looked for again.
fn alone(pause: &mut Pause) -> u32 {
    (0..1_000).find(|_| pause.may_pay(TRANSACTIONS_MIN, false)).expect("looks for parts again some day")
}

#[test]
fn pauses_double_and_are_halved() {
    let mut pause = Pause::default();
    let mut lengths = Vec::new();
    for _ in 0..8 {
        pause.failed();
        lengths.push(alone(&mut pause));
    }
    assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64]);
    pause.went_well();
    assert_eq!(alone(&mut pause), 0);
    pause.failed();
    assert_eq!(alone(&mut pause), 64);
    // A test may have had a block divided in the middle of a pause.
    pause.failed();
    pause.went_well();
    assert_eq!(alone(&mut pause), 0);
}

#[test]
fn small_blocks_and_blocks_executed_again_run_alone_and_do_not_count() {
    let mut pause = Pause::default();
    assert!(!pause.may_pay(TRANSACTIONS_MIN - 1, false) && !pause.may_pay(1_000, true));
    pause.failed();
    assert!(!pause.may_pay(TRANSACTIONS_MIN - 1, false) && !pause.may_pay(1_000, true));
    assert_eq!(alone(&mut pause), 1);
}

/// However blocks go, parts are looked for again after at most so many blocks.
#[test]
fn no_pause_is_for_ever() {
    check(1_000, vec(any::<bool>(), 0..40), |history| {
        let mut pause = Pause::default();
        for well in history {
            prop_assert!(alone(&mut pause) <= PAUSE_MAX);
            match well {
                true => pause.went_well(),
                false => pause.failed(),
            }
        }
        Ok(())
    });
}

#[test]
fn parts_pay_when_the_block_would_have_taken_longer_alone() {
    let millis = Duration::from_millis;
    // The first part was a third of the block and ran for 10 ms: alone it takes 30.
    assert!(paid(millis(29), millis(10), 1, 3) && !paid(millis(30), millis(10), 1, 3));
    assert!(paid(Duration::MAX, Duration::MAX, 1, u64::MAX) && !paid(Duration::MAX, Duration::MAX, u64::MAX, 1));
}
