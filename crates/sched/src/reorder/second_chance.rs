//! Takes victims back that close no cycle any more, and says why the others stay victims.

use super::conflicts::{Conflicts, NONE};
use super::{PlaceNumber, Victim, Why, OTHERS_MAX};

/// The victims, ascending, and the steps that it took. `kept` gets those that are taken back.
pub(super) fn give_second_chances(
    conflicts: &Conflicts,
    places: &[PlaceNumber],
    admitted: &[bool],
    kept: &mut [bool],
    steps_max: u64,
) -> (Vec<Victim>, u64) {
    let mut chances = Chances::new(conflicts, places, kept, steps_max);
    let mut victims = Vec::new();
    for tx in 0..conflicts.transactions() {
        if chances.kept[tx as usize] {
            continue;
        }
        let why = if admitted[tx as usize] { chances.why_not(tx) } else { Some(Why::Excess) };
        match why {
            Some(why) => victims.push(Victim { transaction: tx, why }),
            None => chances.keep(tx),
        }
    }
    (victims, chances.steps)
}

struct Chances<'a> {
    conflicts: &'a Conflicts,
    /// The caller's numbers.
    places: &'a [PlaceNumber],
    kept: &'a mut [bool],
    /// By place, how many of those kept saw it, and how many write it.
    seen: Vec<u32>,
    written: Vec<u32>,
    /// By place, the one that is kept and did both; there is no second one.
    updater: Vec<u32>,
    steps: u64,
    /// The bound, which the last search may exceed.
    steps_max: u64,
    /// By transaction, in a search: how many conflicts lead from it to the victim, and the next
    /// transaction on the way.
    way: Vec<(u32, u32)>,
    /// By place, in a search.
    visited: Vec<bool>,
}

impl<'a> Chances<'a> {
    fn new(conflicts: &'a Conflicts, places: &'a [PlaceNumber], kept: &'a mut [bool], steps_max: u64) -> Self {
        let zeros = vec![0; places.len()];
        let mut chances = Self {
            conflicts,
            places,
            kept,
            seen: zeros.clone(),
            written: zeros,
            updater: vec![NONE; places.len()],
            steps: 0,
            steps_max,
            way: vec![(NONE, NONE); conflicts.transactions() as usize],
            visited: vec![false; places.len()],
        };
        for tx in 0..conflicts.transactions() {
            if chances.kept[tx as usize] {
                chances.keep(tx);
            }
        }
        chances
    }

    fn keep(&mut self, tx: u32) {
        self.kept[tx as usize] = true;
        for access in self.conflicts.of.get(tx) {
            let place = access.at as usize;
            self.seen[place] += u32::from(access.sees);
            self.written[place] += u32::from(access.writes);
            if access.updates() {
                self.updater[place] = tx;
            }
        }
    }

    /// Why a victim stays one; none: it closes no cycle.
    fn why_not(&mut self, victim: u32) -> Option<Why> {
        let accesses = self.conflicts.of.get(victim);
        let before = accesses.iter().any(|access| access.writes && self.seen[access.at as usize] > 0);
        let after = accesses.iter().find(|access| access.sees && self.written[access.at as usize] > 0);
        let (true, Some(after)) = (before, after) else { return None };
        let updated = accesses.iter().find(|access| access.updates() && self.updater[access.at as usize] != NONE);
        if let Some(access) = updated {
            let (place, other) = (self.places[access.at as usize], self.updater[access.at as usize]);
            return Some(Why::Cycle { place, others: vec![other] });
        }
        if self.steps >= self.steps_max {
            return Some(Why::Place(self.places[after.at as usize]));
        }
        let leading = self.search(victim);
        let why = self.shortest_cycle(victim);
        self.forget(&leading);
        why
    }

    /// Finds the ways that lead to the victim, and returns all transactions on them. Of several
    /// shortest ways from a transaction, that with the smallest next transaction counts.
    fn search(&mut self, victim: u32) -> Vec<u32> {
        self.way[victim as usize] = (0, NONE);
        let mut found = vec![victim];
        let mut from = 0;
        while from < found.len() {
            let to = found.len();
            found[from..to].sort_unstable();
            (from..to).for_each(|at| self.visit(found[at], &mut found));
            from = to;
        }
        found
    }

    /// Adds those that saw what `tx` writes.
    fn visit(&mut self, tx: u32, found: &mut Vec<u32>) {
        let accesses = self.conflicts.of.get(tx);
        self.steps += accesses.len() as u64;
        for access in accesses.iter().filter(|access| access.writes) {
            if std::mem::replace(&mut self.visited[access.at as usize], true) {
                continue;
            }
            let at = self.conflicts.at.get(access.at);
            self.steps += at.len() as u64;
            for before in at.iter().filter(|before| before.sees && self.kept[before.at as usize]) {
                if self.way[before.at as usize].0 == NONE {
                    self.way[before.at as usize] = (self.way[tx as usize].0 + 1, tx);
                    found.push(before.at);
                }
            }
        }
    }

    /// The shortest cycle through the victim after a search. Of several, it has the smallest
    /// transactions, the first one first.
    fn shortest_cycle(&mut self, victim: u32) -> Option<Why> {
        let mut best = (NONE, NONE, NONE); // conflicts to the victim, transaction, place
        for access in self.conflicts.of.get(victim).iter().filter(|access| access.sees) {
            let at = self.conflicts.at.get(access.at);
            self.steps += at.len() as u64;
            for after in at.iter().filter(|after| after.writes && self.kept[after.at as usize]) {
                best = best.min((self.way[after.at as usize].0, after.at, access.at));
            }
        }
        let (conflicts, first, place) = best;
        if conflicts == NONE {
            return None;
        }
        let next = |tx: &u32| Some(self.way[*tx as usize].1).filter(|next| *next != victim);
        let others = std::iter::successors(Some(first), next).take(OTHERS_MAX).collect();
        Some(Why::Cycle { place: self.places[place as usize], others })
    }

    fn forget(&mut self, leading: &[u32]) {
        leading.iter().for_each(|tx| self.way[*tx as usize] = (NONE, NONE));
        for access in leading.iter().flat_map(|tx| self.conflicts.of.get(*tx)) {
            self.visited[access.at as usize] = false;
        }
    }
}
