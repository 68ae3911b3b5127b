//! Properties of random blocks, against models that compare every pair.

use chainify_seeded::check;
use std::cell::RefCell;

use chainify_sched::reorder::{reorder, reorder_within, Accesses, Limits, Reordering, Why, LIMITS, OTHERS_MAX};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::model::{before, first_comers, has_no_cycle, most_without_cycle, replays};

/// Most transactions saw what they write.
pub(crate) fn blocks(count: usize, places: u32) -> impl Strategy<Value = Vec<Accesses>> {
    blocks_with(count, places, 0.8)
}

/// This share of the transactions saw what they write.
pub(crate) fn blocks_with(count: usize, places: u32, saw: f64) -> impl Strategy<Value = Vec<Accesses>> {
    let some = move || btree_set(0..places, 0..4);
    let one = (some(), some(), prop::bool::weighted(saw)).prop_map(|(mut sees, writes, saw)| {
        if saw {
            sees.extend(&writes);
        }
        Accesses { sees: sees.into_iter().collect(), writes: writes.into_iter().collect() }
    });
    vec(one, 0..=count)
}

pub(crate) fn any_limits() -> impl Strategy<Value = Limits> {
    let some = |most: u64| prop_oneof![2 => Just(u64::MAX), 1 => Just(0), 3 => 0..most];
    (some(200), some(300), some(40), some(1000), some(300)).prop_map(
        |(accesses, cut_steps, cycles, cycle_steps, chance_steps)| Limits {
            accesses: accesses.min(LIMITS.accesses),
            cut_steps: cut_steps.min(LIMITS.cut_steps),
            cycles: cycles.min(LIMITS.cycles),
            cycle_steps: cycle_steps.min(LIMITS.cycle_steps),
            chance_steps: chance_steps.min(LIMITS.chance_steps),
        },
    )
}

fn victims(found: &Reordering) -> Vec<u32> {
    found.victims.iter().map(|victim| victim.transaction).collect()
}

/// S9, and each transaction is in the order or a victim.
#[test]
fn the_order_replays_within_any_limits() {
    check(4000, (blocks(30, 24), any_limits()), |(block, limits)| {
        let found = reorder_within(&block, &limits);
        prop_assert!(replays(&block, &found.order), "{:?}", found);
        prop_assert!(victims(&found).is_sorted());
        let mut all = [found.order.clone(), victims(&found)].concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..block.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(reorder_within(&block, &limits), found, "the same again");
        Ok(())
    });
}

/// The numbers of places, and the order and repetition in which they are given, decide nothing.
#[test]
fn the_numbers_of_places_decide_nothing() {
    check(1000, (blocks(30, 24), any::<u32>()), |(block, salt)| {
        let other = |place: &u32| (place ^ 7).wrapping_mul(0x9e37_79b1) ^ salt;
        let turned = |places: &[u32]| places.iter().rev().chain(places).map(other).collect::<Vec<_>>();
        let renamed: Vec<Accesses> = block
            .iter()
            .map(|accesses| Accesses { sees: turned(&accesses.sees), writes: turned(&accesses.writes) })
            .collect();
        let (one, two) = (reorder(&block), reorder(&renamed));
        prop_assert_eq!(&one.order, &two.order);
        prop_assert_eq!(victims(&one), victims(&two));
        let steps = |of: &Reordering| (of.counts.cut_steps, of.counts.chance_steps);
        prop_assert_eq!(steps(&one), steps(&two));
        Ok(())
    });
}

#[test]
fn nothing_is_a_victim_without_a_cycle() {
    let kept = RefCell::new(0);
    check(3000, blocks(12, 40), |block| {
        let all: Vec<u32> = (0..block.len() as u32).collect();
        let found = reorder(&block);
        prop_assert_eq!(found.victims.is_empty(), has_no_cycle(&block, &all));
        *kept.borrow_mut() += usize::from(found.victims.is_empty() && block.len() > 3);
        // The order of the block stays where it is valid.
        prop_assert!(!replays(&block, &all) || found.order == all);
        Ok(())
    });
    assert!(kept.into_inner() > 100, "the property was tried");
}

/// Each victim closes a cycle with those that remain, and its reason is such a cycle.
#[test]
fn each_victim_closes_the_cycle_that_it_names() {
    check(3000, (blocks(30, 24), 0..40u64), |(block, cycles)| {
        let found = reorder_within(&block, &Limits { cycles, ..LIMITS });
        for victim in &found.victims {
            let with = [found.order.clone(), vec![victim.transaction]].concat();
            prop_assert!(!has_no_cycle(&block, &with), "T{} is dropped for nothing", victim.transaction);
            let Why::Cycle { place, others } = &victim.why else { panic!("a small block: {victim:?}") };
            prop_assert!(others.iter().all(|other| found.order.contains(other)) && !others.is_empty());
            let path = [vec![victim.transaction], others.clone()].concat();
            for pair in path.windows(2) {
                prop_assert!(before(&block, pair[0] as usize, pair[1] as usize), "T{} and T{}", pair[0], pair[1]);
            }
            let back = before(&block, path[path.len() - 1] as usize, victim.transaction as usize);
            prop_assert!(back || others.len() == OTHERS_MAX);
            let (one, next) = (&block[path[0] as usize], &block[path[1] as usize]);
            prop_assert!(one.sees.contains(place) && next.writes.contains(place));
        }
        Ok(())
    });
}

#[test]
fn overwrites_keep_their_order_where_they_can() {
    let tried = RefCell::new(0);
    check(3000, blocks(10, 12), |block| {
        let found = reorder(&block);
        let overwrites = |tx: u32, place: &u32| !block[tx as usize].sees.contains(place);
        let behind = |first: u32, second: u32| {
            let shared = |place: &&u32| block[second as usize].writes.contains(place);
            let mut shared = block[first as usize].writes.iter().filter(shared);
            first < second && shared.any(|place| overwrites(first, place) && overwrites(second, place))
        };
        // Conflicts as well as pairs of overwrites, if no cycle is among them, hold.
        let follows =
            |first: u32, second: u32| before(&block, first as usize, second as usize) || behind(first, second);
        let mut left = found.order.clone();
        while let Some(at) = left.iter().position(|tx| !left.iter().any(|other| other != tx && follows(*other, *tx))) {
            left.swap_remove(at);
        }
        for (at, first) in found.order.iter().enumerate() {
            for second in &found.order[at + 1..] {
                *tried.borrow_mut() += usize::from(behind(*first, *second));
                prop_assert!(!left.is_empty() || !behind(*second, *first), "T{} before T{}", first, second);
            }
        }
        Ok(())
    });
    assert!(tried.into_inner() > 100, "the property was tried");
}

/// Counts, for a report: the cut is greedy, so it keeps fewer than could be kept now and then.
#[test]
fn small_blocks_against_the_best_cut() {
    let counts = RefCell::new([0usize; 5]);
    check(3000, (4..14u32).prop_flat_map(|places| blocks(8, places)), |block| {
        let (found, best, first) = (reorder(&block), most_without_cycle(&block), first_comers(&block));
        prop_assert!(found.order.len() <= best, "{} of at most {}", found.order.len(), best);
        let mut counts = counts.borrow_mut();
        if best < block.len() {
            counts[0] += 1;
            counts[1] += usize::from(found.order.len() < best);
            counts[2] += best;
            counts[3] += found.order.len();
            counts[4] += first;
        }
        Ok(())
    });
    let [blocks, worse, best, kept, first] = counts.into_inner();
    println!("{blocks} blocks with cycles: {worse} keep fewer than the best cut; transactions kept: best {best}, here {kept}, in block order {first}");
    assert!(blocks > 500 && worse * 20 < blocks, "more than one of twenty keeps fewer");
}
