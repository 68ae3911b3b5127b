//! State hashes of sets of rows, at one moment and at the ends of several blocks.

use crate::{LaneHasher, Lanes};

/// A set of rows: how many, and their lanes. Both wrap, so that a row may be taken away before it
/// is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How many.
    pub row_count: u64,
    /// The sum of their hashes.
    pub lanes: Lanes,
}

impl State {
    /// Adds a row.
    pub fn add(&mut self, hasher: &LaneHasher, row: &[u8]) {
        hasher.add(&mut self.lanes, row);
        self.row_count = self.row_count.wrapping_add(1);
    }

    /// Takes a row away.
    fn sub(&mut self, hasher: &LaneHasher, row: &[u8]) {
        hasher.sub(&mut self.lanes, row);
        self.row_count = self.row_count.wrapping_sub(1);
    }

    fn merge(&mut self, other: &State) {
        self.lanes.merge(&other.lanes);
        self.row_count = self.row_count.wrapping_add(other.row_count);
    }

    fn remove(&mut self, other: &State) {
        self.lanes.remove(&other.lanes);
        self.row_count = self.row_count.wrapping_sub(other.row_count);
    }
}

/// States at the ends of blocks, of rows that are there from one block until another. A row costs
/// one hash, or two, however many the blocks.
pub struct States<'a> {
    blocks: &'a [i64],
    hasher: LaneHasher,
    /// By how much each differs from the one before.
    steps: Vec<State>,
}

impl<'a> States<'a> {
    /// The states of a table, at the ends of ascending blocks.
    pub fn new(table: &str, blocks: &'a [i64]) -> Self {
        Self { blocks, hasher: LaneHasher::new(table), steps: vec![State::default(); blocks.len()] }
    }

    /// Adds a row that is there from the end of one block until before the end of another, or for
    /// good.
    pub fn add(&mut self, from: i64, until: Option<i64>, row: &[u8]) {
        let place = |of: i64| self.blocks.partition_point(|block| *block < of);
        let (from, until) = (place(from), until.map_or(self.blocks.len(), place));
        if from >= until {
            return;
        }
        self.steps[from].add(&self.hasher, row);
        if let Some(step) = self.steps.get_mut(until) {
            step.sub(&self.hasher, row);
        }
    }

    /// Adds the rows of one state that another lacks: they are there from the first of the blocks
    /// on.
    pub fn add_rest(&mut self, all: &State, without: &State) {
        if let Some(step) = self.steps.first_mut() {
            step.merge(all);
            step.remove(without);
        }
    }

    /// The state at the end of each block.
    pub fn sum(&self) -> Vec<State> {
        let sums = self.steps.iter().scan(State::default(), |sum, step| {
            sum.merge(step);
            Some(sum.clone())
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[&[u8]]) -> State {
        let mut state = State::default();
        rows.iter().for_each(|row| state.add(&LaneHasher::new("t"), row));
        state
    }

    #[test]
    fn a_row_counts_at_the_blocks_from_its_change_to_the_next() {
        let mut states = States::new("t", &[10, 20, 30]);
        states.add(5, None, b"always");
        states.add(10, Some(20), b"first");
        states.add(20, None, b"from the second");
        states.add(11, Some(20), b"between");
        states.add(5, Some(5), b"changed again in its block");
        let later = of(&[b"always", b"from the second"]);
        assert_eq!(states.sum(), [of(&[b"always", b"first"]), later.clone(), later]);
    }

    #[test]
    fn what_one_state_has_more_counts_at_all_blocks() {
        let mut states = States::new("t", &[10, 20]);
        states.add(20, None, b"second");
        states.add_rest(&of(&[b"second", b"never changed"]), &of(&[b"second"]));
        assert_eq!(states.sum(), [of(&[b"never changed"]), of(&[b"never changed", b"second"])]);
        assert_eq!(States::new("t", &[]).sum(), []);
    }
}
