//! Orders the transactions that are not victims.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::conflicts::{Access, Conflicts};
use crate::lists::Lists;
use crate::TxIndex;

/// The transactions that are kept, each after all others that saw what it writes. Beyond that, the
/// order is that of the block; one that waits for those lets others pass it. Of two that overwrite
/// a place, which they did not see, the first comes first, unless conflicts demand another order.
///
/// Cost: O(n log n) for n transactions, and linear in the accesses.
pub(super) fn order_of(conflicts: &Conflicts, kept: &[bool]) -> Vec<TxIndex> {
    let mut positions = Positions::new(conflicts, kept);
    (0..conflicts.transactions()).for_each(|tx| positions.offer(tx));
    let mut order = Vec::new();
    while let Some(tx) = positions.next() {
        order.push(tx);
        positions.place(tx);
    }
    let count = kept.iter().filter(|kept| **kept).count();
    assert_eq!(order.len(), count, "the transactions that are kept have no cycle, so each gets its turn");
    order
}

struct Positions<'a> {
    conflicts: &'a Conflicts,
    /// The transactions without a place in the order so far.
    left: Vec<bool>,
    /// By place, how many of those left saw it.
    seers: Vec<u32>,
    /// By transaction, how many places it writes that others of those left saw.
    waits: Vec<u32>,
    /// By place, those kept that write it and did not see it, ascending.
    blind: Lists<u32>,
    /// By place, how many of `blind` got their place in the order, up to the first that did not.
    blind_done: Vec<u32>,
    /// By transaction, how many places it writes blindly though an earlier one of `blind` is left.
    blind_waits: Vec<u32>,
    in_turn: BinaryHeap<Reverse<u32>>,
    /// Transactions without conflicts left, which wait only for earlier blind writers.
    free: BinaryHeap<Reverse<u32>>,
}

impl<'a> Positions<'a> {
    fn new(conflicts: &'a Conflicts, kept: &[bool]) -> Self {
        let places = conflicts.at.len();
        let here = |place: u32| conflicts.at.get(place).iter().filter(|access| kept[access.at() as usize]);
        let seers: Vec<u32> =
            (0..places).map(|place| here(place).filter(|access| access.sees()).count() as u32).collect();
        let mut blind = Lists::default();
        let mut blind_waits = vec![0; kept.len()];
        for place in 0..places {
            blind.push(here(place).filter(|access| access.writes() && !access.sees()).map(|access| access.at()));
            blind.get(place).iter().skip(1).for_each(|tx| blind_waits[*tx as usize] += 1);
        }
        let waits = |tx: u32| {
            let held = |access: &&Access| access.writes() && seers[access.at() as usize] > u32::from(access.sees());
            conflicts.of.get(tx).iter().filter(held).count() as u32
        };
        let waits = (0..conflicts.transactions()).map(waits).collect();
        Self {
            conflicts,
            left: kept.to_vec(),
            seers,
            waits,
            blind,
            blind_done: vec![0; places as usize],
            blind_waits,
            in_turn: BinaryHeap::new(),
            free: BinaryHeap::new(),
        }
    }

    /// Lines a transaction up if it may come next.
    fn offer(&mut self, tx: u32) {
        if self.left[tx as usize] && self.waits[tx as usize] == 0 {
            let line = if self.blind_waits[tx as usize] == 0 { &mut self.in_turn } else { &mut self.free };
            line.push(Reverse(tx));
        }
    }

    /// The smallest transaction that is in turn, or else the smallest that is free.
    fn next(&mut self) -> Option<TxIndex> {
        loop {
            let Reverse(tx) = self.in_turn.pop().or_else(|| self.free.pop())?;
            if self.left[tx as usize] {
                return Some(tx);
            }
        }
    }

    /// Gives the next place in the order to a transaction.
    fn place(&mut self, tx: u32) {
        self.left[tx as usize] = false;
        for access in self.conflicts.of.get(tx) {
            if access.sees() {
                self.seers[access.at() as usize] -= 1;
                self.release(access.at());
            } else {
                self.pass_turn(access.at());
            }
        }
    }

    /// Lets those go that the last seer of a place held, or the last one but the writer itself.
    fn release(&mut self, place: u32) {
        let left = self.seers[place as usize];
        if left > 1 {
            return;
        }
        for access in self.conflicts.at.get(place) {
            if access.writes() && u32::from(access.sees()) == left && self.left[access.at() as usize] {
                self.waits[access.at() as usize] -= 1;
                self.offer(access.at());
            }
        }
    }

    /// Gives the turn at a place to the first blind writer that is left.
    fn pass_turn(&mut self, place: u32) {
        let writers = self.blind.get(place);
        let done = &mut self.blind_done[place as usize];
        let first = *done;
        while writers.get(*done as usize).is_some_and(|tx| !self.left[*tx as usize]) {
            *done += 1;
        }
        let next = writers.get(*done as usize).copied().filter(|_| *done > first);
        if let Some(tx) = next {
            self.blind_waits[tx as usize] -= 1;
            self.offer(tx);
        }
    }
}
