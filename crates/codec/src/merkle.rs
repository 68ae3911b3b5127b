//! The Merkle tree hash of RFC 9162, section 2.1, over leaf hashes, and its inclusion proofs.
//!
//! `MTH() = H("")`, `MTH(l) = l`, `MTH(L) = H(01 ‖ MTH(L[0:k]) ‖ MTH(L[k:n]))`, k the largest power
//! of two below n. The caller hashes leaves with the prefix `00`, so no leaf can pass for a node.

use crate::{sha256, Hash};

fn node(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
}

/// Takes leaf hashes one by one. Memory: one hash per level.
#[derive(Clone, Default)]
pub struct Tree {
    leaves: u64,
    /// Roots of complete subtrees, largest first: one for each bit set in `leaves`.
    complete: Vec<Hash>,
}

impl Tree {
    /// The next leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        let mut root = leaf;
        for _ in 0..self.leaves.trailing_ones() {
            let left = self.complete.pop().expect("a complete subtree for each bit of the leaf count");
            root = node(&left, &root);
        }
        self.complete.push(root);
        self.leaves += 1;
    }

    /// The tree hash of the leaves so far.
    pub fn root(&self) -> Hash {
        let folded = self.complete.iter().rev().copied().reduce(|right, left| node(&left, &right));
        folded.unwrap_or_else(|| sha256(&[]))
    }
}

/// The tree hash of `leaves`. Cost: one SHA-256 per leaf.
pub fn root(leaves: &[Hash]) -> Hash {
    let mut tree = Tree::default();
    leaves.iter().for_each(|leaf| tree.push(*leaf));
    tree.root()
}

/// The inclusion proof of leaf `index`: siblings from the leaf up (RFC 9162, section 2.1.3.1);
/// `None` when there is no such leaf. Cost: one SHA-256 per leaf.
pub fn prove(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaves.len() {
        return None;
    }
    let mut proof = Vec::new();
    let mut level = leaves.to_vec();
    let mut at = index;
    // A node without a right neighbour moves up unchanged: that gives the tree of the definition
    // above.
    while level.len() > 1 {
        proof.extend(level.get(at ^ 1));
        level = level.chunks(2).map(|pair| if let [l, r] = pair { node(l, r) } else { pair[0] }).collect();
        at /= 2;
    }
    Some(proof)
}

/// The number of hashes in the inclusion proof of leaf `index`, which is below `size`. Up to the
/// level at which the leaf's path joins the last leaf's, each level gives one. Above, a level gives
/// one only where the path comes to it from the right.
pub fn proof_length(index: u64, size: u64) -> usize {
    let below = u64::BITS - (index ^ (size - 1)).leading_zeros();
    (below + index.checked_shr(below).unwrap_or(0).count_ones()) as usize
}

/// Whether `proof` shows that `leaf` is leaf `index` of the `size` leaves whose tree hash is `root`
/// (RFC 9162, section 2.1.3.2). Cost: one SHA-256 per hash in the proof.
pub fn verify(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last) = (index, size - 1); // of the current level
    let mut hash = *leaf;
    let mut siblings = proof.iter();
    while last > 0 {
        if at % 2 == 1 || at < last {
            let Some(sibling) = siblings.next() else { return false };
            hash = if at % 2 == 1 { node(sibling, &hash) } else { node(&hash, sibling) };
        }
        at /= 2;
        last /= 2;
    }
    siblings.next().is_none() && hash == *root
}
