//! What a transaction may read and write.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Dependencies, Dependency, Interval, KeyId, Place, Target};

/// Places of one target that a transaction may read, and as many that it may write; with more it is the whole target.
pub const PLACES_MAX: usize = 64;

/// Targets that a transaction may read, and as many that it may write; with more it is everything.
pub const TARGETS_MAX: usize = 64;

/// What a transaction may read and write, at most. Bounded in size: what does not fit is widened.
///
/// Invariant S5: a set covers what was put into it; widening adds places and loses none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSet {
    everything: bool,
    reads: Places,
    writes: Places,
}

/// Places by target, both ascending. A whole target has that one place only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places(Vec<(Target, Vec<Place>)>);

impl Places {
    /// Says whether there was room.
    fn add(&mut self, target: Target, place: Place) -> bool {
        let at = match self.0.binary_search_by_key(&target, |(target, _)| *target) {
            Ok(at) => at,
            Err(_) if self.0.len() == TARGETS_MAX => return false,
            Err(at) => {
                self.0.insert(at, (target, Vec::new()));
                at
            }
        };
        let places = &mut self.0[at].1;
        if places.first().is_some_and(Place::is_whole) {
            return true;
        }
        let Err(at) = places.binary_search(&place) else { return true };
        if place.is_whole() || places.len() == PLACES_MAX {
            *places = vec![Place::whole()];
        } else {
            places.insert(at, place);
        }
        true
    }

    /// Drops the bounds of other keys than the one given for a target.
    fn keep(&mut self, kept: &BTreeMap<Target, KeyId>) {
        for (target, places) in &mut self.0 {
            if let Some(key) = kept.get(target) {
                places.iter_mut().for_each(|place| place.keep(*key));
                places.sort_unstable();
                places.dedup();
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Target, &[Place])> {
        self.0.iter().map(|(target, places)| (*target, &places[..]))
    }

    /// The targets in which a place of this may share something with a place of `other`.
    fn shared<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Target> + 'a {
        let shares = |a: &[Place], b: &[Place]| a.iter().any(|a| b.iter().any(|b| !a.apart(b)));
        self.iter().filter_map(move |(target, places)| {
            let at = other.0.binary_search_by_key(&target, |(target, _)| *target).ok()?;
            shares(places, &other.0[at].1).then_some(target)
        })
    }
}

/// Leaves one bound to the places of each target that all of them in the block have a key in common, whole ones apart:
/// places count as apart only if they are so in every key, and inserts that share a parent or a day would wait for each
/// other. Of several such keys it is the one in which the places differ most, of equal ones the first.
///
/// What was apart stays so; what becomes apart is disjoint in that key. To be called for all sets of a block together.
/// Cost: O(n log n) for n places.
pub fn focus(sets: &mut [AccessSet]) {
    let mut common: BTreeMap<Target, BTreeMap<KeyId, BTreeSet<&Interval>>> = BTreeMap::new();
    for (target, places) in sets.iter().flat_map(|set| set.reads().chain(set.writes())) {
        for place in places.iter().filter(|place| !place.is_whole()) {
            let keys = common
                .entry(target)
                .or_insert_with(|| place.bounds().iter().map(|(key, _)| (*key, BTreeSet::new())).collect());
            keys.retain(|key, _| place.bound(*key).is_some());
            for (key, intervals) in keys {
                intervals.extend(place.bound(*key));
            }
        }
    }
    let best = |keys: BTreeMap<KeyId, BTreeSet<&Interval>>| {
        keys.into_iter().max_by_key(|(key, intervals)| (intervals.len(), Reverse(*key))).map(|(key, _)| key)
    };
    let kept: BTreeMap<Target, KeyId> =
        common.into_iter().filter_map(|(target, keys)| Some((target, best(keys)?))).collect();
    for set in sets {
        set.reads.keep(&kept);
        set.writes.keep(&kept);
    }
}

impl AccessSet {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything there is: what cannot be bounded. It depends on every earlier transaction, and every later one on it.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Adds a place that may be read. Cost: O(log [`PLACES_MAX`]) comparisons.
    pub fn read(&mut self, target: Target, place: Place) {
        if !self.everything && !self.reads.add(target, place) {
            *self = Self::everything();
        }
    }

    /// Adds a place that may be written, and with that read. Cost as [`AccessSet::read`].
    pub fn write(&mut self, target: Target, place: Place) {
        if !self.everything && !self.writes.add(target, place) {
            *self = Self::everything();
        }
    }

    /// Adds what `other` touches: that of one more statement.
    pub fn add(&mut self, other: &Self) {
        if other.everything {
            *self = Self::everything();
        }
        for (target, places) in other.reads() {
            places.iter().for_each(|place| self.read(target, place.clone()));
        }
        for (target, places) in other.writes() {
            places.iter().for_each(|place| self.write(target, place.clone()));
        }
    }

    /// Whether it is everything. Then it has no places.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// What may be read, ascending by target and place.
    pub fn reads(&self) -> impl Iterator<Item = (Target, &[Place])> {
        self.reads.iter()
    }

    /// What may be written, ascending by target and place.
    pub fn writes(&self) -> impl Iterator<Item = (Target, &[Place])> {
        self.writes.iter()
    }

    /// How a transaction with this set depends on an earlier one with the set `earlier`, and in which targets. Nothing
    /// can be said of the targets when one of them is everything; that counts as write-write.
    ///
    /// Cost: one comparison for each pair of places of a common target.
    pub fn dependencies_on(&self, earlier: &Self) -> (Dependencies, Vec<Target>) {
        if self.everything || earlier.everything {
            return (Dependency::WriteWrite.into(), Vec::new());
        }
        let (mut kinds, mut targets) = (Dependencies::NONE, Vec::new());
        let pairs = [
            (Dependency::WriteRead, &self.reads, &earlier.writes),
            (Dependency::ReadWrite, &self.writes, &earlier.reads),
            (Dependency::WriteWrite, &self.writes, &earlier.writes),
        ];
        for (kind, later, earlier) in pairs {
            for target in later.shared(earlier) {
                kinds = kinds.with(kind.into());
                targets.push(target);
            }
        }
        targets.sort_unstable();
        targets.dedup();
        (kinds, targets)
    }
}
