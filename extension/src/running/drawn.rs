//! The sequences that the running transaction draws from, and their values to restore when a
//! subtransaction is undone.
use std::collections::HashMap;

use chainify_ledger::sequence::Sequence;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// A sequence in use by the transaction.
#[derive(Clone)]
pub struct Used {
    pub name: String,
    /// As the transaction found it.
    pub before: Sequence,
    pub now: Sequence,
    /// What currval() gives.
    pub given: Option<i64>,
    /// Length of `undo` since it was kept there; 0: not yet.
    pub kept: usize,
}

impl Used {
    /// One that the transaction has not drawn from.
    pub fn at(name: String, now: Sequence) -> Self {
        Used {
            name,
            before: now,
            now,
            given: None,
            kept: 0,
        }
    }
}

/// A sequence as the last transaction of the block that changed it has left it.
#[derive(Clone, Copy)]
pub struct Left {
    pub sequence: Sequence,
    /// Where the row lies. A search would meet all versions of it that the block has made.
    pub place: Option<pg_sys::ItemPointerData>,
}

/// One entry of the log of what to put back.
pub struct Before {
    sequence: Oid,
    used: Option<Used>,
    last: Option<Oid>,
}

/// Of the transaction being run.
#[derive(Default)]
pub struct Drawn {
    pub used: HashMap<Oid, Used>,
    /// By name. Forgotten whenever a subtransaction is undone.
    pub left: HashMap<String, Left>,
    /// The sequence that lastval() is about.
    pub last: Option<Oid>,
    pub undo: Vec<Before>,
    /// Lengths of `undo` when the open subtransactions began.
    pub marks: Vec<usize>,
}

impl Drawn {
    /// Undoes the innermost subtransaction.
    pub fn undo(&mut self) {
        self.left.clear();
        let mark = self.marks.pop().unwrap_or(0);
        for before in self.undo.drain(mark..).rev() {
            match before.used {
                Some(used) => self.used.insert(before.sequence, used),
                None => self.used.remove(&before.sequence),
            };
            self.last = before.last;
        }
    }

    /// Changes a sequence; `found` is how it stands when it is not in use yet. An overwritten value
    /// is kept once per subtransaction.
    pub fn change<T>(
        &mut self,
        sequence: Oid,
        found: Option<Used>,
        f: impl FnOnce(&mut Used) -> T,
    ) -> Option<T> {
        let mark = self.marks.last().copied().unwrap_or(0);
        let known = self.used.get(&sequence);
        if known.is_none_or(|used| used.kept <= mark) {
            self.undo.push(Before {
                sequence,
                used: known.cloned(),
                last: self.last,
            });
        }
        if let Some(found) = found {
            self.used.insert(sequence, found);
        }
        let used = self.used.get_mut(&sequence)?;
        used.kept = self.undo.len();
        Some(f(used))
    }
}
