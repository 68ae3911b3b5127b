//! Chooses the victims: transactions whose removal leaves the conflict graph without cycles.

use std::collections::VecDeque;

use super::conflicts::{Conflicts, NONE};
use super::cycles::cycles;
use super::groups::groups;
use super::input::Limits;
use crate::lists::Lists;

/// The number of updates of one place from which a group has too many cycles. Five transactions
/// that all conflict with each other have 84.
const UPDATES_TOO_MANY: u64 = 5;

/// In a group with too many cycles, one of this many transactions is removed.
const REMOVED_OF: usize = 8;

/// Which admitted transactions of the block are kept, and the steps that it took.
pub(super) fn cut(block: &Conflicts, admitted: &[bool], limits: &Limits) -> (Vec<bool>, u64) {
    let mut cut = Cut { limits, kept: admitted.to_vec(), steps: 0, numbers: vec![NONE; block.at.len() as usize] };
    let mut waiting = VecDeque::new();
    cut.cut_groups(block, &mut waiting);
    while let Some(set) = waiting.pop_front() {
        cut.cut_groups(&set, &mut waiting);
    }
    (cut.kept, cut.steps)
}

struct Cut<'a> {
    limits: &'a Limits,
    /// By index in the block.
    kept: Vec<bool>,
    steps: u64,
    /// Room for [`Conflicts::among`].
    numbers: Vec<u32>,
}

impl Cut<'_> {
    /// Removes transactions of each group in `set`. The rest of a group that may still have cycles
    /// is `waiting`.
    fn cut_groups(&mut self, set: &Conflicts, waiting: &mut VecDeque<Conflicts>) {
        self.steps += set.accesses();
        if self.steps > self.limits.cut_steps {
            return self.keep_first_comers(set);
        }
        for members in groups(set) {
            let smaller = (members.len() < set.transactions() as usize).then(|| set.among(&members, &mut self.numbers));
            let group = smaller.as_ref().unwrap_or(set);
            let roles = roles(group);
            if self.cut_by_cycles(group, &roles) {
                continue;
            }
            let mut rest = by_degree(group, &roles);
            rest.drain(..members.len().div_ceil(REMOVED_OF)).for_each(|tx| self.remove(group, tx));
            rest.sort_unstable();
            waiting.push_back(group.among(&rest, &mut self.numbers));
        }
    }

    fn remove(&mut self, of: &Conflicts, tx: u32) {
        self.kept[of.names[tx as usize] as usize] = false;
    }

    /// Keeps each transaction that saw no place that an earlier one of those kept writes.
    fn keep_first_comers(&mut self, set: &Conflicts) {
        let mut written = vec![false; set.at.len() as usize];
        for tx in 0..set.transactions() {
            let accesses = set.of.get(tx);
            if accesses.iter().any(|access| access.sees() && written[access.at() as usize]) {
                self.remove(set, tx);
            } else {
                accesses
                    .iter()
                    .filter(|access| access.writes())
                    .for_each(|access| written[access.at() as usize] = true);
            }
        }
    }

    /// Removes the transaction that is in most cycles until there is no cycle. Says whether it did
    /// so: the cycles may be too many.
    fn cut_by_cycles(&mut self, group: &Conflicts, roles: &[Roles]) -> bool {
        let transactions = u64::from(group.transactions());
        let (conflicts, updates) = count_conflicts(roles);
        let size = transactions + conflicts;
        let cycles_max = self.limits.cycles.min(self.limits.cycle_steps / size);
        let too_many = conflicts + 1 > transactions + cycles_max || updates >= UPDATES_TOO_MANY;
        if too_many || self.steps > self.limits.cut_steps {
            return false;
        }
        let found = cycles(&edges(group), cycles_max + 1);
        self.steps += found.len() as u64 * size;
        if found.len() as u64 > cycles_max {
            return false;
        }
        most_cycles(group.transactions(), found).iter().for_each(|tx| self.remove(group, *tx));
        true
    }
}

/// How many transactions saw a place, write it, and do both.
#[derive(Clone, Copy)]
struct Roles {
    sees: u64,
    writes: u64,
    updates: u64,
}

/// By place.
fn roles(group: &Conflicts) -> Vec<Roles> {
    let count = |place| {
        let mut roles = Roles { sees: 0, writes: 0, updates: 0 };
        for access in group.at.get(place) {
            roles.sees += u64::from(access.sees());
            roles.writes += u64::from(access.writes());
            roles.updates += u64::from(access.updates());
        }
        roles
    };
    (0..group.at.len()).map(count).collect()
}

/// How many triples there are of a transaction, a place that it saw and another transaction that
/// writes it; and how many transactions at most both saw and write one place.
fn count_conflicts(roles: &[Roles]) -> (u64, u64) {
    let conflicts = roles.iter().map(|roles| roles.sees * roles.writes - roles.updates).sum();
    (conflicts, roles.iter().map(|roles| roles.updates).max().unwrap_or(0))
}

/// From each transaction to the others that write what it saw, once each, ascending.
fn edges(group: &Conflicts) -> Lists<u32> {
    let mut edges = Lists::default();
    for tx in 0..group.transactions() {
        let seen = group.of.get(tx).iter().filter(|access| access.sees());
        let writers =
            seen.flat_map(|access| group.at.get(access.at())).filter(|access| access.writes() && access.at() != tx);
        let mut writers: Vec<u32> = writers.map(|access| access.at()).collect();
        writers.sort_unstable();
        writers.dedup();
        edges.push(writers);
    }
    edges
}

/// The transactions to remove: each time the one in most of the cycles left, of several the first.
fn most_cycles(transactions: u32, mut cycles: Vec<Vec<u32>>) -> Vec<u32> {
    let mut count = vec![0u32; transactions as usize];
    cycles.iter().flatten().for_each(|tx| count[*tx as usize] += 1);
    let mut removed = Vec::new();
    while !cycles.is_empty() {
        let most = (0..transactions).rev().max_by_key(|tx| count[*tx as usize]).unwrap_or_default();
        removed.push(most);
        cycles.retain(|cycle| {
            let broken = cycle.contains(&most);
            cycle.iter().filter(|_| broken).for_each(|tx| count[*tx as usize] -= 1);
            !broken
        });
    }
    removed
}

/// The transactions by falling number of conflicts, of several the first. A conflict counts once
/// for each place.
fn by_degree(group: &Conflicts, roles: &[Roles]) -> Vec<u32> {
    let degree = |tx: u32| -> u64 {
        let conflicts = group.of.get(tx).iter().map(|access| {
            let Roles { sees, writes, .. } = roles[access.at() as usize];
            let (own_sees, own_writes) = (u64::from(access.sees()), u64::from(access.writes()));
            own_sees * (writes - own_writes) + own_writes * (sees - own_sees)
        });
        conflicts.sum()
    };
    let mut by_degree: Vec<u32> = (0..group.transactions()).collect();
    by_degree.sort_by_cached_key(|tx| (std::cmp::Reverse(degree(*tx)), *tx));
    by_degree
}
