//! The global state of the block that this process executes, in one place.
//!
//! PostgreSQL calls triggers, hooks, callbacks and SQL functions without a context. So the values
//! that these record or need cannot be arguments; all others are arguments. A worker has the state
//! of its part.
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use chainify_codec::Hash;
use chainify_sched::declared::Declared;
use pgrx::pg_sys::Oid;

use crate::pg::base::error::PgError;
use crate::pg::ddl::targets::Address;
use crate::running::drawn::Drawn;
use crate::running::recorded::Effects;

/// The access of each transaction, by its position in the block.
pub type ByTransaction = HashMap<u32, Rc<[Declared]>>;

/// An object under the ledger that a statement dropped.
pub struct Dropped {
    pub object: Address,
    /// The partitioned table that it held rows of.
    pub root: Option<Oid>,
}

/// A block this session has executed and not committed.
#[derive(Clone, Copy)]
pub struct Open {
    pub number: i64,
    /// Parts that workers hold open.
    pub parts: usize,
}

/// The state of a block; each field says why it is global.
#[derive(Default)]
pub struct BlockState {
    /// The changes so far: the triggers on ledger tables record them, and callbacks of
    /// subtransactions undo them.
    pub effects: RefCell<Effects>,
    /// The sequences that the transaction uses: SQL functions that its client calls draw from them.
    pub sequences: RefCell<Drawn>,
    /// The transaction, and how many UUIDs it took: a SQL function that its client calls gives the
    /// next.
    pub uuids: Cell<(Hash, u64)>,
    /// The declared access of the transactions of a part: the code that runs a transaction knows no
    /// parts.
    pub declared: RefCell<ByTransaction>,
    /// Objects that the statement of a DEPLOY transaction created: an event trigger records them.
    pub made: RefCell<Vec<Address>>,
    /// Objects that the statement dropped: an event trigger records them.
    pub dropped: RefCell<Vec<Dropped>>,
    /// Relations that the statement rewrote into another file: an event trigger records them.
    pub rewritten: RefCell<Vec<Oid>>,
    /// The statement itself has begun; further statements come from functions that it calls. A hook
    /// asks.
    pub started: Cell<bool>,
    /// The state root that each DEPLOY transaction left when it last ran. It may run again, in
    /// another subtransaction.
    pub deploy_roots: RefCell<BTreeMap<u32, Hash>>,
    /// The error of a planned transaction, by the transaction that executed it. The latter has the
    /// outcome true, which has no room for an error.
    pub spent: RefCell<BTreeMap<u32, PgError>>,
    /// Whether a PLAN transaction put the ledger's own tables on the ledger: the seal asks.
    pub attached_own: Cell<bool>,
    /// Set from the end of the block to that of its database transaction: callbacks of COMMIT and
    /// ROLLBACK ask.
    pub open: Cell<Option<Open>>,
}

thread_local! {
    static BLOCK: BlockState = BlockState::default();
}

/// The state of the block, for `f`.
pub fn block<T>(f: impl FnOnce(&BlockState) -> T) -> T {
    BLOCK.with(f)
}
