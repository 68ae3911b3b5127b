//! Places: the rows, ranges of keys or tables that a transaction reads or writes.

use crate::few::Few;
use crate::Interval;

/// Names a relation. The caller chooses the number; PostgreSQL's oid does, within one database.
pub type RelationId = u32;

/// Names an ordered list of columns of one relation, unique or not. The caller chooses the number.
pub type KeyId = u16;

/// A place bounded in more keys than this counts as the whole target.
pub const BOUNDS_MAX: usize = 16;

/// The target of an access, without the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The rows of a relation with all their columns.
    Rows(RelationId),
    /// Which values of a key there are: what unique indexes and foreign keys look up, and what an
    /// update of other columns leaves alone.
    Keys(RelationId, KeyId),
}

impl Target {
    /// The relation it belongs to.
    pub fn relation(self) -> RelationId {
        match self {
            Self::Rows(relation) | Self::Keys(relation, _) => relation,
        }
    }
}

/// A part of a target: what lies in the interval of *every* key it is bounded in; without a bound,
/// the whole target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Ascending by key, one for each, none of them [`Interval::all`].
    bounds: Few<(KeyId, Interval)>,
}

impl Place {
    /// The whole target.
    pub fn whole() -> Self {
        Self::default()
    }

    /// The rows that have the value `value` of key `key`.
    pub fn point(key: KeyId, value: impl AsRef<[u8]>) -> Self {
        Self { bounds: Few::One((key, Interval::point(value))) }
    }

    /// The rows in one interval of a key.
    pub(crate) fn of(key: KeyId, interval: Interval) -> Self {
        match interval.is_all() {
            true => Self::whole(),
            false => Self { bounds: Few::One((key, interval)) },
        }
    }

    /// The rows in all of `bounds`; `None` when nothing can, because two bounds of one key exclude
    /// each other.
    pub fn within(bounds: impl IntoIterator<Item = (KeyId, Interval)>) -> Option<Self> {
        let mut place = Self::whole();
        for (key, interval) in bounds.into_iter().filter(|(_, interval)| !interval.is_all()) {
            match place.bounds.binary_search_by_key(&key, |(key, _)| *key) {
                Ok(at) => place.bounds[at].1 = place.bounds[at].1.intersect(&interval)?,
                Err(at) => place.bounds.insert(at, (key, interval)),
            }
        }
        Some(if place.bounds.len() > BOUNDS_MAX { Self::whole() } else { place })
    }

    /// Its bounds, ascending by key.
    pub fn bounds(&self) -> &[(KeyId, Interval)] {
        &self.bounds
    }

    /// Its bound in one key.
    pub fn bound(&self, key: KeyId) -> Option<&Interval> {
        let at = self.bounds.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(&self.bounds[at].1)
    }

    /// Whether it is the whole target.
    pub fn is_whole(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Whether all that is in `other` is known to be in this.
    pub fn covers(&self, other: &Self) -> bool {
        self.bounds.iter().all(|(key, interval)| other.bound(*key).is_some_and(|bound| interval.covers(bound)))
    }

    /// Whether the two are known to share nothing: they have a key in common, and their intervals
    /// are disjoint in every key they have in common.
    pub fn apart(&self, other: &Self) -> bool {
        let mut common = false;
        for (key, interval) in self.bounds.iter() {
            if let Ok(at) = other.bounds.binary_search_by_key(key, |(key, _)| *key) {
                common = true;
                if interval.overlaps(&other.bounds[at].1) {
                    return false;
                }
            }
        }
        common
    }
}
