//! Shows people the serialization order of the EFFECTS transactions of a stored block
//! (`effects_order.rs`).
//!
//! The rows before the block are gone, so outcomes decide which transactions took part: one that
//! failed with a conflict counts as stale before the block. This is wrong for a conflict that arose
//! inside the block, by a unique index for example.
use std::collections::BTreeMap;

use chainify_ledger::messages::Kind;
use chainify_ledger::Transaction;
use chainify_sched::explain::{SharedRow, Turns};
use chainify_sched::reorder::{reorder, Accesses, PlaceNumber};

use crate::certification::effects_order::{cover, is_of_a_victim, Rows, Seen};

/// A transaction of a stored block.
pub struct Stored {
    pub transaction: Transaction,
    /// SQLSTATE and message of a failure.
    pub failure: Option<(String, String)>,
}

impl Stored {
    fn has_turn(&self) -> bool {
        let is_quarantined = self
            .failure
            .as_ref()
            .is_some_and(|(code, _)| code == "CH001" || code == "CH011");
        self.transaction.kind() == Kind::Effects && !is_quarantined
    }

    /// Whether its rows were compared with those of others.
    fn counts(&self) -> bool {
        let saw_older =
            |(code, message): &(String, String)| code == "40001" && !is_of_a_victim(message);
        !self.failure.as_ref().is_some_and(saw_older)
    }
}

/// The turns of each two or more EFFECTS transactions that follow each other. Raises an error of
/// the machine. Cost: linear in their rows, and that of [`reorder`].
pub fn turns(block: &[Stored]) -> Vec<Turns> {
    let mut found = Vec::new();
    let mut first = 0;
    for run in block.chunk_by(|one, next| one.has_turn() && next.has_turn()) {
        if run.len() > 1 {
            found.push(of_run(run, first));
        }
        first += run.len() as u32;
    }
    found
}

fn of_run(run: &[Stored], first: u32) -> Turns {
    let mut rows = Rows::default();
    let mut seen = |stored: &Stored| match stored.counts() {
        true => rows.seen_by(&stored.transaction.proposal.effects),
        false => Seen::default(),
    };
    let mut seen: Vec<Seen> = run.iter().map(&mut seen).collect();
    cover(&mut seen);
    let accesses: Vec<Accesses> = seen.iter().map(Seen::accesses).collect();
    let found = reorder(&accesses);
    let index = |transaction: u32| first + transaction;
    let lost = found.victims.iter().map(|victim| {
        let why = rows.conflict(&victim.why, index);
        (index(victim.transaction), why.message)
    });
    let lost: Vec<(u32, String)> = lost.collect();
    let failure = |(tx, stored): (u32, &Stored)| Some((tx, stored.failure.as_ref()?.1.clone()));
    let failed = (first..).zip(run).filter_map(failure);
    Turns {
        transactions: (first..).take(run.len()).collect(),
        rows: shared(&rows, &accesses, first),
        order: found.order.iter().copied().map(index).collect(),
        failed: failed
            .filter(|(tx, _)| lost.iter().all(|(of, _)| of != tx))
            .collect(),
        lost,
    }
}

/// The rows that one of the transactions writes, and another one saw or writes.
fn shared(rows: &Rows, accesses: &[Accesses], first: u32) -> Vec<SharedRow> {
    let mut known: BTreeMap<PlaceNumber, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for (tx, accesses) in (first..).zip(accesses) {
        for place in &accesses.writes {
            let (_, written_by) = known.entry(*place).or_default();
            if written_by.last() != Some(&tx) {
                written_by.push(tx);
            }
        }
        for place in &accesses.sees {
            let (seen_by, written_by) = known.entry(*place).or_default();
            if written_by.last() != Some(&tx) {
                seen_by.push(tx);
            }
        }
    }
    known.retain(|_, (seen_by, written_by)| {
        !written_by.is_empty() && seen_by.len() + written_by.len() > 1
    });
    let row = |(place, (seen_by, written_by))| SharedRow {
        name: rows.name(place),
        seen_by,
        written_by,
    };
    known.into_iter().map(row).collect()
}
