//! Divides a block into parts that may run in parallel.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Graph, TxIndex};

/// Parts of a block; each runs in one database transaction of its own, in block order.
///
/// Invariant S4: every transaction is in exactly one part, and depends on none in another part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    parts: Vec<Vec<TxIndex>>,
    loads: Vec<u64>,
}

impl Division {
    /// The parts, each ascending; none is empty but that of an empty block. The first one is for
    /// the leader.
    pub fn parts(&self) -> &[Vec<TxIndex>] {
        &self.parts
    }

    /// The cost of each part, in the unit of the costs given.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }
}

/// Assigns whole components to at most `workers` parts, balanced by cost: the most expensive
/// component that is left goes to the part with the least load. Ties go to the component and the
/// part with the lower number.
///
/// `costs`: what each transaction is expected to cost, in any unit, at least 1 each; one for each
/// transaction of the graph. They decide how long the block takes, not what it gives. `workers`: at
/// least 1, 0 counts as 1.
///
/// The longest part costs at most 4/3 of what the best assignment would (Graham 1969). Cost: O(n
/// log n).
///
/// # Panics
/// When there are not as many costs as transactions.
pub fn assign(graph: &Graph, costs: &[u64], workers: u32) -> Division {
    assert_eq!(costs.len(), graph.transactions() as usize, "one cost for each transaction");
    let cost_of = |component: u32| {
        let costs = graph.component(component).iter().map(|tx| costs[*tx as usize].max(1));
        costs.fold(0, u64::saturating_add)
    };
    let mut components: Vec<(Reverse<u64>, u32)> =
        (0..graph.components()).map(|component| (Reverse(cost_of(component)), component)).collect();
    components.sort_unstable();
    let mut least: BinaryHeap<Reverse<(u64, u32)>> =
        (0..workers.clamp(1, graph.components().max(1))).map(|part| Reverse((0, part))).collect();
    let mut part_of = vec![0u32; components.len()];
    for (Reverse(cost), component) in components {
        let Some(mut top) = least.peek_mut() else { break }; // never empty: at least one part
        let Reverse((load, part)) = &mut *top;
        *load = load.saturating_add(cost);
        part_of[component as usize] = *part;
    }
    collect(graph, &part_of, least)
}

fn collect(graph: &Graph, part_of: &[u32], loads: BinaryHeap<Reverse<(u64, u32)>>) -> Division {
    let mut loads: Vec<(u32, u64)> = loads.into_iter().map(|Reverse((load, part))| (part, load)).collect();
    loads.sort_unstable();
    let mut parts: Vec<Vec<TxIndex>> = vec![Vec::new(); loads.len()];
    for tx in 0..graph.transactions() {
        parts[part_of[graph.component_of(tx) as usize] as usize].push(tx);
    }
    Division { parts, loads: loads.into_iter().map(|(_, load)| load).collect() }
}

/// Whether to run the parts beside each other rather than the block in the leader alone.
///
/// `part_cost`: what it takes to start one more part, to merge what it gives and to commit it, in
/// the unit of the costs. It is worth it when the longest part and the cost of all but the leader's
/// take less than the whole block. So a block of one component, or a small one, runs in the leader.
pub fn worth_it(division: &Division, part_cost: u64) -> bool {
    let whole = division.loads.iter().copied().fold(0, u64::saturating_add);
    let longest = division.loads.iter().copied().max().unwrap_or(0);
    let others = division.loads.len().saturating_sub(1) as u64;
    longest.saturating_add(part_cost.saturating_mul(others)) < whole
}

/// Whether the first transactions of a block leave it worth looking at the others: the longest part
/// of them takes at most four fifths of all. Transactions of one component stay so however many
/// transactions follow, so this costs an eighth of looking at all where there is nothing to be had.
pub fn is_promising(division: &Division) -> bool {
    let whole: u128 = division.loads.iter().map(|load| u128::from(*load)).sum();
    let longest = division.loads.iter().copied().max().map_or(0, u128::from);
    5 * longest <= 4 * whole
}

/// How many of a block's transactions to look at first; of a small block all.
pub fn first_look(transactions: usize) -> usize {
    (transactions / 8).clamp(16, 128).min(transactions)
}

#[cfg(test)]
mod tests {
    use super::{assign, first_look, is_promising};
    use crate::{graph, AccessSet, Place, Target};

    fn promising(relations: &[u32], costs: &[u64], workers: u32) -> bool {
        let writes = |relation: &u32| {
            let mut set = AccessSet::new();
            set.write(Target::Rows(*relation), Place::whole());
            set
        };
        is_promising(&assign(&graph::build(&relations.iter().map(writes).collect::<Vec<_>>()), costs, workers))
    }

    #[test]
    fn a_first_look_is_at_no_more_than_there_are() {
        assert_eq!([0, 15, 16, 200, 4096].map(first_look), [0, 15, 16, 25, 128]);
    }

    #[test]
    fn a_first_look_is_promising_unless_one_component_is_nearly_all() {
        assert!(promising(&[1, 2, 1, 2], &[1; 4], 2));
        assert!(!promising(&[1, 1, 1, 1], &[1; 4], 2));
        assert!(promising(&[1, 1, 1, 1, 2], &[1; 5], 2));
        assert!(!promising(&[1, 1, 1, 1, 2], &[2, 2, 2, 2, 1], 2));
        assert!(promising(&[1, 2], &[u64::MAX; 2], 2));
        assert!(!promising(&[1, 2], &[1; 2], 1));
    }
}
