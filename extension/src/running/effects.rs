//! The changes of the block being executed, in the order in which they happened.
use crate::pg::base::subtransaction::Hooks;
use crate::running::block_state::block;
use crate::running::recorded::{Effects, BYTES_MAX, CHANGES_MAX};

fn recorded<T>(f: impl FnOnce(&mut Effects) -> T) -> T {
    block(|block| f(&mut block.effects.borrow_mut()))
}

/// At the ends of transactions.
pub const ENDS: Hooks = Hooks {
    begin: || recorded(Effects::mark),
    release: || recorded(Effects::keep),
    undo: || recorded(Effects::undo),
    end: || recorded(Effects::clear),
};

/// Runs `f` on the record of the block's changes.
pub fn record(f: impl FnOnce(&mut Effects)) {
    recorded(f);
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

/// Runs `f` on the recorded changes, to read them.
pub fn with<T>(f: impl FnOnce(&Effects) -> T) -> T {
    block(|block| f(&block.effects.borrow()))
}

/// Whether parts with these peaks could together have reached the bounds of a block.
pub fn exceeds_block(changes_peak: u64, bytes_peak: u64) -> bool {
    changes_peak >= CHANGES_MAX as u64 || bytes_peak > BYTES_MAX as u64
}
