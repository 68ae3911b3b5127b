//! Prepares the rest of a transaction, so that it can be committed or rolled back as the ledger
//! transaction ends. After a crash the maintenance worker does so (W4).
use std::time::{Duration, Instant};

use pgrx::pg_sys;

use crate::base::backend::{Part, BACKEND};
use crate::base::crash;
use crate::base::error::PgError;
use crate::base::interrupts::without_cancels;
use crate::base::latch::pause;
use crate::base::prepared;
use crate::session_transaction::retry;
use crate::session_transaction::state::Remaining;

/// How long another process may take to end what this session prepared.
const OTHERS_TAKE_MAX: Duration = Duration::from_secs(5);

/// Prepares the rest of the transaction under a name, does the work, and ends what was prepared the
/// same way. Raises the error of the work, after which no transaction is in progress.
pub(super) fn run(part: Part, chain: bool, name: &str, work: Box<dyn Remaining>) {
    let characteristics = Characteristics::now();
    prepare(part, name);
    crash::point("local_prepared");
    let done = work.run();
    crash::point("local_decided");
    match done {
        Ok(()) => end(name, true),
        Err(failed) => {
            if failed.known {
                end(name, false);
            }
            retry::refused(&failed.error);
            failed.error.raise();
        }
    }
    if chain {
        characteristics.begin();
    }
}

fn prepare(part: Part, name: &str) {
    // SAFETY: no subtransaction is open and no portal runs.
    unsafe {
        if !part.block {
            // PostgreSQL prepares transaction blocks alone.
            pg_sys::BeginTransactionBlock();
            pg_sys::CommitTransactionCommand();
        }
    }
    // A cancel for a block is met while the work waits, which knows that it is too late.
    without_cancels(|| prepared::prepare(name)).unwrap_or_else(|error| error.raise());
    to_messages();
}

/// Ends what was prepared. The maintenance worker does it when that fails here, or is doing it.
fn end(name: &str, commits: bool) {
    let until = Instant::now() + OTHERS_TAKE_MAX;
    let ended = without_cancels(|| loop {
        match prepared::finish(name, commits) {
            Err(error) if error.sqlstate.as_str() == "42704" => break Ok(()),
            Err(error) if error.sqlstate.as_str() == "55000" && Instant::now() < until => {
                pause(Duration::from_millis(5));
            }
            ended => break ended,
        }
    });
    to_messages();
    if let Err(PgError { message, .. }) = ended {
        let change = if commits { "committed" } else { "rolled back" };
        pgrx::warning!("local changes are {change} later: {message}");
    }
}

/// The context of the messages is there for as long as the session.
fn to_messages() {
    // SAFETY: see above.
    unsafe { pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext) };
}

/// Isolation level and the like, which AND CHAIN keeps.
struct Characteristics(pg_sys::SavedTransactionCharacteristics);

impl Characteristics {
    fn now() -> Self {
        let mut saved = pg_sys::SavedTransactionCharacteristics::default();
        // SAFETY: a transaction is in progress.
        unsafe { pg_sys::SaveTransactionCharacteristics(&raw mut saved) };
        Characteristics(saved)
    }

    fn begin(&self) {
        // SAFETY: no transaction is in progress.
        unsafe {
            pg_sys::StartTransactionCommand();
            pg_sys::RestoreTransactionCharacteristics(&raw const self.0);
            pg_sys::BeginTransactionBlock();
            pg_sys::CommitTransactionCommand();
        }
        to_messages();
        BACKEND.session.block.set(true);
    }
}
