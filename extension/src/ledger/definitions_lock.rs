//! Definitions as of one moment, and reading without a lock that stays.
//!
//! The text that PostgreSQL prints of an object (a type's name, the definition of an index) is as
//! of now, whatever snapshot the query around it has. So definitions are compared under the lock of
//! definitions and with a snapshot taken after it: no block changes them in between.
//!
//! Invariant R11: maintenance takes the lock of definitions before any other that a block or a
//! repair may need, and does not wait for it with such a lock in hand. A block that changes
//! definitions, and a repair, take it alone and first.
use std::time::{Duration, Instant};

use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

use crate::pg::base::error::PgError;
use crate::pg::base::latch::pause;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::subtransaction::subtransaction;

/// How long to wait for a block that changes definitions; one is open until organisations agree on
/// it.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Runs `f`, which changes nothing, and gives up every lock that it took.
pub fn unlocked<T>(f: impl FnOnce(&SpiClient<'_>) -> T) -> T {
    let mut found = None;
    let undone = subtransaction(|| {
        found = Some(spi::connect(f));
        Err::<(), _>(PgError::new(b"XX000", "undone"))
    });
    match (found, undone) {
        (Some(found), _) => found,
        (None, Err(error)) => error.raise(),
        (None, Ok(())) => unreachable!("it returns an error"),
    }
}

/// Defects of definitions, each seen twice: what an organisation changes beside the ledger at this
/// moment is none yet. None: a block changes definitions all the time.
pub fn seen_twice<T: PartialEq>(look: impl Fn(&SpiClient<'_>) -> Vec<T>) -> Option<Vec<T>> {
    let mut found = at_one_moment(&look)?;
    if !found.is_empty() {
        let again = at_one_moment(&look)?;
        found.retain(|defect| again.contains(defect));
    }
    Some(found)
}

/// Not by waiting in the server's queue: the caller may hold locks that the block needs.
fn at_one_moment<T>(look: impl Fn(&SpiClient<'_>) -> T) -> Option<T> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let seen =
            unlocked(|client| own_lock::try_share(OwnLock::Definitions).then(|| look(client)));
        if seen.is_some() || Instant::now() > until {
            return seen;
        }
        pause(LOOK);
    }
}

/// The refusal that readers get instead.
pub fn refusal() -> PgError {
    PgError::new(b"55P03", "definitions of the ledger are being changed")
        .detail("A block that changes them is open.")
        .hint("Try again.")
}
