//! The changes of the block being executed, in the order in which they happened.
use std::rc::Rc;

use chainify_codec::Op;

use crate::ledger::tables::Leaf;
use crate::pg::base::relation::Tuple;
use crate::pg::base::subtransaction::Hooks;
use crate::transaction::block_state::block;
use crate::transaction::recorded::{Effects, BYTES_MAX, CHANGES_MAX};

fn recorded<T>(f: impl FnOnce(&mut Effects) -> T) -> T {
    block(|block| f(&mut block.effects.borrow_mut()))
}

/// Registered while the library is loaded.
pub static HOOKS: Hooks = Hooks {
    begin: || recorded(Effects::mark),
    release: || recorded(Effects::keep),
    undo: || recorded(Effects::undo),
    end: || recorded(Effects::clear),
};

/// Records an insert: the row after. Like its relatives, raises 54000 beyond the bounds of a block.
pub fn inserted(leaf: &Rc<Leaf>, tx: u32, new: &Tuple) {
    recorded(|e| {
        let (pk, after) = (e.key(leaf, new), e.row(leaf, new));
        e.push(leaf, tx, Op::Insert, pk, None, Some(after), new);
    });
}

/// Records a delete: the row before.
pub fn deleted(leaf: &Rc<Leaf>, tx: u32, old: &Tuple) {
    recorded(|e| {
        let (pk, before) = (e.key(leaf, old), e.row(leaf, old));
        e.push(leaf, tx, Op::Delete, pk, Some(before), None, old);
    });
}

/// Records an update: one change, or a delete and an insert when the key changed.
pub fn updated(leaf: &Rc<Leaf>, tx: u32, old: &Tuple, new: &Tuple) {
    recorded(|e| {
        let (pk, before) = (e.key(leaf, old), e.row(leaf, old));
        let (new_pk, after) = (e.key(leaf, new), e.row(leaf, new));
        if e.bytes(pk) == e.bytes(new_pk) {
            e.push(leaf, tx, Op::Update, pk, Some(before), Some(after), new);
            if e.keeps_befores {
                let before = e.images.push(old);
                e.befores.push((e.changes.len() - 1, before));
            }
        } else {
            e.push(leaf, tx, Op::Delete, pk, Some(before), None, old);
            e.push(leaf, tx, Op::Insert, new_pk, None, Some(after), new);
        }
    });
}

/// Begins a block: nothing recorded yet.
pub fn start() {
    recorded(Effects::start);
}

/// Begins a rehearsal, which keeps the rows before updates as well, until its transaction ends.
pub fn start_rehearsal() {
    start();
    recorded(|e| e.keeps_befores = true);
}

/// Shows what was recorded.
pub fn with<T>(f: impl FnOnce(&Effects) -> T) -> T {
    block(|block| f(&block.effects.borrow()))
}

/// Whether parts that reported such peaks could together have met the bounds of a block.
pub fn exceeds_block(changes_peak: u64, bytes_peak: u64) -> bool {
    changes_peak >= CHANGES_MAX as u64 || bytes_peak > BYTES_MAX as u64
}
