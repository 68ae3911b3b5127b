//! Runs several transactions of a block in one subtransaction, in groups that
//! `chainify_worker::groups` chooses.
//!
//! Outcomes do not depend on the groups: a transaction sees the same rows, time, random numbers and
//! UUIDs in any group (X1, X2).
use std::cell::Cell;

use chainify_ledger::messages::Kind;
use chainify_worker::groups::Pace;

use crate::pg::base::settings;
use crate::running::request::is_quarantined;
use crate::running::request::Request;

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace::new()) };
}

/// How many of the transactions at `positions` run together now, from the first one on; None for a
/// single one. `kind`: that of transactions which may share. A DEPLOY changes definitions, which
/// its end announces: it stays alone.
pub fn from(request: &Request, positions: &[usize], kind: Kind) -> Option<usize> {
    // One that is not run has nothing to undo.
    let may_share =
        |at: &usize| request.transactions[*at].kind() == kind && !is_quarantined(request, *at);
    let may_share = positions.iter().map(may_share);
    PACE.get().members(settings::group_after(), may_share)
}

/// A group of so many has run, or was undone.
pub fn ran_together(members: usize, succeeded: bool) {
    let after = settings::group_after();
    PACE.set(PACE.get().ran_together(members, succeeded, after));
}

/// A transaction has run by itself.
pub fn ran_alone(succeeded: bool) {
    PACE.set(PACE.get().ran_alone(succeeded, settings::group_after()));
}
