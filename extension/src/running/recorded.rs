//! The recorded changes of a block, and the undo of some of them.
use std::rc::Rc;

use chainify_codec::Op;

use crate::ledger::tables::Leaf;
use crate::pg::base::error::PgError;
use crate::pg::base::relation::{Stored, Tuple, TupleStore};

/// Changes of a block, and bytes of their rows' encodings (spec/formats.md): they are kept in
/// memory until its end. Both count what is the same in every organisation.
pub const CHANGES_MAX: usize = 1 << 20;

pub const BYTES_MAX: usize = 1 << 28;

/// Bytes in the arena.
#[derive(Clone, Copy)]
pub struct Span {
    at: usize,
    length: usize,
}

/// One change of one row.
pub struct Recorded {
    pub leaf: u32,
    pub tx: u32,
    pub op: Op,
    pub pk: Span,
    /// The row's encoding before; None for an insert.
    pub before: Option<Span>,
    /// The row's encoding after; None for a delete.
    pub after: Option<Span>,
    /// The row for the history: the row after, or before a delete.
    pub image: Stored,
}

/// A record of changes of rows.
pub trait Record {
    /// An insert: the row after.
    fn inserted(&mut self, leaf: &Rc<Leaf>, tx: u32, new: &Tuple);
    /// A delete: the row before.
    fn deleted(&mut self, leaf: &Rc<Leaf>, tx: u32, old: &Tuple);
    /// An update, of which the key may change.
    fn updated(&mut self, leaf: &Rc<Leaf>, tx: u32, old: &Tuple, new: &Tuple);
}

/// How much there was when a subtransaction began.
struct Mark {
    changes: usize,
    bytes: usize,
    words: usize,
}

/// Invariant L1: the changes are those of the innermost open subtransaction and its ancestors; an
/// aborted one's are gone.
#[derive(Default)]
pub struct Effects {
    pub changes: Vec<Recorded>,
    pub leaves: Vec<Rc<Leaf>>,
    pub images: TupleStore,
    /// In a rehearsal: the rows before updates that kept their key, by the change's place.
    pub befores: Vec<(usize, Stored)>,
    pub keeps_befores: bool,
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    changes_peak: usize,
    bytes_peak: usize,
}

/// All raise 54000 beyond the bounds of a block.
impl Record for Effects {
    fn inserted(&mut self, leaf: &Rc<Leaf>, tx: u32, new: &Tuple) {
        let (pk, after) = (self.key(leaf, new), self.row(leaf, new));
        self.push(leaf, tx, Op::Insert, pk, None, Some(after), new);
    }

    fn deleted(&mut self, leaf: &Rc<Leaf>, tx: u32, old: &Tuple) {
        let (pk, before) = (self.key(leaf, old), self.row(leaf, old));
        self.push(leaf, tx, Op::Delete, pk, Some(before), None, old);
    }

    /// One change, or a delete and an insert when the key changed.
    fn updated(&mut self, leaf: &Rc<Leaf>, tx: u32, old: &Tuple, new: &Tuple) {
        let (pk, before) = (self.key(leaf, old), self.row(leaf, old));
        let (new_pk, after) = (self.key(leaf, new), self.row(leaf, new));
        if self.bytes(pk) == self.bytes(new_pk) {
            self.push(leaf, tx, Op::Update, pk, Some(before), Some(after), new);
            if self.keeps_befores {
                let before = self.images.push(old);
                self.befores.push((self.changes.len() - 1, before));
            }
        } else {
            self.push(leaf, tx, Op::Delete, pk, Some(before), None, old);
            self.push(leaf, tx, Op::Insert, new_pk, None, Some(after), new);
        }
    }
}

impl Effects {
    /// The most changes and bytes there were when one was added, those undone since included.
    pub fn peak(&self) -> (u64, u64) {
        (self.changes_peak as u64, self.bytes_peak as u64)
    }

    /// The row before the update at this place, in a rehearsal.
    pub fn before(&self, at: usize) -> Option<Stored> {
        let found = self.befores.binary_search_by_key(&at, |(place, _)| *place);
        found.ok().map(|i| self.befores[i].1)
    }

    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.at..span.at + span.length]
    }

    pub fn key(&mut self, leaf: &Leaf, row: &Tuple) -> Span {
        let at = self.bytes.len();
        leaf.encoder.key(row, &mut self.bytes);
        Span {
            at,
            length: self.bytes.len() - at,
        }
    }

    pub fn row(&mut self, leaf: &Leaf, row: &Tuple) -> Span {
        let at = self.bytes.len();
        leaf.encoder.row(row, &mut self.bytes);
        Span {
            at,
            length: self.bytes.len() - at,
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        leaf: &Rc<Leaf>,
        tx: u32,
        op: Op,
        pk: Span,
        before: Option<Span>,
        after: Option<Span>,
        image: &Tuple,
    ) {
        self.changes_peak = self.changes_peak.max(self.changes.len());
        self.bytes_peak = self.bytes_peak.max(self.bytes.len());
        if self.changes.len() >= CHANGES_MAX || self.bytes.len() > BYTES_MAX {
            PgError::new(b"54000", "transaction changes too much for one block")
                .detail(format!(
                    "A block changes at most {CHANGES_MAX} rows, whose encodings take at most {BYTES_MAX} bytes."
                ))
                .hint("Submit the change in several parts.")
                .raise();
        }
        // Mostly the same table as the change before: look from the end.
        let known = self.leaves.iter().rposition(|l| Rc::ptr_eq(l, leaf));
        let leaf = known.unwrap_or_else(|| {
            self.leaves.push(leaf.clone());
            self.leaves.len() - 1
        }) as u32;
        let image = self.images.push(image);
        self.changes.push(Recorded {
            leaf,
            tx,
            op,
            pk,
            before,
            after,
            image,
        });
    }

    /// Begins a subtransaction.
    pub fn mark(&mut self) {
        self.marks.push(Mark {
            changes: self.changes.len(),
            bytes: self.bytes.len(),
            words: self.images.words(),
        });
    }

    /// Undoes the innermost subtransaction.
    pub fn undo(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.changes.truncate(mark.changes);
            self.befores.retain(|(at, _)| *at < mark.changes);
            self.bytes.truncate(mark.bytes);
            self.images.truncate(mark.words);
        }
    }

    /// Ends the innermost subtransaction, whose changes are its parent's now.
    pub fn keep(&mut self) {
        self.marks.pop();
    }

    /// Begins a block: nothing is recorded yet.
    pub fn start(&mut self) {
        self.changes.clear();
        self.leaves.clear();
        self.images.truncate(0);
        self.befores.clear();
        self.bytes.clear();
        (self.changes_peak, self.bytes_peak) = (0, 0);
    }

    pub fn clear(&mut self) {
        *self = Effects::default();
    }
}
