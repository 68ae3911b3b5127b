//! `chainify.uuid()` of spec/formats.md.
use crate::{sha256, Hash};

/// The UUID, version 8, that the call `counter` (from 0) of `chainify.uuid()` gives in the
/// transaction `id`.
pub fn transaction_uuid(id: &Hash, counter: u64) -> [u8; 16] {
    let hash = sha256(&[b"chainify/uuid/1", id, &counter.to_be_bytes()]);
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash[..16]);
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_transactions_differ_and_the_layout_is_version_8() {
        let all = [([1; 32], 0), ([1; 32], 1), ([2; 32], 0)].map(|(id, counter)| transaction_uuid(&id, counter));
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        for uuid in all {
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2));
        }
        assert_eq!(all[0], transaction_uuid(&[1; 32], 0));
    }
}
