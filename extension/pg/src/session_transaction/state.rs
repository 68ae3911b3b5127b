//! The answers of the rooms above about a session's transaction.
use pgrx::pg_sys;

use crate::base::above::Above;
use crate::base::error::PgError;
use crate::run::locked_rows;
use crate::session_transaction::elsewhere;
use crate::session_transaction::statement::Statement;

/// The work that remains once the part is undone.
pub trait Remaining {
    /// The name under which the rest of the transaction is prepared before the work. None: it is
    /// committed after the work. Asked when the rest has changed something.
    fn name(&mut self) -> Result<Option<String>, PgError>;
    /// Does it.
    fn run(self: Box<Self>) -> Result<(), Failed>;
}

/// Why the work was not done. The session's COMMIT fails with the error.
pub struct Failed {
    pub error: PgError,
    /// It was not done, and will not be. Otherwise nobody knows.
    pub known: bool,
}

/// The answers of the rooms above about plain SQL. Each may raise, unless it says otherwise.
pub struct PlainSql {
    /// Whether to watch this session's statements at all. Asked first, for each statement.
    pub wanted: fn() -> bool,
    /// Whether a statement must run in the part.
    pub needs_part: fn(&Statement) -> bool,
    /// The part has begun.
    pub begun: fn(),
    /// Called with each row that a statement of the ledger part locks.
    pub locked: locked_rows::Shown,
    /// Sends a statement to the ledger, where all organisations execute it, in place of here.
    pub execute: elsewhere::Execute,
    /// Whether the ledger part has changes of ledger tables, which only a block may make.
    pub has_changes: fn() -> bool,
    /// Called with true when deferred triggers of changes from before the ledger part begin to run
    /// in it, and with false when they have ended. The triggers run once more when the rest of the
    /// transaction is committed.
    pub early_triggers: fn(bool),
    /// Called in the ledger part when the session commits. Returns the work that remains; None: the
    /// part is committed like the rest of the transaction.
    pub take: fn() -> Option<Box<dyn Remaining>>,
    /// Whether the session keeps its locks on a table until its changes are applied. True for
    /// tables that no block needs.
    pub keeps_lock: fn(pg_sys::Oid) -> bool,
    /// Called before a transaction without a ledger part is prepared.
    pub prepares: fn(),
    /// Called while the session waits for its client. Returns an error when the session has to give
    /// up its transaction; its next statement fails with that error. Must not raise.
    pub gives_up: fn() -> Option<PgError>,
    /// Called when the ledger part has ended, however it ended. Must not raise.
    pub over: fn(),
}

pub(crate) static ABOVE: Above<PlainSql> = Above::new();

/// The session's messages to its client, which the dispatcher of hooks hands to `message` and
/// `flush`.
pub(crate) struct Messages {
    /// Has them come by from now on.
    pub(crate) follow: fn(),
}

pub(crate) static MESSAGES: Above<Messages> = Above::new();

/// The part is over. Must not raise.
pub(super) fn over() {
    (ABOVE.get().over)();
}
