//! Ranges of a table's rows by the hashes of their keys, and digests of them: how two databases
//! find the rows in which they differ without sending all of them.
//!
//! A digest is a hint and no proof. An organisation that sends a false digest costs the receiver a
//! failed attempt. Rows that are taken over have to hash to the certified state of the table.

use crate::{sha256, Hash};

/// Ranges are told apart by at most so many bits of the keys' hashes.
pub const RANGE_BITS_MAX: u32 = 24;

/// The range of a row: the first `bits` bits of H(pk), at most [`RANGE_BITS_MAX`].
pub fn key_range(pk: &[u8], bits: u32) -> u32 {
    key_hash_range(&key_hash(pk), bits)
}

/// H(pk)
pub fn key_hash(pk: &[u8]) -> Hash {
    sha256(&[pk])
}

/// The range of a row whose key has this hash.
pub fn key_hash_range(hash: &Hash, bits: u32) -> u32 {
    debug_assert!(bits <= RANGE_BITS_MAX);
    let head = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
    // A shift by the whole width is not defined, and one range has no bits.
    head.checked_shr(u32::BITS - bits).unwrap_or(0)
}

/// Some ranges of keys, of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRanges {
    bits: u32,
    ranges: Vec<u32>,
}

impl KeyRanges {
    /// `None` unless they are ascending ranges of so many bits, at most [`RANGE_BITS_MAX`].
    pub fn new(bits: u32, ranges: Vec<u32>) -> Option<Self> {
        let ascending = ranges.is_sorted_by(|a, b| a < b);
        let fit = bits <= RANGE_BITS_MAX && ranges.last().is_none_or(|last| last >> bits == 0);
        (ascending && fit).then_some(Self { bits, ranges })
    }

    /// Bits of a key's hash that tell them apart.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[u32] {
        &self.ranges
    }

    /// Whether the key with this hash is in one of them.
    pub fn have(&self, key_hash: &Hash) -> bool {
        self.ranges.binary_search(&key_hash_range(key_hash, self.bits)).is_ok()
    }
}

/// The rows of one range: how many, and the sum of their row hashes as four u64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeDigest {
    /// How many.
    pub rows: u64,
    sum: [u64; 4],
}

impl RangeDigest {
    /// Adds a row; the order of rows does not matter.
    pub fn add(&mut self, row_hash: &Hash) {
        self.rows += 1;
        for (sum, word) in self.sum.iter_mut().zip(row_hash.chunks_exact(8)) {
            *sum = sum.wrapping_add(u64::from_be_bytes(word.try_into().expect("chunks of eight bytes")));
        }
    }

    /// The sum, big endian.
    pub fn to_bytes(&self) -> Hash {
        let mut bytes = Hash::default();
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.sum) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

/// Hashes of rows under a secret key, for digests that are compared within one database. Nobody
/// without the key can choose rows whose digests add up, so equal digests are equal rows. This is
/// cheaper than lanes where nothing has to be agreed.
#[derive(Clone)]
pub struct SecretHasher(blake3::Hasher);

impl SecretHasher {
    /// `key` has to be random and is told to nobody.
    pub fn new(key: &Hash) -> Self {
        Self(blake3::Hasher::new_keyed(key))
    }

    /// The hash of a row, for [`RangeDigest::add`].
    pub fn hash(&self, row: &[u8]) -> Hash {
        *self.0.clone().update(row).finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ranges_lie_within_shorter_ones() {
        for key in [&b""[..], b"a", b"key 7"] {
            assert_eq!(key_range(key, 0), 0);
            for bits in 1..=RANGE_BITS_MAX {
                assert_eq!(key_range(key, bits) >> 1, key_range(key, bits - 1));
            }
        }
        // H("abc") begins with ba7816.
        assert_eq!(key_range(b"abc", 12), 0xba7);
    }

    #[test]
    fn ranges_are_ascending_and_of_their_bits() {
        for (bits, ranges) in [
            (3, vec![7, 0]),
            (3, vec![1, 1]),
            (3, vec![8]),
            (0, vec![1]),
            (RANGE_BITS_MAX + 1, vec![]),
            (u32::MAX, vec![0]),
        ] {
            assert_eq!(KeyRanges::new(bits, ranges), None);
        }
        let all = KeyRanges::new(0, vec![0]).expect("one range of all keys");
        let some = KeyRanges::new(12, vec![0xba6, 0xba7]).expect("ranges");
        let none = KeyRanges::new(12, vec![]).expect("no range");
        let have = |ranges: &KeyRanges| ranges.have(&key_hash(b"abc"));
        assert_eq!([have(&all), have(&some), have(&none)], [true, true, false]);
        assert!(!KeyRanges::new(12, vec![0xba6, 0xba8]).expect("ranges").have(&key_hash(b"abc")));
    }

    #[test]
    fn secret_hashes_depend_on_key_and_row() {
        let hash = |key, row: &[u8]| SecretHasher::new(&[key; 32]).hash(row);
        assert_eq!(hash(1, b"a"), hash(1, b"a"));
        assert_ne!(hash(1, b"a"), hash(1, b"b"));
        assert_ne!(hash(1, b"a"), hash(2, b"a"));
    }

    #[test]
    fn a_digest_tells_rows_apart_and_not_their_order() {
        let digest = |rows: &[&[u8]]| {
            let mut digest = RangeDigest::default();
            rows.iter().for_each(|row| digest.add(&sha256(&[row])));
            digest
        };
        assert_eq!(digest(&[b"a", b"b"]), digest(&[b"b", b"a"]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"a", b"c"]));
        assert_ne!(digest(&[b"a"]), digest(&[b"a", b"a"]));
        assert_eq!(digest(&[b"a"]).to_bytes(), sha256(&[b"a"]));
    }
}
