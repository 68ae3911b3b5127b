//! The order in which a block, or a part of it, may run.

use std::fmt;

use crate::{Graph, TxIndex};

/// Decides what may run next. Holds no clock, no lock and no connection.
///
/// Invariant S1: a transaction is handed out only after every earlier one it depends on has finished.
/// Invariant S2: what is handed out depends on the calls made, never on their timing.
#[derive(Clone, Debug)]
pub struct BlockRun<'g> {
    graph: &'g Graph,
    /// By transaction.
    states: Vec<State>,
    /// How many have not finished.
    unfinished: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Of another part.
    Foreign,
    /// How many it still waits for, at least one.
    Waiting(u32),
    Running,
    Finished,
}

/// A transaction was said to have finished that was not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning {
    /// Which one.
    pub tx: TxIndex,
    /// What is true of it.
    pub why: &'static str,
}

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "finish transaction {}: {}", self.tx, self.why)
    }
}

impl std::error::Error for NotRunning {}

impl<'g> BlockRun<'g> {
    /// Starts the block; hands out what waits for nothing, in block order.
    pub fn start(graph: &'g Graph) -> (Self, Vec<TxIndex>) {
        let all: Vec<TxIndex> = (0..graph.transactions()).collect();
        Self::start_part(graph, &all)
    }

    /// Starts one part, made of whole components and ascending (see [`crate::Plan::parts`]); hands out as
    /// [`BlockRun::start`].
    ///
    /// # Panics
    /// When the part names a transaction that the graph does not have.
    pub fn start_part(graph: &'g Graph, part: &[TxIndex]) -> (Self, Vec<TxIndex>) {
        let mut states = vec![State::Foreign; graph.transactions() as usize];
        let mut first = Vec::new();
        for tx in part {
            states[*tx as usize] = match graph.waits_for(*tx).len() {
                0 => State::Running,
                waits => State::Waiting(waits as u32), // fewer than there are transactions
            };
            if states[*tx as usize] == State::Running {
                first.push(*tx);
            }
        }
        (Self { graph, states, unfinished: part.len() as u32 }, first)
    }

    /// Takes back a transaction that was handed out; hands out what waited only for it, in block order.
    ///
    /// # Errors
    /// When `tx` is not running; then nothing has changed.
    pub fn finish(&mut self, tx: TxIndex) -> Result<Vec<TxIndex>, NotRunning> {
        let why = match self.states.get(tx as usize) {
            None => "no such transaction in the block",
            Some(State::Foreign) => "it is of another part",
            Some(State::Waiting(_)) => "it still waits for another",
            Some(State::Finished) => "it has finished already",
            Some(State::Running) => return Ok(self.release(tx)),
        };
        Err(NotRunning { tx, why })
    }

    fn release(&mut self, tx: TxIndex) -> Vec<TxIndex> {
        self.states[tx as usize] = State::Finished;
        self.unfinished -= 1;
        let mut next = Vec::new();
        for waiter in self.graph.waiters(tx) {
            let state = &mut self.states[*waiter as usize];
            if let State::Waiting(waits) = state {
                *waits -= 1;
                if *waits == 0 {
                    *state = State::Running;
                    next.push(*waiter);
                }
            }
        }
        next
    }

    /// Whether every transaction has finished.
    pub fn is_finished(&self) -> bool {
        self.unfinished == 0
    }
}
