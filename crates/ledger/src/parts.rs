//! The messages between the processes that execute one block (`spec/parallel.md`). The messages
//! pass between processes of one server only; a decoder checks all the same that lengths and counts
//! fit each other.

use chainify_codec::KeyedLeaf;
use prost::Message;

use crate::{Hash, WireError};

/// The input of a worker for its part.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartRequest {
    /// This organisation's name.
    #[prost(string, tag = "1")]
    pub chain_id: String,
    /// The number of the block.
    #[prost(int64, tag = "2")]
    pub number: i64,
    /// As for `execute_block`.
    #[prost(int64, tag = "3")]
    pub order_height: i64,
    /// As for `execute_block`.
    #[prost(int64, tag = "4")]
    pub block_time: i64,
    /// LedgerBlockHash of the block before.
    #[prost(bytes = "vec", tag = "5")]
    pub previous: Vec<u8>,
    /// Root over the ids of all transactions of the block.
    #[prost(bytes = "vec", tag = "6")]
    pub tx_root: Vec<u8>,
    /// Which part; the leader's is 0.
    #[prost(int32, tag = "7")]
    pub part: i32,
    /// The positions of its transactions in the block, ascending.
    #[prost(uint32, repeated, tag = "8")]
    pub members: Vec<u32>,
    /// Their bytes as ordered.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub bodies: Vec<Vec<u8>>,
    /// For the whole block, as for `execute_block`.
    #[prost(int32, repeated, tag = "10")]
    pub quarantined: Vec<i32>,
    /// As for `execute_block`.
    #[prost(bool, tag = "11")]
    pub quarantine_all: bool,
    /// The access of its transactions, where it is declared; by transaction.
    #[prost(message, repeated, tag = "12")]
    pub declared: Vec<DeclaredAccess>,
    /// By transaction, which run of EFFECTS transactions of the block it belongs to, from 1. 0: it
    /// takes no turns.
    #[prost(uint32, repeated, tag = "13")]
    pub runs: Vec<u32>,
    /// For the whole block, as for `execute_block`; they are among the quarantined ones.
    #[prost(message, repeated, tag = "14")]
    pub refused: Vec<RefusedTransaction>,
}

/// A transaction that the node does not want run, with its outcome.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RefusedTransaction {
    /// Its position in the block.
    #[prost(uint32, tag = "1")]
    pub transaction: u32,
    /// SQLSTATE of the outcome.
    #[prost(string, tag = "2")]
    pub sqlstate: String,
    /// Message of the outcome.
    #[prost(string, tag = "3")]
    pub message: String,
}

/// The access of a transaction to a relation, as its function declares.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeclaredAccess {
    /// Its position in the block.
    #[prost(uint32, tag = "1")]
    pub transaction: u32,
    /// The relation.
    #[prost(uint32, tag = "2")]
    pub relation: u32,
    /// The key in which its rows are told apart in this block.
    #[prost(uint32, optional, tag = "3")]
    pub focus: Option<u32>,
    /// Statements of the block change any column of its rows, or which rows there are.
    #[prost(bool, tag = "4")]
    pub changed_all: bool,
    /// Otherwise these columns.
    #[prost(sint32, repeated, tag = "5")]
    pub changed: Vec<i32>,
    /// The rows.
    #[prost(message, repeated, tag = "6")]
    pub rows: Vec<DeclaredRow>,
}

/// The known values of a row.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeclaredRow {
    /// Its values of keys.
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<DeclaredKey>,
}

/// The value of a key, or how it begins.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeclaredKey {
    /// Which key of the relation.
    #[prost(uint32, tag = "1")]
    pub key: u32,
    /// By `spec/scheduling.md`.
    #[prost(bytes = "vec", tag = "2")]
    pub bytes: Vec<u8>,
    /// It is all of it.
    #[prost(bool, tag = "3")]
    pub complete: bool,
}

/// The outcome of one transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartOutcome {
    /// Rows returned or changed; 0 when it failed.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// Why it failed; empty when it succeeded.
    #[prost(string, tag = "2")]
    pub sqlstate: String,
    /// The error's message.
    #[prost(string, tag = "3")]
    pub message: String,
}

/// The change that a part makes to the running state of one table.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Net {
    /// In `chainify_ledger.ledger_table`.
    #[prost(int32, tag = "1")]
    pub table_id: i32,
    /// Rows more, or fewer.
    #[prost(sint64, tag = "2")]
    pub rows: i64,
    /// To be added to the table's lanes; as stored.
    #[prost(bytes = "vec", tag = "3")]
    pub lanes: Vec<u8>,
}

/// The nets of a part, as stored beside its effects.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Nets {
    /// One for each table it changed.
    #[prost(message, repeated, tag = "1")]
    pub nets: Vec<Net>,
}

/// The facts of a finished part that sealing the block needs.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartReport {
    /// One for each transaction of the part, in order.
    #[prost(message, repeated, tag = "1")]
    pub outcomes: Vec<PartOutcome>,
    /// Its changes of the running states.
    #[prost(message, repeated, tag = "2")]
    pub nets: Vec<Net>,
    /// Its leaves, sorted by (table, pk, serial).
    #[prost(message, optional, tag = "3")]
    pub leaves: Option<LeafList>,
    /// The most changes there were at one time, those undone later included.
    #[prost(uint64, tag = "4")]
    pub changes_peak: u64,
    /// Bytes of their encodings, likewise.
    #[prost(uint64, tag = "5")]
    pub bytes_peak: u64,
    /// Accesses that its orders of EFFECTS transactions counted, all together. Below are the steps
    /// of choosing victims and of second chances (`spec/scheduling.md`, "Limits").
    #[prost(uint64, tag = "6")]
    pub order_accesses: u64,
    /// See above.
    #[prost(uint64, tag = "7")]
    pub order_cut_steps: u64,
    /// See above.
    #[prost(uint64, tag = "8")]
    pub order_chance_steps: u64,
}

/// Leaves by column, so that reading ten thousand of them allocates nothing for each.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LeafList {
    /// Names, ascending.
    #[prost(string, repeated, tag = "1")]
    pub tables: Vec<String>,
    /// How many leaves each table has.
    #[prost(uint32, repeated, tag = "2")]
    pub counts: Vec<u32>,
    /// Bytes of each leaf's key.
    #[prost(uint32, repeated, tag = "3")]
    pub pk_lengths: Vec<u32>,
    /// The keys, one after the other.
    #[prost(bytes = "vec", tag = "4")]
    pub pks: Vec<u8>,
    /// The hashes, one after the other.
    #[prost(bytes = "vec", tag = "5")]
    pub hashes: Vec<u8>,
}

impl LeafList {
    /// Adds the next leaf in order.
    pub fn push(&mut self, leaf: &KeyedLeaf<'_>) {
        if self.tables.last().is_none_or(|last| last != leaf.table) {
            self.tables.push(leaf.table.to_owned());
            self.counts.push(0);
        }
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
        self.pk_lengths.push(u32::try_from(leaf.pk.len()).expect("a key is far below 4 GiB"));
        self.pks.extend_from_slice(leaf.pk);
        self.hashes.extend_from_slice(&leaf.hash);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pk_lengths.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pk_lengths.is_empty()
    }

    /// The leaves in order, after [`LeafList::check`].
    pub fn iter(&self) -> impl Iterator<Item = KeyedLeaf<'_>> {
        let tables = self.tables.iter().zip(&self.counts);
        let tables = tables.flat_map(|(table, count)| std::iter::repeat_n(table.as_str(), *count as usize));
        let pks = self.pk_lengths.iter().scan(&self.pks[..], |rest, length| {
            let (pk, after) = rest.split_at_checked(*length as usize)?;
            *rest = after;
            Some(pk)
        });
        let hashes = self.hashes.chunks_exact(32).map(|hash| <Hash>::try_from(hash).expect("chunks of 32 bytes"));
        tables.zip(pks).zip(hashes).map(|((table, pk), hash)| KeyedLeaf { table, pk, hash })
    }

    /// Refuses columns of different lengths.
    fn check(&self) -> Result<(), WireError> {
        let sum = |numbers: &[u32]| numbers.iter().map(|n| *n as usize).sum::<usize>();
        let fits = self.tables.len() == self.counts.len()
            && sum(&self.counts) == self.len()
            && sum(&self.pk_lengths) == self.pks.len()
            && self.hashes.len() == 32 * self.len();
        fits.then_some(()).ok_or_else(|| WireError::new("leaves", "columns have different lengths"))
    }
}

/// A message from a leader to a worker.
#[derive(Debug)]
pub enum LeaderSays {
    /// Run this part, and keep its transaction open. Answered by Ready or Failed.
    Run(Box<PartRequest>),
    /// Commit it. Answered by Committed or Failed.
    Commit,
    /// Roll back whatever is open. Answered by Abandoned, after the answer to Run if that was on
    /// its way.
    Abandon,
}

/// The answer of a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkerSays {
    /// The part has run and is written; the bytes are for [`PartReport::read`].
    Ready(Vec<u8>),
    /// Its transaction is rolled back; why.
    Failed(String),
    /// Its transaction is committed.
    Committed,
    /// Nothing is open.
    Abandoned,
}

impl LeaderSays {
    /// The bytes of the message.
    pub fn write(&self) -> Vec<u8> {
        match self {
            Self::Run(request) => tagged(b'R', request.as_ref()),
            Self::Commit => vec![b'C'],
            Self::Abandon => vec![b'A'],
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
        match bytes.split_first() {
            Some((b'R', rest)) => PartRequest::read(rest).map(|request| Self::Run(request.into())),
            Some((b'C', [])) => Ok(Self::Commit),
            Some((b'A', [])) => Ok(Self::Abandon),
            _ => Err(WireError::new("message of a leader", "unknown")),
        }
    }
}

impl WorkerSays {
    /// The message about a part that is ready.
    pub fn ready(report: &PartReport) -> Vec<u8> {
        tagged(b'R', report)
    }

    /// The bytes of the message.
    pub fn write(&self) -> Vec<u8> {
        match self {
            Self::Ready(report) => [b"R", &report[..]].concat(),
            Self::Failed(why) => [b"F", why.as_bytes()].concat(),
            Self::Committed => vec![b'C'],
            Self::Abandoned => vec![b'A'],
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(mut bytes: Vec<u8>) -> Result<Self, WireError> {
        match bytes.first() {
            Some(b'R') => Ok(Self::Ready(bytes.split_off(1))),
            Some(b'F') => Ok(Self::Failed(String::from_utf8_lossy(&bytes[1..]).into_owned())),
            Some(b'C') if bytes.len() == 1 => Ok(Self::Committed),
            Some(b'A') if bytes.len() == 1 => Ok(Self::Abandoned),
            _ => Err(WireError::new("message of a worker", "unknown")),
        }
    }
}

fn tagged(tag: u8, message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + message.encoded_len());
    bytes.push(tag);
    message.encode(&mut bytes).expect("a vector grows");
    bytes
}

impl Nets {
    /// The bytes stored in `chainify_ledger.part`.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads them back.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
        Self::decode(bytes).map_err(|error| WireError::new("nets", error.to_string()))
    }
}

impl PartRequest {
    /// Reads what a leader sent.
    ///
    /// # Errors
    /// When the bytes are no request, or there is not one body and one run for each member.
    pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
        let request = Self::decode(bytes).map_err(|error| WireError::new("part request", error.to_string()))?;
        if request.members.len() != request.bodies.len() || !request.members.is_sorted_by(|a, b| a < b) {
            return Err(WireError::new("part request", "members do not fit the bodies"));
        }
        if request.members.len() != request.runs.len() {
            return Err(WireError::new("part request", "members do not fit the runs"));
        }
        Ok(request)
    }
}

impl PartReport {
    /// Reads what a worker sent about a part of `members` transactions.
    ///
    /// # Errors
    /// When the bytes are no report, or its columns do not fit each other or the part.
    pub fn read(bytes: &[u8], members: usize) -> Result<Self, WireError> {
        let report = Self::decode(bytes).map_err(|error| WireError::new("part report", error.to_string()))?;
        if report.outcomes.len() != members {
            let what = format!("{} for {members} transactions", report.outcomes.len());
            return Err(WireError::new("part report: outcomes", what));
        }
        report.leaves.as_ref().map_or(Ok(()), LeafList::check)?;
        Ok(report)
    }

    /// Its leaves.
    pub fn leaves(&self) -> impl Iterator<Item = KeyedLeaf<'_>> {
        self.leaves.iter().flat_map(LeafList::iter)
    }
}
