//! S10: ordering the components of a block one by one gives the order of the block.

use chainify_seeded::check;
use std::cell::RefCell;

use chainify_sched::reorder::{reorder_within, Accesses, Counts, Limits, Reordering, Victim, Why, LIMITS};
use proptest::prelude::*;

use crate::properties::{any_limits, blocks, blocks_with};

/// By transaction, the number of its part: those that share a place which one of them writes are in
/// one. `mix` decides which components go together.
fn parts(block: &[Accesses], mix: u32) -> Vec<u32> {
    let touches = |tx: usize, place: &u32| block[tx].sees.contains(place) || block[tx].writes.contains(place);
    let share = |one: usize, other: usize| {
        block[one].writes.iter().any(|place| touches(other, place))
            || block[other].writes.iter().any(|place| touches(one, place))
    };
    let mut component: Vec<u32> = (0..block.len() as u32).collect();
    for other in 0..block.len() {
        for one in (0..other).filter(|one| share(*one, other)) {
            let (from, to) = (component[other], component[one]);
            component.iter_mut().filter(|number| **number == from).for_each(|number| *number = to);
        }
    }
    component.iter().map(|number| mix >> (number % 32) & 1).collect()
}

/// The order of the transactions of one part, by their numbers in the block.
fn order_of(block: &[Accesses], members: &[u32], limits: &Limits) -> Reordering {
    let own: Vec<Accesses> = members.iter().map(|tx| block[*tx as usize].clone()).collect();
    let found = reorder_within(&own, limits);
    let name = |tx: &u32| members[*tx as usize];
    let victim = |victim: &Victim| Victim {
        transaction: name(&victim.transaction),
        why: match &victim.why {
            Why::Cycle { place, others } => Why::Cycle { place: *place, others: others.iter().map(name).collect() },
            other => other.clone(),
        },
    };
    Reordering {
        order: found.order.iter().map(name).collect(),
        victims: found.victims.iter().map(victim).collect(),
        counts: found.counts,
    }
}

/// Any limits, or all but one out of reach.
fn some_limits() -> impl Strategy<Value = Limits> {
    let one = (0..3u8, 0..120u64).prop_map(|(which, limit)| match which {
        0 => Limits { accesses: limit, ..LIMITS },
        1 => Limits { cut_steps: limit, ..LIMITS },
        _ => Limits { chance_steps: limit, ..LIMITS },
    });
    prop_oneof![any_limits(), one]
}

/// A block that may come apart anywhere, or two that have nothing in common and many cycles.
fn divisible() -> impl Strategy<Value = Vec<Accesses>> {
    let two = (blocks_with(14, 10, 0.1), blocks_with(14, 10, 0.1)).prop_map(|(mut block, mut other)| {
        let places = other.iter_mut().flat_map(|a| a.sees.iter_mut().chain(&mut a.writes));
        places.for_each(|place| *place += 10);
        block.extend(other);
        block
    });
    prop_oneof![blocks(30, 60), two]
}

#[test]
fn the_order_of_a_block_is_that_of_its_parts() {
    let (tried, decided) = (RefCell::new(0), RefCell::new(0));
    check(6000, (divisible(), some_limits(), any::<u32>()), |(block, limits, mix)| {
        let whole = reorder_within(&block, &limits);
        let part = parts(&block, mix);
        let mut sums = Counts::default();
        let mut same = true;
        for number in 0..2 {
            let is_member = |tx: &u32| part[*tx as usize] == number;
            let members: Vec<u32> = (0..block.len() as u32).filter(is_member).collect();
            let own = order_of(&block, &members, &limits);
            sums.add(&own.counts);
            let order: Vec<u32> = whole.order.iter().copied().filter(is_member).collect();
            let victims: Vec<Victim> = whole.victims.iter().filter(|v| is_member(&v.transaction)).cloned().collect();
            same &= own.order == order && own.victims == victims;
        }
        let divided = part.contains(&0) && part.contains(&1) && !whole.victims.is_empty();
        if sums.fit(&limits) {
            prop_assert!(same, "{:?}", whole);
            prop_assert_eq!(sums, whole.counts);
            *tried.borrow_mut() += usize::from(divided);
        } else {
            *decided.borrow_mut() += usize::from(!same);
        }
        Ok(())
    });
    assert!(tried.into_inner() > 300, "divided blocks with victims fit the limits");
    assert!(decided.into_inner() > 100, "limits that do not fit decide something now and then");
}
