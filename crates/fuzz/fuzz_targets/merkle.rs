//! Inclusion proofs, against the definition of the tree (RFC 9162, section 2.1):
//! `u64 index ‖ u64 size ‖ leaf ‖ siblings`.

#![no_main]

use chainify_codec::merkle::{proof_length, verify};
use chainify_codec::Hash;
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fn node(left: Hash, right: Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The root that `siblings` lead to from leaf `index` of `size`; `None` when they are too few or
/// too many.
fn root(leaf: Hash, index: u64, size: u64, siblings: &[Hash]) -> Option<Hash> {
    if size == 1 {
        return siblings.is_empty().then_some(leaf);
    }
    let (last, below) = siblings.split_last()?;
    let left = 1 << (size - 1).ilog2(); // the largest power of two below it
    match index < left {
        true => Some(node(root(leaf, index, left, below)?, *last)),
        false => Some(node(*last, root(leaf, index - left, size - left, below)?)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((index, rest)) = bytes.split_first_chunk() else { return };
    let Some((size, rest)) = rest.split_first_chunk() else { return };
    let ([leaf, siblings @ ..], _) = rest.as_chunks() else { return };
    let (index, size) = (u64::from_be_bytes(*index), u64::from_be_bytes(*size));
    if index >= size {
        return assert!(!verify(leaf, index, size, siblings, leaf));
    }
    let root = root(*leaf, index, size, siblings);
    assert_eq!(root.is_some(), siblings.len() == proof_length(index, size));
    assert_eq!(root.is_some(), verify(leaf, index, size, siblings, &root.unwrap_or(*leaf)));
    assert!(!verify(leaf, index, size, siblings, &node(*leaf, *leaf)) || root == Some(node(*leaf, *leaf)));
});
