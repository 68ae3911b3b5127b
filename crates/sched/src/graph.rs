//! The graph of dependencies between the transactions of a block.

mod build;

use crate::lists::Lists;
use crate::{Dependencies, TxIndex};

pub use build::{build, STEPS_MAX, STEPS_PER_TRANSACTION};

/// That a transaction waits for an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The earlier transaction.
    pub earlier: TxIndex,
    /// In which ways, of those that were found. None: building the graph took too long, and the
    /// rest of the block runs one after the other.
    pub kinds: Dependencies,
}

/// The waits between transactions.
///
/// Invariant S3: from a transaction to each later one that depends on it there is a path. Every
/// edge goes from a transaction to a later one that depends on it, or has no kind (see
/// [`STEPS_MAX`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// By later transaction, ascending by earlier one.
    earlier: Lists<Edge>,
    /// By earlier transaction, ascending.
    later: Lists<TxIndex>,
    component_of: Vec<u32>,
    /// By component, ascending.
    members: Lists<TxIndex>,
    stage_of: Vec<u32>,
}

impl Graph {
    fn new(earlier: Lists<Edge>) -> Self {
        let count = earlier.len();
        let edges = || (0..count).flat_map(|tx| earlier.get(tx).iter().map(move |edge| (edge.earlier, tx)));
        let later = Lists::group(count, edges());
        let (component_of, components) = number_components(count, edges());
        let members = Lists::group(components, (0..count).map(|tx| (component_of[tx as usize], tx)));
        let mut stage_of: Vec<u32> = Vec::with_capacity(count as usize);
        for tx in 0..count {
            let stage = earlier.get(tx).iter().map(|edge| stage_of[edge.earlier as usize] + 1).max();
            stage_of.push(stage.unwrap_or(0));
        }
        Self { earlier, later, component_of, members, stage_of }
    }

    /// How many transactions there are.
    pub fn transactions(&self) -> u32 {
        self.earlier.len()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.earlier.items().len()
    }

    /// The transactions that `tx` waits for, ascending.
    pub fn waits_for(&self, tx: TxIndex) -> &[Edge] {
        self.earlier.get(tx)
    }

    /// The transactions that wait for `tx`, ascending.
    pub fn waiters(&self, tx: TxIndex) -> &[TxIndex] {
        self.later.get(tx)
    }

    /// How many components there are. They are numbered by their first transaction.
    pub fn components(&self) -> u32 {
        self.members.len()
    }

    /// The transactions of a component, ascending.
    pub fn component(&self, component: u32) -> &[TxIndex] {
        self.members.get(component)
    }

    /// The component of a transaction.
    pub fn component_of(&self, tx: TxIndex) -> u32 {
        self.component_of[tx as usize]
    }

    /// The stage of a transaction: the length of the longest path that leads to it.
    pub fn stage_of(&self, tx: TxIndex) -> u32 {
        self.stage_of[tx as usize]
    }

    /// The stages of a component: what of it may run together, one stage after the other.
    pub fn stages(&self, component: u32) -> Vec<Vec<TxIndex>> {
        let mut stages: Vec<Vec<TxIndex>> = Vec::new();
        for tx in self.component(component) {
            let stage = self.stage_of(*tx) as usize;
            if stages.len() <= stage {
                stages.resize(stage + 1, Vec::new());
            }
            stages[stage].push(*tx);
        }
        stages
    }

    /// A longest path, ascending; of several the one that ends first, going back to the first
    /// transactions. Its length is the number of stages: with any number of workers, so many
    /// transactions run one after the other.
    pub fn critical_path(&self) -> Vec<TxIndex> {
        let last = (0..self.transactions()).max_by_key(|tx| (self.stage_of(*tx), std::cmp::Reverse(*tx)));
        let before = |tx: &TxIndex| {
            let stage = self.stage_of(*tx).checked_sub(1)?;
            self.waits_for(*tx).iter().map(|edge| edge.earlier).find(|earlier| self.stage_of(*earlier) == stage)
        };
        let mut path: Vec<TxIndex> = std::iter::successors(last, before).collect();
        path.reverse();
        path
    }
}

/// The component of each transaction, and how many there are: union-find by smallest member.
fn number_components(count: u32, edges: impl Iterator<Item = (TxIndex, TxIndex)>) -> (Vec<u32>, u32) {
    let mut parent: Vec<TxIndex> = (0..count).collect();
    for (earlier, later) in edges {
        let (a, b) = (root(&mut parent, earlier), root(&mut parent, later));
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut component_of: Vec<u32> = Vec::with_capacity(count as usize);
    let mut components = 0;
    for tx in 0..count {
        // The root is the smallest member, so it has its number already, or is this one.
        let first = root(&mut parent, tx);
        component_of.push(if first == tx { components } else { component_of[first as usize] });
        components += u32::from(first == tx);
    }
    (component_of, components)
}

fn root(parent: &mut [TxIndex], mut tx: TxIndex) -> TxIndex {
    while parent[tx as usize] != tx {
        parent[tx as usize] = parent[parent[tx as usize] as usize]; // halves the path for the next search
        tx = parent[tx as usize];
    }
    tx
}
