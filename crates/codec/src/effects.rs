//! The effects of a block: the rows that its transactions changed, and the Merkle root over them.

use std::cmp::Ordering;

use crate::{length_prefix, merkle, sha256, Hash};

/// The kind of a row's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// The row is new; its hash is that of the row after.
    Insert = b'I',
    /// The row changed under the same key; its hash is that of the row after.
    Update = b'U',
    /// The row is gone; its hash is that of the row before.
    Delete = b'D',
}

impl Op {
    /// The operation that an ASCII letter stands for, if any.
    pub const fn from_byte(byte: u8) -> Option<Op> {
        match byte {
            b'I' => Some(Op::Insert),
            b'U' => Some(Op::Update),
            b'D' => Some(Op::Delete),
            _ => None,
        }
    }
}

/// One change of one row by a successful transaction of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// `schema.name`, unquoted.
    pub table: &'a str,
    /// Row encoding of the primary key's columns alone.
    pub pk: &'a [u8],
    /// Index of the transaction in the block.
    pub tx: u32,
    /// What happened.
    pub op: Op,
    /// Hash of the row after it, or before it for [`Op::Delete`].
    pub row_hash: Hash,
    /// Counts the changes of one (table, pk) in the block from 0. Filled in by [`effects_root`].
    pub serial: u32,
}

impl Change<'_> {
    fn cmp_key(&self, other: &Self) -> Ordering {
        // Changes of one table mostly share the name itself: then there is nothing to compare.
        let same = std::ptr::eq(self.table, other.table);
        let tables = if same { Ordering::Equal } else { self.table.as_bytes().cmp(other.table.as_bytes()) };
        tables.then_with(|| self.pk.cmp(other.pk))
    }
}

/// `H(00 ‖ lp(table) ‖ lp(pk) ‖ u32 serial ‖ u32 tx ‖ op ‖ row_hash)`
pub fn leaf(change: &Change<'_>) -> Hash {
    sha256(&[
        &[0],
        &length_prefix(change.table.as_bytes()),
        change.table.as_bytes(),
        &length_prefix(change.pk),
        change.pk,
        &change.serial.to_be_bytes(),
        &change.tx.to_be_bytes(),
        &[change.op as u8],
        &change.row_hash,
    ])
}

/// The effects of a block in their canonical order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Merkle tree hash over the sorted leaves.
    pub root: Hash,
    /// Positions in the list given, sorted by (table, pk, serial).
    pub order: Vec<u32>,
}

/// Gives each change its serial, in place, and returns their sorted order and the effects root.
///
/// Invariant L2: the root does not depend on the order in which rows of different keys changed.
///
/// `changes` stand in the order in which they happened; only the order within one key matters.
/// Cost: one sort of positions and two SHA-256 per change; memory: four bytes per change. At most
/// `u32::MAX` changes.
pub fn effects_root(changes: &mut [Change<'_>]) -> Effects {
    let order = sort_changes(changes);
    let mut tree = merkle::Tree::default();
    order.iter().for_each(|at| tree.push(leaf(&changes[*at as usize])));
    Effects { root: tree.root(), order }
}

/// Gives each change its serial, in place, and returns their positions sorted by (table, pk,
/// serial).
///
/// `changes` stand in the order in which they happened; only the order within one key matters.
/// Cost: one sort of positions; memory: four bytes per change. At most `u32::MAX` changes.
pub fn sort_changes(changes: &mut [Change<'_>]) -> Vec<u32> {
    let count = u32::try_from(changes.len()).expect("a block's effects are counted by a u32");
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| changes[a as usize].cmp_key(&changes[b as usize]).then(a.cmp(&b)));
    let mut previous: Option<usize> = None;
    for at in order.iter().map(|&at| at as usize) {
        changes[at].serial = match previous {
            Some(before) if changes[before].cmp_key(&changes[at]).is_eq() => changes[before].serial + 1,
            _ => 0,
        };
        previous = Some(at);
    }
    order
}

/// A leaf with its sort key except for the serial: leaves of one key follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedLeaf<'a> {
    /// `schema.name`, unquoted.
    pub table: &'a str,
    /// Row encoding of the primary key's columns alone.
    pub pk: &'a [u8],
    /// The result of [`leaf`].
    pub hash: Hash,
}

impl KeyedLeaf<'_> {
    fn cmp_key(&self, other: &Self) -> Ordering {
        let same = std::ptr::eq(self.table, other.table);
        let tables = if same { Ordering::Equal } else { self.table.as_bytes().cmp(other.table.as_bytes()) };
        tables.then_with(|| self.pk.cmp(other.pk))
    }
}

/// The effects root of a block that ran in parts, from the leaves of each part, sorted by (table,
/// pk, serial). `None` when two parts changed one key: they were not independent, and serials are
/// unknown.
///
/// Cost: for each leaf one comparison with the least leaf of each other part, and one SHA-256.
pub fn merged_root<'a, P: Iterator<Item = KeyedLeaf<'a>>>(parts: impl IntoIterator<Item = P>) -> Option<Hash> {
    let mut parts: Vec<_> = parts.into_iter().map(Iterator::peekable).collect();
    let mut tree = merkle::Tree::default();
    loop {
        let mut least: Option<(usize, KeyedLeaf<'a>)> = None;
        for (at, part) in parts.iter_mut().enumerate() {
            let Some(head) = part.peek() else { continue };
            match least.as_ref().map(|(_, leaf)| head.cmp_key(leaf)) {
                Some(Ordering::Equal) => return None,
                Some(Ordering::Greater) => (),
                Some(Ordering::Less) | None => least = Some((at, *head)),
            }
        }
        let Some((at, first)) = least else { return Some(tree.root()) };
        while let Some(leaf) = parts[at].next_if(|leaf| leaf.cmp_key(&first).is_eq()) {
            tree.push(leaf.hash);
        }
    }
}

/// The effects hash of a DEPLOY transaction that succeeded, which may change definitions and whole
/// tables without a leaf: `H("chainify/tx-deploy/1" ‖ tx_effects ‖ state root as it left it)`.
pub fn deploy_effects(tx_effects: &Hash, state_root: &Hash) -> Hash {
    sha256(&[b"chainify/tx-deploy/1", tx_effects, state_root])
}

/// The hash of the effects of each transaction of a block. Organisations with different effects
/// compare these to find the transaction.
///
/// `H("chainify/tx-effects/1" ‖ u32 tx ‖ u8 outcome ‖ MTH(leaves))`, where `leaves` are the
/// transaction's in the order of the block's. `changes` and `order` are as [`effects_root`] left
/// them, `outcomes` has an entry for each transaction. Cost: two SHA-256 per change.
pub fn transaction_effects(changes: &[Change<'_>], order: &[u32], outcomes: &[bool]) -> Vec<Hash> {
    let mut trees = vec![merkle::Tree::default(); outcomes.len()];
    for change in order.iter().map(|&at| &changes[at as usize]) {
        trees[change.tx as usize].push(leaf(change));
    }
    let hash = |(tx, tree): (u32, &merkle::Tree)| {
        sha256(&[b"chainify/tx-effects/1", &tx.to_be_bytes(), &[outcomes[tx as usize].into()], &tree.root()])
    };
    (0..).zip(&trees).map(hash).collect()
}
