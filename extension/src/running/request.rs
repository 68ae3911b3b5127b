//! The request to execute a block, checked: its transactions and the values that they all share.
use chainify_codec::Hash;
use chainify_ledger::messages::Kind;
use chainify_ledger::Transaction;

use crate::pg::base::error::PgError;

/// Index of a transaction in the block, and its outcome.
pub type Refused = (i32, PgError);

/// A block to run, checked.
pub struct Request<'a> {
    pub chain_id: String,
    pub number: i64,
    pub order_height: i64,
    pub block_time: i64,
    pub previous: Hash,
    pub transactions: Vec<Transaction>,
    /// Their positions in the block: all of them, but for a worker, which is given those of its
    /// part.
    pub indices: Vec<u32>,
    /// Their bytes as ordered.
    pub bodies: Vec<&'a [u8]>,
    /// By position in the request, which run of EFFECTS transactions of the block it belongs to,
    /// from 1; 0: it takes no turns. See [`Request::with_runs`].
    pub runs: Vec<u32>,
    /// With those that are refused.
    pub quarantined: Vec<i32>,
    /// Transactions that the node does not want run, ascending, and why (spec/engines.md).
    pub refused: Vec<Refused>,
    pub quarantine_all: bool,
    /// Asked for where organisations differed about the block: what each transaction did.
    pub effect_hashes: bool,
}

impl Request<'_> {
    /// With the runs of EFFECTS transactions: those that follow each other in the block. The
    /// request must have all of its transactions.
    pub fn with_runs(mut self) -> Self {
        let takes_turns =
            |at: usize| self.transactions[at].kind() == Kind::Effects && !is_quarantined(&self, at);
        let (mut number, mut within) = (0, false);
        let mut run = |at: usize| {
            let before = std::mem::replace(&mut within, takes_turns(at));
            number += u32::from(within && !before);
            u32::from(within) * number
        };
        self.runs = (0..self.transactions.len()).map(&mut run).collect();
        self
    }
}

/// Whether a transaction of this kind may change definitions.
pub fn may_deploy(kind: Kind) -> bool {
    !matches!(kind, Kind::Sql | Kind::Effects)
}

/// Why the node refuses a transaction, if it does.
pub fn refusal(request: &Request, at: usize) -> Option<PgError> {
    let index = request.indices[at] as i32;
    let found = request
        .refused
        .binary_search_by_key(&index, |refused| refused.0);
    Some(request.refused[found.ok()?].1.clone())
}

/// Whether the node said not to run it.
pub fn is_quarantined(request: &Request, at: usize) -> bool {
    request.quarantine_all || request.quarantined.contains(&(request.indices[at] as i32))
}
