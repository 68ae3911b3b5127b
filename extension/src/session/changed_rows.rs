//! The changes of a session to rows of ledger tables, as its write set will have them.
use std::collections::HashSet;
use std::rc::Rc;

use chainify_ledger::captured::{self, Event, Found, Reads};
use chainify_ledger::node_messages::SealedValue;
use chainify_ledger::write_set::{Action, Isolation, WriteSet, WRITE_SET_BYTES_MAX};
use chainify_ledger::Hash;

use crate::ledger::tables::Leaf;
use crate::pg::base::error::PgError;
use crate::pg::base::relation::Tuple;
use crate::running::recorded::Record;

/// Rows that one transaction may lock or write as they were: their keys are kept in memory, and a
/// write set has no room for more.
const SEEN_MAX: usize = 100_000;

/// Bytes of these keys: a key in an index may be long, where it is stored compressed.
const SEEN_BYTES_MAX: usize = 8 << 20;

/// Private values that one transaction may seal, and bytes of them (spec/private.md).
const SEALED_MAX: usize = 10_000;
const SEALED_BYTES_MAX: usize = 1 << 20;

/// The tag and length of a bytea of 32 bytes, as a commitment in a row begins.
const COMMITMENT_HEAD: [u8; 5] = [6, 0, 0, 0, 32];
const COMMITMENT_BYTES: usize = 32;

/// A row that the session locked after so many changes, or wrote as it was.
struct Seen {
    after: usize,
    leaf: usize,
    key: Vec<u8>,
    hash: Hash,
}

/// The change of a row.
struct Changed {
    leaf: usize,
    key: Vec<u8>,
    action: Action,
}

/// How much there was when a subtransaction began.
#[derive(Clone, Copy, Default)]
struct Mark {
    changes: usize,
    seen: usize,
    bytes: usize,
    seen_bytes: usize,
    sealed: usize,
    sealed_bytes: usize,
    written: bool,
}

/// All changes of a session's transaction. A write set has every one of them, so that their memory
/// stays in proportion to its bound.
#[derive(Default)]
pub struct Changes {
    list: Vec<Changed>,
    seen: Vec<Seen>,
    leaves: Vec<Rc<Leaf>>,
    /// Rows were written, be it as they were.
    written: bool,
    /// Of the changes, in a write set.
    bytes: usize,
    /// Of the keys of rows seen.
    seen_bytes: usize,
    /// Private values, for the members of their circles alone.
    sealed: Vec<SealedValue>,
    sealed_bytes: usize,
    marks: Vec<Mark>,
}

impl Changes {
    /// Begins a subtransaction.
    pub fn mark(&mut self) {
        self.marks.push(Mark {
            changes: self.list.len(),
            seen: self.seen.len(),
            bytes: self.bytes,
            seen_bytes: self.seen_bytes,
            sealed: self.sealed.len(),
            sealed_bytes: self.sealed_bytes,
            written: self.written,
        });
    }

    /// Undoes the innermost subtransaction.
    pub fn undo(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.list.truncate(mark.changes);
            self.seen.truncate(mark.seen);
            self.sealed.truncate(mark.sealed);
            (self.bytes, self.seen_bytes) = (mark.bytes, mark.seen_bytes);
            self.sealed_bytes = mark.sealed_bytes;
            self.written = mark.written;
        }
    }

    /// Ends the innermost subtransaction, whose changes are its parent's now.
    pub fn keep(&mut self) {
        self.marks.pop();
    }

    /// Forgets all changes, and gives their memory back. Subtransactions stay open.
    pub fn start(&mut self) {
        let marks = vec![Mark::default(); self.marks.len()];
        *self = Changes {
            marks,
            ..Changes::default()
        };
    }

    pub fn has_written(&self) -> bool {
        self.written
    }

    /// Whether some are of the table.
    pub fn are_of(&self, table: &str) -> bool {
        let mut leaves = self.list.iter().map(|row| &self.leaves[row.leaf]);
        leaves.any(|leaf| leaf.table.name == table)
    }

    /// The keys of the table's rows that were changed or locked.
    pub fn keys<'s>(&'s self, table: &'s str) -> impl Iterator<Item = &'s [u8]> {
        let changed = self.list.iter().map(|row| (row.leaf, &row.key));
        let seen = self.seen.iter().map(|row| (row.leaf, &row.key));
        let of_table = move |(leaf, _): &(usize, _)| self.leaves[*leaf].table.name == table;
        let rows = changed.chain(seen).filter(of_table);
        rows.map(|(_, key)| key.as_slice())
    }

    /// Notes that a row was locked, or written as it was. Raises 54000 for too many.
    pub fn see(&mut self, leaf: &Rc<Leaf>, key: Vec<u8>, hash: Hash) {
        self.seen_bytes += key.len();
        if self.seen.len() >= SEEN_MAX || self.seen_bytes > SEEN_BYTES_MAX {
            PgError::new(b"54000", "transaction locks too many rows of ledger tables")
                .detail(format!(
                    "A transaction may lock {SEEN_MAX} rows, whose keys take at most {SEEN_BYTES_MAX} bytes. Rows that it writes as they were count."
                ))
                .raise();
        }
        let leaf = self.leaf(leaf);
        self.seen.push(Seen {
            after: self.list.len(),
            leaf,
            key,
            hash,
        });
    }

    /// Keeps a private value. Raises 54000 for too many.
    pub fn seal(&mut self, value: SealedValue) {
        self.sealed_bytes += value.value.len();
        if self.sealed.len() >= SEALED_MAX || self.sealed_bytes > SEALED_BYTES_MAX {
            PgError::new(b"54000", "transaction seals too many private values")
                .detail(format!("A transaction may seal {SEALED_MAX} values of together {SEALED_BYTES_MAX} bytes."))
                .hint("Commit in smaller parts.")
                .raise();
        }
        self.sealed.push(value);
    }

    /// The private values whose commitments a write set has.
    pub fn sealed_in(&self, write_set: &[u8]) -> Vec<SealedValue> {
        if self.sealed.is_empty() {
            return Vec::new();
        }
        let size = COMMITMENT_HEAD.len() + COMMITMENT_BYTES;
        let committed = write_set.windows(size);
        let committed: HashSet<&[u8]> = committed
            .filter_map(|bytes| bytes.strip_prefix(&COMMITMENT_HEAD))
            .collect();
        let is_in = |value: &&SealedValue| committed.contains(value.commitment.as_slice());
        self.sealed.iter().filter(is_in).cloned().collect()
    }

    /// The write set; None when no ledger table was changed.
    pub fn write_set(
        &self,
        snapshot: u64,
        isolation: Isolation,
        reads: &Reads,
        found: &[Found],
    ) -> Option<WriteSet> {
        let table = |leaf: usize| self.leaves[leaf].table.name.as_str();
        let mut seen = self.seen.iter().peekable();
        let mut events = Vec::with_capacity(self.list.len() + self.seen.len());
        for at in 0..=self.list.len() {
            while let Some(row) = seen.next_if(|row| row.after == at) {
                events.push(Event::Seen {
                    table: table(row.leaf),
                    key: &row.key,
                    hash: row.hash,
                });
            }
            if let Some(row) = self.list.get(at) {
                events.push(Event::Changed {
                    table: table(row.leaf),
                    key: &row.key,
                    action: &row.action,
                });
            }
        }
        captured::write_set(snapshot, isolation, &events, reads, found)
    }

    fn leaf(&mut self, leaf: &Rc<Leaf>) -> usize {
        // Mostly the same table as before: look from the end.
        let known = self.leaves.iter().rposition(|l| Rc::ptr_eq(l, leaf));
        known.unwrap_or_else(|| {
            self.leaves.push(leaf.clone());
            self.leaves.len() - 1
        })
    }

    /// Keeps what became of a row with this key, from its encodings before and after. Raises 54000
    /// once COMMIT would.
    fn change(
        &mut self,
        leaf: &Rc<Leaf>,
        key: Vec<u8>,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) {
        self.written = true;
        let before = before.map(|row| (row, leaf.table.rows.hash(row)));
        let action = captured::action(&key, before, after)
            .unwrap_or_else(|error| PgError::new(b"XX000", error.to_string()).raise());
        let Some(action) = action else {
            let hash = before.map_or([0; 32], |(_, hash)| hash);
            return self.see(leaf, key, hash);
        };
        self.bytes += action.encoded_len();
        if self.bytes > WRITE_SET_BYTES_MAX {
            let message =
                format!("the transaction's changes take more than {WRITE_SET_BYTES_MAX} bytes");
            PgError::new(b"54000", message)
                .hint("Commit in smaller parts.")
                .raise();
        }
        let leaf = self.leaf(leaf);
        self.list.push(Changed { leaf, key, action });
    }
}

fn key(leaf: &Leaf, row: &Tuple) -> Vec<u8> {
    let mut key = Vec::new();
    leaf.encoder.key(row, &mut key);
    key
}

fn encoded(leaf: &Leaf, row: &Tuple) -> Vec<u8> {
    let mut bytes = Vec::new();
    leaf.encoder.row(row, &mut bytes);
    bytes
}

impl Record for Changes {
    fn inserted(&mut self, leaf: &Rc<Leaf>, _: u32, new: &Tuple) {
        self.change(leaf, key(leaf, new), None, Some(&encoded(leaf, new)));
    }

    fn deleted(&mut self, leaf: &Rc<Leaf>, _: u32, old: &Tuple) {
        self.change(leaf, key(leaf, old), Some(&encoded(leaf, old)), None);
    }

    fn updated(&mut self, leaf: &Rc<Leaf>, tx: u32, old: &Tuple, new: &Tuple) {
        let (key, new_key) = (key(leaf, old), key(leaf, new));
        if key == new_key {
            let (before, after) = (encoded(leaf, old), encoded(leaf, new));
            self.change(leaf, key, Some(&before), Some(&after));
        } else {
            self.deleted(leaf, tx, old);
            self.inserted(leaf, tx, new);
        }
    }
}
