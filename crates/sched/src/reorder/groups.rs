//! Groups of nodes that lead to each other.

use super::conflicts::{Conflicts, NONE};
use crate::lists::Lists;

/// The transactions of each cycle are in one group; groups of one are left out. Members ascend, and
/// groups by their first member.
///
/// Cost: linear. A place stands between those that saw it and those that write it, so that the pairs
/// of them take no time.
pub(super) fn groups(conflicts: &Conflicts) -> Vec<Vec<u32>> {
    let transactions = conflicts.transactions();
    let nodes = transactions + conflicts.at.len();
    let seen = (0..transactions).flat_map(|tx| {
        let seen = conflicts.of.get(tx).iter().filter(|access| access.sees);
        seen.map(move |access| (tx, transactions + access.at))
    });
    let written = (0..conflicts.at.len()).flat_map(|place| {
        let writers = conflicts.at.get(place).iter().filter(|access| access.writes);
        writers.map(move |access| (transactions + place, access.at))
    });
    let next = Lists::group(nodes, seen.chain(written));
    let component_of = strong_components(&next, 0);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
    (0..transactions).for_each(|tx| members[component_of[tx as usize] as usize].push(tx));
    let mut groups: Vec<Vec<u32>> = members.into_iter().filter(|members| members.len() > 1).collect();
    groups.sort_unstable();
    groups
}

/// The strongly connected component of each node from `first` on, without the nodes before it.
///
/// Cost: linear, on a stack of its own: paths may be as long as there are nodes.
/// Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
pub(super) fn strong_components(next: &Lists<u32>, first: u32) -> Vec<u32> {
    let mut search = Search {
        next,
        first,
        number_of: vec![NONE; next.len() as usize],
        component_of: vec![NONE; next.len() as usize],
        numbered: 0,
        components: 0,
        open: Vec::new(),
        path: Vec::new(),
    };
    (first..next.len()).for_each(|root| search.explore(root));
    search.component_of
}

struct Search<'a> {
    next: &'a Lists<u32>,
    first: u32,
    /// In the order of their discovery.
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

impl Search<'_> {
    fn explore(&mut self, root: u32) {
        if self.number_of[root as usize] == NONE {
            self.enter(root);
        }
        while let Some(visit) = self.path.last_mut() {
            let Some(to) = self.next.get(visit.node).get(visit.followed as usize).copied() else {
                self.leave();
                continue;
            };
            visit.followed += 1;
            if to < self.first {
                continue;
            }
            match (self.number_of[to as usize], self.component_of[to as usize]) {
                (NONE, _) => self.enter(to),
                (number, NONE) => visit.low = visit.low.min(number),
                _ => {}
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
                self.component_of[member as usize] = self.components;
                if member == node {
                    break;
                }
            }
            self.components += 1;
        }
    }
}
