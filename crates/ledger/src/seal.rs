//! Seals a block: computes the new running states of tables and the LedgerBlock from the reports of
//! its parts.

use std::collections::BTreeMap;

use chainify_codec::{merged_root, state_root, table_state, LaneHasher, Lanes};

use crate::messages::Kind;
use crate::parts::{Net, PartOutcome, PartReport};
use crate::{Hash, Outcomes, WireError};

/// A change of a row, as the state of its table sees it.
#[derive(Clone, Copy)]
pub struct Step<'s> {
    /// The version of the table: a DEPLOY transaction starts a new one, whose state counts from
    /// there.
    pub table_id: i32,
    /// The table's name.
    pub table: &'s str,
    /// The row's key.
    pub pk: &'s [u8],
    /// Hashes rows of this version of the table.
    pub hasher: &'s LaneHasher,
    /// The row before the change; None of an INSERT.
    pub before: Option<&'s [u8]>,
    /// The row after it; None of a DELETE.
    pub after: Option<&'s [u8]>,
}

impl Step<'_> {
    fn is_of_row(&self, other: &Step<'_>) -> bool {
        self.pk == other.pk && self.table == other.table && self.table_id == other.table_id
    }
}

/// The effect of changes on the states of their tables. `steps` are sorted by row, those of one row
/// in the order in which they were made.
///
/// The first row before and the last row after of each key count; what lies between cancels out.
pub fn nets<'s>(steps: impl IntoIterator<Item = Step<'s>>) -> Vec<Net> {
    let mut nets: BTreeMap<i32, (Lanes, i64)> = BTreeMap::new();
    let mut open: Option<Step<'s>> = None;
    for step in steps {
        match &mut open {
            Some(row) if row.is_of_row(&step) => row.after = step.after,
            _ => open.replace(step).iter().for_each(|row| count(&mut nets, row)),
        }
    }
    open.iter().for_each(|row| count(&mut nets, row));
    let net = |(table_id, (lanes, rows)): (i32, (Lanes, i64))| Net { table_id, rows, lanes: lanes.to_bytes().to_vec() };
    nets.into_iter().map(net).collect()
}

fn count(nets: &mut BTreeMap<i32, (Lanes, i64)>, row: &Step<'_>) {
    if row.before == row.after {
        return;
    }
    let (lanes, rows) = nets.entry(row.table_id).or_default();
    if let Some(before) = row.before {
        row.hasher.sub(lanes, before);
        *rows -= 1;
    }
    if let Some(after) = row.after {
        row.hasher.add(lanes, after);
        *rows += 1;
    }
}

/// The parts of a block, put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    /// In block order.
    pub outcomes: Vec<PartOutcome>,
    /// Over the changes of all parts.
    pub effects_root: Hash,
    /// How many there are.
    pub effects_count: u32,
    /// The net changes of all parts.
    pub nets: Vec<Net>,
}

/// Puts the reports of the parts together. `members` are the positions of each part's transactions
/// in the block. None: two parts changed the same row, so they were not independent.
pub fn merge(members: &[Vec<usize>], reports: Vec<PartReport>) -> Option<Merged> {
    let effects_root = merged_root(reports.iter().map(PartReport::leaves))?;
    let effects_count = reports.iter().map(|r| r.leaves().count() as u32).sum();
    let mut outcomes = vec![PartOutcome::default(); members.iter().map(Vec::len).sum()];
    let mut nets = Vec::new();
    for (members, report) in members.iter().zip(reports) {
        for (at, outcome) in members.iter().zip(report.outcomes) {
            outcomes[*at] = outcome;
        }
        nets.extend(report.nets);
    }
    Some(Merged { outcomes, effects_root, effects_count, nets })
}

/// The running state of a table on the ledger.
#[derive(Clone, PartialEq, Eq)]
pub struct TableState {
    /// In `chainify_ledger.ledger_table`.
    pub table_id: i32,
    /// Its name.
    pub name: String,
    /// Hash of its schema text.
    pub schema: Hash,
    /// How many rows it has.
    pub rows: i64,
    /// The sum over its rows.
    pub lanes: Lanes,
}

/// Adds what all parts of a block changed, and returns the positions of the states that did. A
/// table that is not among the states was detached in this block. Err: a net is malformed.
pub fn add(states: &mut [TableState], nets: &[Net]) -> Result<Vec<usize>, WireError> {
    let mut sums: BTreeMap<i32, (Lanes, i64)> = BTreeMap::new();
    for net in nets {
        let lanes = Lanes::from_bytes(&net.lanes).ok_or_else(|| WireError::new("lanes of a part", "malformed"))?;
        let (sum, rows) = sums.entry(net.table_id).or_default();
        sum.merge(&lanes);
        *rows += net.rows;
    }
    let mut changed = Vec::new();
    for (at, state) in states.iter_mut().enumerate() {
        if let Some((lanes, rows)) = sums.get(&state.table_id) {
            state.lanes.merge(lanes);
            state.rows += rows;
            changed.push(at);
        }
    }
    Ok(changed)
}

/// The states of tables whose hashes are known. A block changes few tables, and to hash one takes
/// as long as to read it.
#[derive(Default)]
pub struct KnownStates(BTreeMap<i32, (TableState, Hash)>);

impl KnownStates {
    /// The state root over tables, and over what has a state beside them: definitions, or
    /// procedures. A table is hashed where anything of it differs from what is known.
    ///
    /// Cost: a comparison of 2 KiB for each table, and its hash where it changed. It keeps a
    /// copy of `states`, and forgets all others.
    pub fn root<'s>(&mut self, states: &'s [TableState], beside: impl IntoIterator<Item = (&'s str, Hash)>) -> Hash {
        let mut known = std::mem::take(&mut self.0);
        let mut roots = Vec::with_capacity(states.len());
        for state in states {
            let of = match known.remove(&state.table_id) {
                Some(of) if of.0 == *state => of,
                _ => (state.clone(), table_state(&state.name, &state.schema, state.rows as u64, &state.lanes)),
            };
            roots.push((state.name.as_str(), of.1));
            self.0.insert(state.table_id, of);
        }
        roots.extend(beside);
        state_root(roots)
    }
}

/// Which transactions of a block succeeded.
pub fn outcomes(succeeded: &[bool]) -> Outcomes {
    let mut outcomes = Outcomes::failed(succeeded.len() as u32);
    for (at, _) in succeeded.iter().enumerate().filter(|(_, ok)| **ok) {
        outcomes.succeed(at as u32);
    }
    outcomes
}

/// Whether a block changed definitions: a DEPLOY transaction of it succeeded.
pub fn deploys(kinds: impl IntoIterator<Item = i32>, succeeded: &[bool]) -> bool {
    kinds.into_iter().zip(succeeded).any(|(kind, ok)| *ok && kind == Kind::Deploy as i32)
}
