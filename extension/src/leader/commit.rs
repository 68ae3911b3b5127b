//! The commit of a block. Readers of exactly one block (`chainify.read_block`) leave first. Then
//! the parts commit, and the LedgerBlock at last (spec/parallel.md).
//!
//! * P4 The LedgerBlock commits last: a reader that sees it sees all effects of its block.
//! * P5 A part commits together with its own row in `chainify_ledger.part`. The row names the
//!   block, and has all that sealing the block needs.
use crate::block::lock_conflicts;
use crate::certification::recent_changes;
use crate::parallel::team;
use crate::pg::base::crash;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::run::commit::{uncancelled, CommitHooks};
use crate::running::block_state::{block, Open};

/// The answers for the callbacks of a transaction's end.
pub const COMMIT: CommitHooks = CommitHooks {
    before,
    before_prepare,
    committed,
    rolled_back,
};

/// Raises 55000 when a block of this transaction is open in parts: the next one would not see their
/// effects.
pub fn check_nothing_open() {
    if let Some(open) = block(|block| block.open.get()).filter(|open| open.parts > 0) {
        let message = format!("block {} is not committed yet", open.number);
        PgError::new(b"55000", message)
            .detail("Its effects are in the transactions of other processes.")
            .raise();
    }
}

/// The block is executed; `parts` of it by workers.
pub fn executed(number: i64, parts: usize) {
    block(|block| block.open.set(Some(Open { number, parts })));
}

fn before() {
    let Some(open) = block(|block| block.open.get()) else {
        return;
    };
    if !own_lock::try_take(OwnLock::Block) {
        lock_conflicts::before_locals(open.number, || own_lock::take(OwnLock::Block));
    }
    crash::point("before_part_commit");
    uncancelled(|| {
        // Together, so that they share the waiting for the disk.
        for part in 1..=open.parts {
            team::tell_to_commit(part).or_raise();
        }
        for part in 1..=open.parts {
            team::committed(part).or_raise();
            crash::point(&format!("after_part_commit:{part}"));
        }
    });
    crash::point("before_block_commit");
}

fn before_prepare() {
    if block(|block| block.open.get()).is_some() {
        PgError::new(
            b"0A000",
            "cannot PREPARE a transaction that has executed a block",
        )
        .raise();
    }
}

fn committed() {
    if block(|block| block.open.take()).is_some() {
        crash::point("after_block_commit");
    }
}

fn rolled_back() {
    block(|block| block.open.set(None));
    recent_changes::forget();
    team::abandon();
}
