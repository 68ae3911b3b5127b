//! The elementary cycles of a graph, up to a number of them.

use super::conflicts::NONE;
use super::groups::strong_components;
use crate::lists::Lists;

/// The elementary cycles of a graph without loops, each once, from its smallest node on. The search
/// ends when there are `count_max`.
///
/// Cost: O((nodes + edges) × cycles found). Recursion is on a stack of its own.
/// Source: Johnson, Finding all the elementary circuits of a directed graph, 1975.
pub(super) fn cycles(next: &Lists<u32>, count_max: u64) -> Vec<Vec<u32>> {
    let nodes = next.len() as usize;
    let mut search = Search {
        next,
        count_max,
        found: Vec::new(),
        start: 0,
        blocked: Vec::new(),
        waiting: Vec::new(),
        path: Vec::new(),
    };
    let mut start = 0;
    while search.wants_more() {
        let component_of = strong_components(start..next.len(), |node, edge| {
            next.get(node).get(edge as usize).map(|to| if *to < start { NONE } else { *to })
        });
        let has_cycle = |node: &u32| {
            let inside = |to: &u32| *to >= start && component_of[*to as usize] == component_of[*node as usize];
            next.get(*node).iter().any(inside)
        };
        let Some(least) = (start..next.len()).find(has_cycle) else { break };
        search.start = least;
        search.blocked = vec![false; nodes];
        search.waiting = vec![Vec::new(); nodes];
        let inside = |node: u32| node >= least && component_of[node as usize] == component_of[least as usize];
        search.explore(inside);
        start = least + 1;
    }
    search.found
}

struct Search<'a> {
    next: &'a Lists<u32>,
    count_max: u64,
    found: Vec<Vec<u32>>,
    start: u32,
    /// Nodes of the path, and nodes that lead back to the start through the path alone.
    blocked: Vec<bool>,
    /// By node, those that may lead to the start again once it may.
    waiting: Vec<Vec<u32>>,
    path: Vec<Visit>,
}

struct Visit {
    node: u32,
    /// How many of its edges were followed.
    followed: u32,
    /// Whether a cycle goes through it and this path.
    closed: bool,
}

impl Search<'_> {
    fn wants_more(&self) -> bool {
        (self.found.len() as u64) < self.count_max
    }

    fn explore(&mut self, inside: impl Fn(u32) -> bool) {
        self.path.clear();
        self.enter(self.start);
        while let (Some(visit), true) = (self.path.last_mut(), (self.found.len() as u64) < self.count_max) {
            let Some(to) = self.next.get(visit.node).get(visit.followed as usize).copied() else {
                self.leave(&inside);
                continue;
            };
            visit.followed += 1;
            if to == self.start {
                visit.closed = true;
                self.found.push(self.path.iter().map(|visit| visit.node).collect());
            } else if inside(to) && !self.blocked[to as usize] {
                self.enter(to);
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.blocked[node as usize] = true;
        self.path.push(Visit { node, followed: 0, closed: false });
    }

    fn leave(&mut self, inside: &impl Fn(u32) -> bool) {
        let Some(Visit { node, closed, .. }) = self.path.pop() else { return };
        if closed {
            self.unblock(node);
            self.path.iter_mut().rev().take(1).for_each(|before| before.closed = true);
            return;
        }
        for to in self.next.get(node).iter().filter(|to| inside(**to)) {
            let waiting = &mut self.waiting[*to as usize];
            if !waiting.contains(&node) {
                waiting.push(node);
            }
        }
    }

    fn unblock(&mut self, node: u32) {
        let mut freed = vec![node];
        while let Some(node) = freed.pop() {
            if std::mem::take(&mut self.blocked[node as usize]) {
                freed.append(&mut self.waiting[node as usize]);
            }
        }
    }
}
