//! Blocks small enough to be read.

use chainify_sched::reorder::{reorder, reorder_within, Accesses, Limits, Reordering, Victim, Why, LIMITS};

use crate::{dissertation, transaction};

fn cycle(transaction: u32, place: u32, others: &[u32]) -> Victim {
    Victim { transaction, why: Why::Cycle { place, others: others.to_vec() } }
}

fn outcome(block: &[Accesses]) -> (Vec<u32>, Vec<Victim>) {
    let Reordering { order, victims, .. } = reorder(block);
    (order, victims)
}

#[test]
fn the_example_of_fabric_plus_plus_loses_t0_and_t2() {
    let (order, victims) = outcome(&dissertation());
    assert_eq!(order, [1, 3, 4, 5]);
    assert_eq!(victims, [cycle(0, 1, &[3]), cycle(2, 6, &[4])]);
    // The paper's order is T5, T1, T3, T4. T5 conflicts with none of those that remain.
    let rest: Vec<u32> = order.into_iter().filter(|tx| *tx != 5).collect();
    assert_eq!(rest, [1, 3, 4]);
    let alone =
        |tx: usize| !crate::model::before(&dissertation(), 5, tx) && !crate::model::before(&dissertation(), tx, 5);
    assert!([1, 3, 4].into_iter().all(alone));
}

#[test]
fn blocks_without_conflicts_keep_their_order() {
    assert_eq!(outcome(&[]), (vec![], vec![]));
    let apart: Vec<Accesses> = (0..5).map(|i| transaction(&[i, 9], &[i])).collect();
    assert_eq!(outcome(&apart), (vec![0, 1, 2, 3, 4], vec![]));
}

#[test]
fn readers_come_before_the_writer() {
    let block = [transaction(&[0], &[0]), transaction(&[0], &[1]), transaction(&[2], &[2]), transaction(&[0, 1], &[])];
    assert_eq!(outcome(&block), (vec![2, 3, 1, 0], vec![]));
}

#[test]
fn of_two_updates_of_a_row_one_remains() {
    let update = || transaction(&[7], &[7]);
    assert_eq!(outcome(&[update(), update()]), (vec![1], vec![cycle(0, 7, &[1])]));
    // Two inserts of one row saw that it was absent: the same.
    assert_eq!(outcome(&vec![update(); 9]).0, [8]);
}

#[test]
fn of_two_that_saw_what_the_other_writes_one_remains() {
    let block = [transaction(&[0, 1], &[0]), transaction(&[0, 1], &[1])];
    assert_eq!(outcome(&block), (vec![1], vec![cycle(0, 1, &[1])]));
}

#[test]
fn overwrites_of_a_place_keep_their_order() {
    assert_eq!(outcome(&vec![transaction(&[], &[3]); 4]).0, [0, 1, 2, 3]);
    // T3 comes before T0, which is to come before T1 and T2.
    let block = [transaction(&[], &[3, 4]), transaction(&[], &[3]), transaction(&[5], &[3]), transaction(&[4], &[6])];
    assert_eq!(outcome(&block), (vec![3, 0, 1, 2], vec![]));
    // T1 saw what T0 writes: a conflict outweighs the order.
    let block = [transaction(&[], &[3, 4]), transaction(&[4], &[3])];
    assert_eq!(outcome(&block), (vec![1, 0], vec![]));
}

#[test]
fn long_cycles_are_named_in_part() {
    let ring: Vec<Accesses> = (0..20).map(|tx| transaction(&[(tx + 1) % 20], &[tx])).collect();
    let (order, victims) = outcome(&ring);
    assert_eq!(order, (1..20).collect::<Vec<_>>());
    assert_eq!(victims, [cycle(0, 1, &[1, 2, 3, 4, 5, 6, 7, 8])]);
}

/// The cut by degree takes T0 to T2, the first ones of a ring of equals. T0 and T1 come back.
#[test]
fn victims_that_close_no_cycle_come_back() {
    let ring: Vec<Accesses> = (0..20).map(|tx| transaction(&[(tx + 1) % 20], &[tx])).collect();
    let by_degree = Limits { cycles: 0, ..LIMITS };
    let found = reorder_within(&ring, &by_degree);
    assert_eq!(found.order.len(), 19);
    assert_eq!(found.victims, [cycle(2, 3, &[3, 4, 5, 6, 7, 8, 9, 10])]);
    let without_chances = Limits { chance_steps: 0, ..by_degree };
    let found = reorder_within(&ring, &without_chances);
    assert_eq!(found.victims.len(), 1, "T0 and T1 have no conflict with those kept, on one side");
}

#[test]
fn without_steps_the_first_comers_remain() {
    let none = Limits { cut_steps: 0, chance_steps: 0, ..LIMITS };
    let block = [transaction(&[1], &[0]), transaction(&[0], &[2]), transaction(&[2], &[1]), transaction(&[9], &[9])];
    let found = reorder_within(&block, &none);
    // T1 saw what T0 writes. T2 saw what T1 alone writes.
    assert_eq!(found.order, [0, 2, 3]);
    assert_eq!(found.victims, [Victim { transaction: 1, why: Why::Place(0) }]);
}

#[test]
fn accesses_beyond_the_limit_are_victims() {
    let few = Limits { accesses: 4, ..LIMITS };
    let block = [transaction(&[1], &[1]), transaction(&[2, 3], &[3]), transaction(&[1], &[2])];
    let found = reorder_within(&block, &few);
    assert_eq!(found.order, [2, 0]);
    assert_eq!(found.victims, [Victim { transaction: 1, why: Why::Excess }]);
}
