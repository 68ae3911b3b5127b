//! Strongly connected components of the conflict graph.

use std::ops::Range;

use super::conflicts::{Conflicts, NONE};

/// The transactions of each cycle are in one group; groups of one are left out. Members ascend, and
/// groups by their first member.
///
/// Cost: linear. A place stands between those that saw it and those that write it, so that the
/// pairs of them take no time.
pub(super) fn groups(conflicts: &Conflicts) -> Vec<Vec<u32>> {
    let transactions = conflicts.transactions();
    let nodes = transactions + conflicts.at.len();
    let component_of = strong_components(0..nodes, |node, edge| {
        let lists = if node < transactions { &conflicts.of } else { &conflicts.at };
        let access = lists.get(if node < transactions { node } else { node - transactions }).get(edge as usize)?;
        Some(match (node < transactions, access.sees(), access.writes()) {
            (true, true, _) => transactions + access.at(),
            (false, _, true) => access.at(),
            _ => NONE,
        })
    });
    let component = |tx: u32| component_of[tx as usize] as usize;
    let mut sizes = vec![0u32; nodes as usize];
    (0..transactions).for_each(|tx| sizes[component(tx)] += 1);
    let mut numbers = vec![NONE; nodes as usize];
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for tx in (0..transactions).filter(|tx| sizes[component(*tx)] > 1) {
        let number = &mut numbers[component(tx)];
        if *number == NONE {
            *number = groups.len() as u32;
            groups.push(Vec::new());
        }
        groups[*number as usize].push(tx);
    }
    groups
}

/// The strongly connected component of each of some nodes, by node. `next` gives a node's edges by
/// number: where each leads, or [`NONE`] for an edge that does not count.
///
/// Cost: linear, on a stack of its own: paths may be as long as there are nodes.
/// Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
pub(super) fn strong_components(nodes: Range<u32>, next: impl Fn(u32, u32) -> Option<u32>) -> Vec<u32> {
    let mut search = Search {
        next,
        number_of: vec![NONE; nodes.end as usize],
        component_of: vec![NONE; nodes.end as usize],
        numbered: 0,
        components: 0,
        open: Vec::new(),
        path: Vec::new(),
    };
    nodes.for_each(|root| search.explore(root));
    search.component_of
}

/// Instead of the number of a node whose component is known.
const CLOSED: u32 = NONE - 1;

struct Search<F> {
    next: F,
    /// By node, in the order of their discovery, or [`NONE`], or [`CLOSED`].
    number_of: Vec<u32>,
    component_of: Vec<u32>,
    numbered: u32,
    components: u32,
    /// Nodes without a component so far, in the order of their discovery.
    open: Vec<u32>,
    path: Vec<Visit>,
}

/// A node of the path from the root.
struct Visit {
    node: u32,
    /// How many of its edges were followed.
    followed: u32,
    /// The lowest number of an open node that it leads to.
    low: u32,
}

impl<F: Fn(u32, u32) -> Option<u32>> Search<F> {
    fn explore(&mut self, root: u32) {
        if self.number_of[root as usize] == NONE {
            self.enter(root);
        }
        while let Some(visit) = self.path.last_mut() {
            let Some(to) = (self.next)(visit.node, visit.followed) else {
                self.leave();
                continue;
            };
            visit.followed += 1;
            if to == NONE {
                continue;
            }
            match self.number_of[to as usize] {
                NONE => self.enter(to),
                CLOSED => {}
                number => visit.low = visit.low.min(number),
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.number_of[node as usize] = self.numbered;
        self.path.push(Visit { node, followed: 0, low: self.numbered });
        self.open.push(node);
        self.numbered += 1;
    }

    /// Ends the last visit. A node that leads to no earlier one closes a component.
    fn leave(&mut self) {
        let Some(Visit { node, low, .. }) = self.path.pop() else { return };
        if let Some(before) = self.path.last_mut() {
            before.low = before.low.min(low);
        }
        if low == self.number_of[node as usize] {
            while let Some(member) = self.open.pop() {
                self.number_of[member as usize] = CLOSED;
                self.component_of[member as usize] = self.components;
                if member == node {
                    break;
                }
            }
            self.components += 1;
        }
    }
}
