//! Short byte strings without an allocation: most keys are a few integers.

use std::cmp::Ordering;

/// Bytes kept in place; two bigints with their marks are 18.
const INLINE: usize = 30;

/// A byte string that does not change.
#[derive(Clone)]
pub(crate) enum Bytes {
    Inline(u8, [u8; INLINE]),
    Boxed(Box<[u8]>),
}

impl Bytes {
    pub fn new(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Self::Inline(bytes.len() as u8, inline) // at most INLINE
            }
            None => Self::Boxed(bytes.into()),
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Self::Boxed(bytes) => bytes,
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, INLINE};

    #[test]
    fn bytes_are_those_given_on_both_sides_of_the_limit() {
        let long = [7; INLINE + 1];
        let all: Vec<Bytes> = (0..=long.len()).map(|end| Bytes::new(&long[..end])).collect();
        assert!(all.iter().enumerate().all(|(length, bytes)| **bytes == long[..length]));
        assert!(all.is_sorted() && all.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(matches!(&all[INLINE..], [Bytes::Inline(..), Bytes::Boxed(_)]));
    }
}
