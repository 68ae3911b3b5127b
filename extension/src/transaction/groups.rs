//! Which transactions of a block share a subtransaction.
//!
//! A subtransaction costs as much as a small statement (an id, a lock on it, entries in several lists, an end that visits every
//! setting), and is needed only to undo a transaction that fails. So several run in one; when one of them fails, all are undone
//! and run again, each in its own. The outcomes are those of running each in its own: a transaction sees the same rows, time,
//! random numbers and UUIDs whoever shares its subtransaction (X1, X2).
//!
//! Running again costs half a group for each failure, so groups grow with the transactions that succeeded since the last one. What
//! is kept here decides about speed alone.
use std::cell::Cell;

use chainify_ledger::messages::Kind;

use crate::pg::base::settings;
use crate::transaction::request::is_quarantined;
use crate::transaction::request::Request;

/// Transactions of a group at most: more save nothing that could be measured.
const MEMBERS_MAX: usize = 32;

/// Of this session.
#[derive(Clone, Copy)]
struct Pace {
    /// Transactions that succeeded since the last failure, counted as far as makes a difference.
    successes: usize,
    /// Members of a group that failed, which run alone now.
    alone: usize,
}

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace { successes: 0, alone: 0 }) };
}

/// How many of the transactions at `positions` run together now, from the first one on; None for a single one.
pub fn from(request: &Request, positions: &[usize]) -> Option<usize> {
    let pace = PACE.get();
    let after = settings::group_after().filter(|_| pace.alone == 0)?;
    let members = pace
        .successes
        .checked_div(after)
        .map_or(MEMBERS_MAX, |n| (1 + n).min(MEMBERS_MAX));
    let count = positions
        .iter()
        .take(members)
        .take_while(|at| may_share(request, **at))
        .count();
    (count > 1).then_some(count)
}

/// A DEPLOY changes definitions, which its end announces: it stays alone. One that is not run has nothing to undo.
fn may_share(request: &Request, at: usize) -> bool {
    request.transactions[at].kind() == Kind::Sql && !is_quarantined(request, at)
}

/// A group of so many has run, or was undone.
pub fn ran_together(members: usize, succeeded: bool) {
    match succeeded {
        true => succeed(members, 0),
        false => PACE.set(Pace {
            successes: 0,
            alone: members,
        }),
    }
}

/// A transaction has run by itself.
pub fn ran_alone(succeeded: bool) {
    let alone = PACE.get().alone.saturating_sub(1);
    match succeeded {
        true => succeed(1, alone),
        false => PACE.set(Pace {
            successes: 0,
            alone,
        }),
    }
}

fn succeed(transactions: usize, alone: usize) {
    let enough = MEMBERS_MAX * settings::group_after().unwrap_or(0);
    let successes = (PACE.get().successes + transactions).min(enough);
    PACE.set(Pace { successes, alone });
}
