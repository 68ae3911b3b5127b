//! How many transactions of a block share a subtransaction.
//!
//! A subtransaction costs as much as a small statement (an id, a lock on it, entries in several
//! lists, an end that visits every setting). It is needed only to undo a transaction that fails. So
//! several run in one; when one of them fails, all are undone and run again, each in its own.
//!
//! Running again costs half a group for each failure, so groups grow with the transactions that
//! succeeded since the last one. The size of groups decides about speed alone: outcomes are the
//! same with any size.

/// Transactions of a group at most: more save nothing that could be measured.
pub const MEMBERS_MAX: usize = 32;

/// The pace of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Transactions that succeeded since the last failure, counted as far as makes a difference.
    successes: usize,
    /// Members of a group that failed, which run alone now.
    alone: usize,
}

impl Pace {
    /// The pace of a session that has run nothing.
    pub const fn new() -> Self {
        Pace { successes: 0, alone: 0 }
    }

    /// How many of the next transactions run together; None: the next one runs alone.
    ///
    /// `after`: successes for each further member, 0 for as many as may; None: no groups.
    /// `may_share`: for each of the next transactions, whether it may share a subtransaction.
    pub fn members(&self, after: Option<usize>, may_share: impl Iterator<Item = bool>) -> Option<usize> {
        let after = after.filter(|_| self.alone == 0)?;
        let members = self.successes.checked_div(after).map_or(MEMBERS_MAX, |n| (1 + n).min(MEMBERS_MAX));
        let count = may_share.take(members).take_while(|may| *may).count();
        (count > 1).then_some(count)
    }

    /// A group of so many has run, or was undone. `after` as for [`Pace::members`].
    #[must_use]
    pub fn ran_together(self, members: usize, succeeded: bool, after: Option<usize>) -> Self {
        match succeeded {
            true => self.succeed(members, 0, after),
            false => Pace { successes: 0, alone: members },
        }
    }

    /// A transaction has run by itself. `after` as for [`Pace::members`].
    #[must_use]
    pub fn ran_alone(self, succeeded: bool, after: Option<usize>) -> Self {
        let alone = self.alone.saturating_sub(1);
        match succeeded {
            true => self.succeed(1, alone, after),
            false => Pace { successes: 0, alone },
        }
    }

    fn succeed(self, transactions: usize, alone: usize, after: Option<usize>) -> Self {
        let enough = MEMBERS_MAX * after.unwrap_or(0);
        Pace { successes: (self.successes + transactions).min(enough), alone }
    }
}
