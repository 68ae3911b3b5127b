//! Decides which local session gives way to a block, when and how, and with which error.
//!
//! Organisations agree on the changes of a block. They do not agree on a lock that one database
//! happens to hold. So the block goes first: a session that is in its way for longer than the grace
//! loses its statement. A session that holds its locks between statements loses its connection, as
//! queries do that conflict with replay on a hot standby.
//!
//! A session whose changes are ordered when it commits has no grace. The block changes a row that
//! the session has changed or locked, so the session's transaction cannot succeed any more. It
//! loses its transaction, and keeps its connection. Source: the early abort of Fabric++ (Sharma,
//! Schuhknecht, Agrawal, Dittrich, SIGMOD 2019, section 5.2).
//!
//! Ending the sessions that are directly in the way is enough: one that itself waits for others
//! gives up its locks, or its place in the queue, all the same. PostgreSQL's own rules hold for
//! autovacuum, which makes way unless it prevents wraparound.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often a running block is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A session that still blocks so long after its statement was cancelled is terminated. It went on,
/// or it runs in a subtransaction and the transaction around it has its locks.
const CANCEL_TAKES_MAX: Duration = Duration::from_secs(1);

/// A part that waits so long for another part of its block has not given up by itself. Parts also
/// wait for a table to grow by a page, which a busy machine makes longer.
const PART_WAIT_MAX: Duration = Duration::from_secs(1);

/// A process that executes a block, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Executor {
    /// Its process.
    pub pid: i32,
    /// The number of the block.
    pub block: i64,
}

/// The state of a process in the way.
#[derive(Clone, Copy, Debug)]
pub struct Session<H> {
    /// By which the host knows it.
    pub handle: H,
    /// Its local transaction; 0 when it has none.
    pub transaction: u32,
    /// A client's; otherwise a process of the server.
    pub of_client: bool,
    /// The ledger's own maintenance, which begins again later.
    pub maintains: bool,
    /// In a transaction, waiting for the client's next command.
    pub idle: bool,
    /// Waiting for the outcome of its own ledger transaction, which cannot come before the block.
    pub waiting: bool,
    /// Its changes are ordered when it commits: it loses its transaction, and keeps its connection.
    pub gives_up: bool,
}

/// The server whose processes are watched.
pub trait Host {
    /// By which it knows a session.
    type Handle: Copy;

    /// Time since some start.
    fn now(&self) -> Duration;
    /// Waits to be woken, at most so long, without a limit while no block runs; false when the
    /// worker has to stop.
    fn wait(&mut self, time: Option<Duration>) -> bool;
    /// How long a session may be in the way; None: for ever.
    fn grace(&self) -> Option<Duration>;
    /// All that execute a block now. When there is none, the next one ends the wait.
    fn executing(&mut self) -> Vec<Executor>;
    /// Whether this process waits for a lock; None when it is gone.
    fn waits(&mut self, pid: i32) -> Option<bool>;
    /// Its process is gone: it executes nothing.
    fn forget(&mut self, pid: i32);
    /// The processes that this one waits for, also those before it in the queue of the lock.
    fn blockers(&mut self, pid: i32) -> Vec<i32>;
    /// The state of a process; None when it is gone.
    fn session(&mut self, pid: i32) -> Option<Session<Self::Handle>>;
    /// The table that this process waits for a lock on, or on a row of; None when that is not
    /// known.
    fn table_waited_for(&mut self, pid: i32) -> Option<u32>;
    /// Leaves the reason for a session whose transaction is about to be ended.
    fn leave_reason(&mut self, session: &Session<Self::Handle>, executor: Executor, table: Option<u32>);
    /// Asks an idle session to give up its transaction.
    fn ask_to_give_up(&mut self, session: Self::Handle);
    /// Cancels the statement of a session.
    fn cancel(&mut self, session: Self::Handle);
    /// Ends a session.
    fn terminate(&mut self, session: Self::Handle);
    /// One look is over: what it needed is given back.
    fn looked(&mut self);
}

/// A local transaction in the way of a block, or another part of the block (transaction 0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    executor: Executor,
    pid: i32,
    transaction: u32,
}

/// How long a claim has lasted, and the answer to it.
#[derive(Clone, Copy)]
struct History {
    since: Duration,
    cancelled: Option<Duration>,
    /// It gives up, and says so no more when it has begun to: its locks go a moment later.
    gives_up: bool,
}

impl History {
    fn new(since: Duration) -> Self {
        History { since, cancelled: None, gives_up: false }
    }
}

type Claims = BTreeMap<Claim, History>;

#[derive(Clone, Copy)]
enum Action {
    Wait,
    GiveUp,
    Cancel,
    Terminate,
}

/// Watches until it has to stop; sleeps while no block runs.
pub fn run(host: &mut impl Host) {
    let mut claims = Claims::new();
    loop {
        let running = host.executing();
        let grace = host.grace();
        if let Some(grace) = grace {
            claims = look(host, &running, grace, &claims);
            host.looked();
        }
        if !host.wait((!running.is_empty()).then_some(LOOK)) {
            return;
        }
    }
}

/// Looks at every block being executed; returns the claims that are in the way now.
fn look(host: &mut impl Host, running: &[Executor], grace: Duration, before: &Claims) -> Claims {
    let mut claims = Claims::new();
    for &executor in running {
        match host.waits(executor.pid) {
            Some(true) => (),
            Some(false) => continue,
            None => {
                host.forget(executor.pid);
                continue;
            }
        }
        for pid in host.blockers(executor.pid) {
            if let Some(other) = running.iter().find(|other| other.pid == pid) {
                // Another block waits for its turn, and its part gives up nothing to this one.
                if other.block == executor.block {
                    let claim = Claim { executor, pid, transaction: 0 };
                    let history = before.get(&claim).copied().unwrap_or(History::new(host.now()));
                    if host.now().saturating_sub(history.since) >= PART_WAIT_MAX {
                        part(host, executor.pid, pid);
                    }
                    claims.insert(claim, history);
                }
                continue;
            }
            let Some(session) = host.session(pid).filter(|session| session.of_client || session.maintains) else {
                continue;
            };
            let claim = Claim { executor, pid, transaction: session.transaction };
            let mut history = before.get(&claim).copied().unwrap_or(History::new(host.now()));
            history.gives_up |= session.gives_up;
            let session = Session { gives_up: history.gives_up, ..session };
            resolve(host, claim, &mut history, &session, grace);
            claims.insert(claim, history);
        }
    }
    claims
}

/// Parts of one block wait for each other: they are not what they seemed, and the worker among them
/// gives up. Mostly a part has done so itself (`lock_timeout`); a function may have put that off.
fn part(host: &mut impl Host, waiting: i32, holding: i32) {
    let [low, high] = [waiting.min(holding), waiting.max(holding)];
    for pid in [low, high] {
        if let Some(worker) = host.session(pid).filter(|session| !session.of_client) {
            return host.terminate(worker.handle);
        }
    }
}

/// Chooses the next action against a session in the way.
fn decide<H>(history: History, now: Duration, grace: Duration, session: &Session<H>) -> Action {
    let lasted = |since| now.saturating_sub(since);
    match history.cancelled {
        Some(at) if session.gives_up && lasted(at) >= CANCEL_TAKES_MAX => Action::Terminate,
        _ if session.gives_up && session.idle => Action::GiveUp,
        None if session.gives_up => Action::Cancel,
        None if session.waiting => Action::Cancel,
        None if lasted(history.since) < grace => Action::Wait,
        None if session.idle => Action::Terminate,
        None => Action::Cancel,
        Some(_) if session.idle => Action::Terminate,
        Some(at) if lasted(at) < grace.max(CANCEL_TAKES_MAX) => Action::Wait,
        Some(_) => Action::Terminate,
    }
}

fn resolve<H: Host>(host: &mut H, claim: Claim, history: &mut History, session: &Session<H::Handle>, grace: Duration) {
    let now = host.now();
    let action = decide(*history, now, grace, session);
    if matches!(action, Action::Wait) {
        return;
    }
    let table = host.table_waited_for(claim.executor.pid);
    // Meanwhile the lock may have been given up: a session that is no longer in the way is left
    // alone.
    if !host.blockers(claim.executor.pid).contains(&claim.pid) {
        return;
    }
    host.leave_reason(session, claim.executor, table);
    match action {
        Action::Wait => (),
        Action::GiveUp => {
            host.ask_to_give_up(session.handle);
            history.cancelled.get_or_insert(now);
        }
        Action::Cancel => {
            host.cancel(session.handle);
            history.cancelled = Some(now);
        }
        Action::Terminate if session.of_client => host.terminate(session.handle),
        // Nobody would start maintenance again.
        Action::Terminate => host.cancel(session.handle),
    }
}

/// SQLSTATE of what a session is told. It is not of class 40: the lock did not lose a race that a
/// retry could win, and a retry loop would take it again at once.
pub const SQLSTATE: &[u8; 5] = b"CH007";

/// Why a session's transaction was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Number of the ledger block that waited.
    pub block: i64,
    /// `schema.table`; None when unknown.
    pub table: Option<String>,
    /// The session was waiting for the outcome of its own ledger transaction.
    pub waiting: bool,
}

/// SQLSTATE of the same for a session whose changes are ordered when it commits: every framework
/// retries it, and the block is over by then.
pub const RETRY: &[u8; 5] = b"40001";

impl Reason {
    /// The message of a session whose changes are ordered when it commits.
    pub fn conflict() -> &'static str {
        "could not serialize access due to a ledger block"
    }

    /// The detail of the same. `row`: the key of the only row of the table that the transaction has
    /// changed or locked.
    pub fn conflict_detail(&self, row: Option<&str>) -> String {
        let block = self.block;
        match (&self.table, row) {
            (Some(table), Some(row)) => {
                format!("Block {block} changes row ({row}) of table \"{table}\", which this transaction has changed or locked.")
            }
            (Some(table), None) => {
                format!("Block {block} changes a row of table \"{table}\" that this transaction has changed or locked.")
            }
            (None, _) => format!("Block {block} changes what this transaction has changed or locked."),
        }
    }

    /// The error's message; `fatal` when the connection ends.
    pub fn message(fatal: bool) -> &'static str {
        match fatal {
            true => "terminating connection that blocks a ledger block",
            false => "canceling statement that blocks a ledger block",
        }
    }

    /// In the way is the session that holds the lock, and also one that asked for it before the
    /// block.
    pub fn detail(&self) -> String {
        let block = self.block;
        match &self.table {
            Some(table) => {
                format!("Block {block} waited for a lock on table \"{table}\" behind this session's transaction.")
            }
            None => format!("Block {block} waited for a lock behind this session's transaction."),
        }
    }

    /// A way to avoid it.
    pub fn hint(&self) -> &'static str {
        match self.waiting {
            true => "Commit before calling chainify.execute or chainify.wait. What was submitted is not taken back: look for it in the view chainify.transactions.",
            false => "Keep transactions short that lock ledger tables; change these tables with SELECT chainify.execute('...').",
        }
    }
}
