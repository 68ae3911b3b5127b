//! The end of a transaction with a ledger part: the callbacks take its changes, and the part is
//! undone.
use std::ffi::c_int;

use pgrx::pg_sys;

use crate::base::backend::{End, Part, State, Within, BACKEND};
use crate::base::constraints;
use crate::base::error::attempt_undone;
use crate::base::interrupts::without_cancels;
use crate::session_transaction::state::{over, ABOVE};
use crate::session_transaction::{kept_locks, kept_settings, prepared, retry};

/// Ends the transaction. When that fails, none is in progress afterwards and the error is raised:
/// for the client, as after any COMMIT that failed.
pub(super) fn finish(part: Part, end: End) {
    let End::Commit { chain } = end else {
        return abort();
    };
    let before = kept_settings::before();
    // SAFETY: aborted after an Err.
    if let Err(error) = unsafe { attempt_undone(|| commit(part, chain)) } {
        abort();
        kept_locks::let_go();
        before.put_back();
        error.raise();
    }
    kept_locks::let_go();
}

pub(super) fn abort() {
    // SAFETY: no portal runs. The context of the messages is there for as long as the session.
    unsafe {
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}

/// A cancel for the sake of a block finds its locks gone, so it is put off until the work remains
/// that may be cancelled.
fn commit(part: Part, chain: bool) {
    let remaining = without_cancels(|| {
        check_at_once(part);
        let remaining = (ABOVE.get().take)();
        if remaining.is_some() {
            kept_locks::hold();
        }
        leave_part(part, remaining.is_none());
        if part.changed_before {
            kept_locks::hand_back();
        }
        // It holds locks, so it ends first unless it has changed something: that is committed only
        // if the rest is.
        if remaining.is_none() || !part.changed_before {
            end_rest(part, chain, remaining.is_some());
        }
        remaining
    });
    if let Some(mut remaining) = remaining {
        if part.changed_before {
            let name = without_cancels(|| remaining.name());
            if let Some(name) = name.unwrap_or_else(|error| error.raise()) {
                return prepared::run(part, chain, &name, remaining);
            }
        }
        remaining.run().unwrap_or_else(|failed| {
            retry::refused(&failed.error);
            failed.error.raise()
        });
        if part.changed_before {
            end_rest(part, chain, false);
        }
    }
}

/// Fires the deferred triggers. An undo of the part has those of earlier changes not fired yet.
fn check_at_once(part: Part) {
    let tell = |begin: bool| {
        if part.changed_before {
            (ABOVE.get().early_triggers)(begin);
        }
    };
    tell(true);
    constraints::check_at_once();
    tell(false);
}

/// Ends the part and what savepoints are open in it.
fn leave_part(part: Part, keep: bool) {
    BACKEND.session.enter(State::Outside);
    over();
    // SAFETY: no portal runs; the innermost subtransaction is in progress, since this is where the
    // session commits.
    unsafe {
        let all = part.within != Within::Subtransaction;
        let keep_all = keep || all;
        if !keep_all {
            kept_settings::keep(part.settings_level);
        }
        kept_settings::with_role_kept(|| {
            while pg_sys::GetCurrentTransactionNestLevel() > 1 {
                match keep_all {
                    true => pg_sys::ReleaseCurrentSubTransaction(),
                    false => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
                }
            }
            if all && !keep {
                kept_settings::keep(kept_settings::OF_TRANSACTION);
                pg_sys::AbortOutOfAnyTransaction();
                pg_sys::StartTransactionCommand();
            }
        });
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}

/// Commits the transaction itself. `empty`: it changed nothing, so nobody waits for the disk.
fn end_rest(part: Part, chain: bool, empty: bool) {
    // SAFETY: no subtransaction is open and no portal runs. The setting is put back; an ERROR
    // before that ends the session's transaction, and PostgreSQL knows what was set.
    unsafe {
        let durable = pg_sys::synchronous_commit;
        if empty {
            pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as c_int;
        }
        if part.block {
            BACKEND.session.chain.set(chain);
            pg_sys::EndTransactionBlock(chain);
        } else if !part.lone {
            pg_sys::EndImplicitTransactionBlock();
        }
        let ended = attempt_undone(|| pg_sys::CommitTransactionCommand());
        pg_sys::synchronous_commit = durable;
        ended.unwrap_or_else(|error| error.raise());
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
    }
}
