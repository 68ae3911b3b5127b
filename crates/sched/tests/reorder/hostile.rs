//! Blocks that are made to cost much.

use chainify_sched::reorder::{reorder, reorder_within, Accesses, Limits, Reordering, LIMITS};

use crate::model::replays;
use crate::transaction;

/// The steps that a block may take: each limit, and what one piece of work may exceed it by.
fn within_steps(found: &Reordering) -> bool {
    let cut = LIMITS.cut_steps + 2 * LIMITS.cycle_steps + 2 * LIMITS.accesses;
    found.counts.cut_steps <= cut && found.counts.chance_steps <= LIMITS.chance_steps + 3 * LIMITS.accesses
}

fn check(block: &[Accesses]) -> Reordering {
    let found = reorder(block);
    assert!(within_steps(&found), "{} and {} steps", found.counts.cut_steps, found.counts.chance_steps);
    assert!(replays(block, &found.order));
    assert_eq!(found.order.len() + found.victims.len(), block.len());
    found
}

/// A linear congruential generator: the same blocks every time.
fn drawn(count: usize, [sees, writes, places]: [usize; 3]) -> Vec<Accesses> {
    let mut state = 7u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % end as u64) as u32
    };
    let mut some = |count: usize| (0..count).map(|_| below(places)).collect::<Vec<_>>();
    (0..count).map(|_| Accesses { sees: some(sees), writes: some(writes) }).collect()
}

#[test]
fn long_chains_and_rings_need_no_stack() {
    let count = 10_000;
    let chain: Vec<Accesses> = (0..count).map(|tx| transaction(&[tx + 1], &[tx])).collect();
    assert_eq!(check(&chain).order, (0..count).collect::<Vec<_>>());
    let turned: Vec<Accesses> = (0..count).map(|tx| transaction(&[tx], &[tx + 1])).collect();
    assert_eq!(check(&turned).order, (0..count).rev().collect::<Vec<_>>());
    let ring: Vec<Accesses> = (0..count).map(|tx| transaction(&[(tx + 1) % count], &[tx])).collect();
    assert_eq!(check(&ring).victims.len(), 1);
    let by_cycles = Limits { cycles: 1, cycle_steps: u64::MAX, ..LIMITS };
    assert_eq!(reorder_within(&ring, &by_cycles).victims.len(), 1, "one cycle of all");
}

#[test]
fn dense_blocks_stay_within_the_steps() {
    assert_eq!(check(&vec![transaction(&[0], &[0]); 10_000]).order, [9_999]);
    let half: Vec<Accesses> =
        (0..10_000).map(|tx| if tx < 5_000 { transaction(&[], &[0]) } else { transaction(&[0], &[]) }).collect();
    let found = check(&half);
    assert_eq!(found.order, (5_000..10_000).chain(0..5_000).collect::<Vec<_>>());
    for shape in [[10, 10, 1_000], [25, 25, 100_000], [25, 25, 50], [50, 1, 10_000], [2, 2, 20_000]] {
        check(&drawn(10_000, shape));
    }
}

/// Thousands of small groups have many cycles each, and together more than can be looked for.
#[test]
fn many_groups_stay_within_the_steps() {
    let grid = |group: u32, tx: u32| {
        let place = |row: u32, column: u32| group * 100 + row * 10 + column;
        let sees: Vec<u32> = (0..3).map(|step| place((tx + step + 1) % 8, step)).collect();
        let writes: Vec<u32> = (0..3).map(|step| place(tx, step)).collect();
        transaction(&sees, &writes)
    };
    let block: Vec<Accesses> = (0..1_250).flat_map(|group| (0..8).map(move |tx| grid(group, tx))).collect();
    let found = check(&block);
    assert!(found.counts.cut_steps > LIMITS.cut_steps, "the limit was reached, {} steps", found.counts.cut_steps);
}

#[test]
fn accesses_of_a_block_are_bounded() {
    let block = drawn(1_000, [2_000, 2_000, 50_000]);
    let found = check(&block);
    let admitted = (LIMITS.accesses / 4_000) as usize;
    let excess = found.victims.iter().filter(|victim| victim.why == chainify_sched::reorder::Why::Excess).count();
    assert_eq!(excess, block.len() - admitted);
    // Small ones behind still fit.
    let with_small = [block, vec![transaction(&[0], &[0])]].concat();
    assert!(check(&with_small)
        .victims
        .iter()
        .all(|victim| victim.transaction != 1_000 || victim.why != chainify_sched::reorder::Why::Excess));
}
