//! Takes victims back that are in no cycle any more, and gives the others their reasons.

use super::conflicts::{Conflicts, NONE};
use super::input::PlaceNumber;
use super::victim::{Victim, Why, OTHERS_MAX};

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
    /// In a search: the victim, and the transactions from which conflicts lead to it.
    found: Vec<u32>,
    /// By transaction found, the next one on the shortest way to the victim.
    next: Vec<u32>,
    /// By transaction that writes what the victim saw, the first such place.
    after: Vec<u32>,
    /// By place, whether those that saw it were found.
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
            found: Vec::new(),
            next: vec![NONE; conflicts.transactions() as usize],
            after: vec![NONE; conflicts.transactions() as usize],
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
            let place = access.at() as usize;
            self.seen[place] += u32::from(access.sees());
            self.written[place] += u32::from(access.writes());
            if access.updates() {
                self.updater[place] = tx;
            }
        }
    }

    /// Why a victim stays one; none: it closes no cycle.
    fn why_not(&mut self, victim: u32) -> Option<Why> {
        let accesses = self.conflicts.of.get(victim);
        let before = accesses.iter().any(|access| access.writes() && self.seen[access.at() as usize] > 0);
        let after = accesses.iter().find(|access| access.sees() && self.written[access.at() as usize] > 0);
        let (true, Some(after)) = (before, after) else { return None };
        let updated = accesses.iter().find(|access| access.updates() && self.updater[access.at() as usize] != NONE);
        if let Some(access) = updated {
            let (place, other) = (self.places[access.at() as usize], self.updater[access.at() as usize]);
            return Some(Why::Cycle { place, others: vec![other] });
        }
        if self.steps >= self.steps_max {
            return Some(Why::Place(self.places[after.at() as usize]));
        }
        let cycle = self.shortest_cycle(victim);
        self.forget(victim);
        cycle
    }

    /// Looks for the shortest cycle through the victim, from those that saw what it writes to those
    /// before them. Of several shortest ones, it is that with the smallest transactions, the first
    /// one first.
    fn shortest_cycle(&mut self, victim: u32) -> Option<Why> {
        self.note_after(victim);
        self.found.push(victim);
        let mut from = 0;
        while from < self.found.len() {
            let to = self.found.len();
            self.found[from..to].sort_unstable();
            (from..to).for_each(|at| self.visit(self.found[at]));
            let closing = self.found[to..].iter().filter(|tx| self.after[**tx as usize] != NONE);
            if let Some(first) = closing.min() {
                return Some(self.describe(victim, *first));
            }
            from = to;
        }
        None
    }

    /// Notes those that write what the victim saw, each with the first such place.
    fn note_after(&mut self, victim: u32) {
        for access in self.conflicts.of.get(victim).iter().filter(|access| access.sees()) {
            let at = self.conflicts.at.get(access.at());
            self.steps += at.len() as u64;
            for after in at.iter().filter(|after| after.writes() && self.kept[after.at() as usize]) {
                let place = &mut self.after[after.at() as usize];
                *place = access.at().min(*place);
            }
        }
    }

    /// Adds those that saw what `tx` writes.
    fn visit(&mut self, tx: u32) {
        let accesses = self.conflicts.of.get(tx);
        self.steps += accesses.len() as u64;
        for access in accesses.iter().filter(|access| access.writes()) {
            if std::mem::replace(&mut self.visited[access.at() as usize], true) {
                continue;
            }
            let at = self.conflicts.at.get(access.at());
            self.steps += at.len() as u64;
            for before in at.iter().filter(|before| before.sees() && self.kept[before.at() as usize]) {
                let next = &mut self.next[before.at() as usize];
                if *next == NONE {
                    *next = tx;
                    self.found.push(before.at());
                }
            }
        }
    }

    fn describe(&self, victim: u32, first: u32) -> Why {
        let next = |tx: &u32| Some(self.next[*tx as usize]).filter(|next| *next != victim);
        let others = std::iter::successors(Some(first), next).take(OTHERS_MAX).collect();
        Why::Cycle { place: self.places[self.after[first as usize] as usize], others }
    }

    /// Makes room for the next search.
    fn forget(&mut self, victim: u32) {
        for access in self.conflicts.of.get(victim).iter().filter(|access| access.sees()) {
            self.conflicts.at.get(access.at()).iter().for_each(|after| self.after[after.at() as usize] = NONE);
        }
        for tx in std::mem::take(&mut self.found) {
            self.next[tx as usize] = NONE;
            self.conflicts.of.get(tx).iter().for_each(|access| self.visited[access.at() as usize] = false);
        }
    }
}
