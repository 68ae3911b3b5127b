//! Intervals of an ordered key space: byte strings, compared byte-wise.

use std::ops::Bound;

use crate::bytes::Bytes;

/// Longer keys are cut off and stand for everything that begins like them. Bytes.
pub const KEY_BYTES_MAX: usize = 256;

/// A cut between two byte strings: before `bytes`, or between `bytes` and its successor
/// `bytes ‖ 00`.
///
/// Cuts are kept in one spelling (`before q ‖ 00` is `after q`), so the derived order is that of
/// the cuts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedCut {
    bytes: Vec<u8>,
    after: bool,
}

/// The same, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut<'a> {
    pub bytes: &'a [u8],
    pub after: bool,
}

impl OwnedCut {
    fn before(mut bytes: Vec<u8>) -> Self {
        let after = bytes.last() == Some(&0);
        if after {
            bytes.pop();
        }
        Self { bytes, after }
    }

    fn after(bytes: Vec<u8>) -> Self {
        Self { bytes, after: true }
    }

    fn borrow(&self) -> Cut<'_> {
        Cut { bytes: &self.bytes, after: self.after }
    }
}

/// A non-empty set of neighbouring keys. The caller encodes key values so that their order is that
/// of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(Repr);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Repr {
    /// One key: most intervals are.
    Point(Bytes),
    /// From a cut to a cut, or without end. Never what a point is.
    Range(Box<(OwnedCut, Option<OwnedCut>)>),
}

impl Interval {
    /// The key `key` alone.
    pub fn point(key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        if key.len() > KEY_BYTES_MAX {
            return Self::prefix(key);
        }
        Self(Repr::Point(Bytes::new(key)))
    }

    fn cuts(lower: OwnedCut, upper: Option<OwnedCut>) -> Self {
        Self(Repr::Range(Box::new((lower, upper))))
    }

    /// Every key.
    pub fn all() -> Self {
        Self::cuts(OwnedCut::before(Vec::new()), None)
    }

    /// Every key that begins with `prefix`, itself among them: the values of the first columns of a
    /// composite key.
    pub fn prefix(prefix: &[u8]) -> Self {
        let prefix = &prefix[..prefix.len().min(KEY_BYTES_MAX)];
        Self::cuts(OwnedCut::before(prefix.to_vec()), end_of_prefix(prefix))
    }

    /// The keys between two bounds; `None` when there is none.
    pub fn range(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Option<Self> {
        let lower = match lower {
            Bound::Unbounded => OwnedCut::before(Vec::new()),
            // Cut off, a key comes earlier: the interval only grows.
            Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
                OwnedCut::before(key[..KEY_BYTES_MAX].to_vec())
            }
            Bound::Included(key) => OwnedCut::before(key.to_vec()),
            Bound::Excluded(key) => OwnedCut::after(key.to_vec()),
        };
        let upper = match upper {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
                end_of_prefix(&key[..KEY_BYTES_MAX])
            }
            Bound::Included(key) => Some(OwnedCut::after(key.to_vec())),
            Bound::Excluded(key) => Some(OwnedCut::before(key.to_vec())),
        };
        Self::between(lower, upper)
    }

    fn between(lower: OwnedCut, upper: Option<OwnedCut>) -> Option<Self> {
        let Some(upper) = upper else { return Some(Self::cuts(lower, None)) };
        if upper <= lower {
            return None;
        }
        // Exactly one key fits between `before k` and `after k`, and between `after k` and
        // `after k ‖ 00`.
        let first = if lower.after { [&lower.bytes[..], &[0]].concat() } else { lower.bytes.clone() };
        if upper.after && upper.bytes == first {
            return Some(Self(Repr::Point(Bytes::new(&first))));
        }
        Some(Self::cuts(lower, Some(upper)))
    }

    /// Whether all keys of `other` are in this.
    pub fn covers(&self, other: &Self) -> bool {
        let ends = match (self.upper(), other.upper()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => other <= own,
        };
        ends && self.lower() <= other.lower()
    }

    /// The keys in both; `None` when there is none.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let own = |cut: Cut<'_>| OwnedCut { bytes: cut.bytes.to_vec(), after: cut.after };
        let upper = match (self.upper(), other.upper()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let lower = self.lower().max(other.lower());
        Self::between(own(lower), upper.map(own))
    }

    /// Whether some key is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        if let (Repr::Point(a), Repr::Point(b)) = (&self.0, &other.0) {
            return a == b;
        }
        let ends_after = |upper: Option<Cut<'_>>, lower: Cut<'_>| upper.is_none_or(|upper| lower < upper);
        ends_after(self.upper(), other.lower()) && ends_after(other.upper(), self.lower())
    }

    /// Whether every key is in it.
    pub fn is_all(&self) -> bool {
        matches!(&self.0, Repr::Range(cuts) if cuts.1.is_none() && cuts.0.bytes.is_empty() && !cuts.0.after)
    }

    /// The key, when there is one only.
    pub fn as_point(&self) -> Option<&[u8]> {
        match &self.0 {
            Repr::Point(key) => Some(key),
            Repr::Range(_) => None,
        }
    }

    /// Where it begins.
    pub(crate) fn lower(&self) -> Cut<'_> {
        match &self.0 {
            // One spelling, also here: before `q ‖ 00` is after `q`.
            Repr::Point(key) => match key.split_last() {
                Some((0, shorter)) => Cut { bytes: shorter, after: true },
                _ => Cut { bytes: key, after: false },
            },
            Repr::Range(cuts) => cuts.0.borrow(),
        }
    }

    /// Where it ends; `None` when it does not.
    pub(crate) fn upper(&self) -> Option<Cut<'_>> {
        match &self.0 {
            Repr::Point(key) => Some(Cut { bytes: key, after: true }),
            Repr::Range(cuts) => cuts.1.as_ref().map(OwnedCut::borrow),
        }
    }
}

/// The cut after the last key that begins with `prefix`; `None` when no other key follows.
fn end_of_prefix(prefix: &[u8]) -> Option<OwnedCut> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(OwnedCut::before(end))
}
