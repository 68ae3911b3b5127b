//! Where the row of a key is.

use std::hash::{BuildHasher, RandomState};

use chainify_snapshot::Slot;
use hashbrown::HashTable;

/// Part of a key's hash, and the slot of its row.
#[derive(Clone, Copy)]
struct Entry {
    part: u32,
    slot: u32,
}

/// The slots of rows by their keys. The keys themselves stand in the rows alone: the caller compares.
///
/// The hash is keyed with the operating system's randomness, so nobody makes keys that collide.
/// Memory: 9 bytes for each place, at most seven eighths of which are in use.
#[derive(Default)]
pub struct Keys {
    entries: HashTable<Entry>,
    hash: RandomState,
}

/// The hash of an entry: the table takes its tags from the highest bits, its places from the lowest.
fn spread(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(part)
}

impl Keys {
    fn part(&self, key: &[u8]) -> u32 {
        self.hash.hash_one(key) as u32
    }

    /// The slot of a key for which `is` is true. It sees slots that may be the key's: hardly ever
    /// another one.
    pub fn find(&self, key: &[u8], mut is: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let part = self.part(key);
        let found = self.entries.find(spread(part), |entry| entry.part == part && is(entry.slot as Slot));
        found.map(|entry| entry.slot as Slot)
    }

    /// Adds a key that is not there. False: the slot is beyond 32 bits.
    #[must_use]
    pub fn insert(&mut self, key: &[u8], slot: Slot) -> bool {
        let (part, Ok(slot)) = (self.part(key), u32::try_from(slot)) else { return false };
        self.entries.insert_unique(spread(part), Entry { part, slot }, |entry| spread(entry.part));
        true
    }

    /// Forgets the key of a slot.
    pub fn remove(&mut self, key: &[u8], slot: Slot) {
        let part = self.part(key);
        let same = |entry: &Entry| entry.part == part && entry.slot as Slot == slot;
        if let Ok(found) = self.entries.find_entry(spread(part), same) {
            found.remove();
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.entries.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_to_their_slots() {
        let mut keys = Keys::default();
        let key = |n: usize| n.to_be_bytes();
        for n in 0..10_000 {
            assert!(keys.insert(&key(n), n * 3));
        }
        for n in (0..10_000).step_by(2) {
            keys.remove(&key(n), n * 3);
            keys.remove(&key(n + 1), n); // another slot
        }
        for n in 0..10_000 {
            let want = (n % 2 == 1).then_some(n * 3);
            assert_eq!(keys.find(&key(n), |slot| slot == n * 3), want);
            assert_eq!(keys.find(&key(n), |_| false), None);
        }
        assert_eq!(keys.entries.len(), 5_000);
        assert!(!keys.insert(&key(1), u32::MAX as usize + 1));
        assert!(keys.bytes() < 20_000 * 9);
    }
}
