//! The access set of a transaction.

use crate::few::Few;
use crate::{Dependencies, Dependency, Place, Target};

/// Places of one target that a transaction may read, and as many that it may write; with more it is
/// the whole target.
pub const PLACES_MAX: usize = 64;

/// Targets that a transaction may read, and as many that it may write; with more it is everything.
pub const TARGETS_MAX: usize = 64;

/// The largest access of a transaction. Bounded in size: what does not fit is widened.
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
struct Places(Vec<(Target, Few<Place>)>);

impl Places {
    /// Says whether there was room.
    fn add(&mut self, target: Target, place: Place) -> bool {
        let at = match self.0.binary_search_by_key(&target, |(target, _)| *target) {
            Ok(at) => at,
            Err(_) if self.0.len() == TARGETS_MAX => return false,
            Err(at) => {
                self.0.insert(at, (target, Few::default()));
                at
            }
        };
        let places = &mut self.0[at].1;
        if places.first().is_some_and(Place::is_whole) {
            return true;
        }
        let Err(at) = places.binary_search(&place) else { return true };
        if place.is_whole() || places.len() == PLACES_MAX {
            *places = Few::One(Place::whole());
        } else {
            places.insert(at, place);
        }
        true
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

impl AccessSet {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything there is: what cannot be bounded. It depends on every earlier transaction, and
    /// every later one on it.
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

    /// The reads, ascending by target and place.
    pub fn reads(&self) -> impl Iterator<Item = (Target, &[Place])> {
        self.reads.iter()
    }

    /// The writes, ascending by target and place.
    pub fn writes(&self) -> impl Iterator<Item = (Target, &[Place])> {
        self.writes.iter()
    }

    /// How a transaction with this set depends on an earlier one with the set `earlier`, and in
    /// which targets. Nothing can be said of the targets when one of them is everything; that
    /// counts as write-write.
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
