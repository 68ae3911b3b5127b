//! The extension's settings (spec/sql-api.md).
use std::ffi::CString;
use std::time::Duration;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

/// Workers of one leader.
pub(crate) const WORKERS_MAX: usize = 15;

static NODE_SOCKET: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
/// Read by SQL alone.
static AS_OF: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static WRITES: GucSetting<Writes> = GucSetting::<Writes>::new(Writes::Refuse);
static LOCAL_WRITES: GucSetting<LocalWrites> = GucSetting::<LocalWrites>::new(LocalWrites::Commit);
static GUARD: GucSetting<bool> = GucSetting::<bool>::new(true);
static REFUSE_STALE_READS: GucSetting<bool> = GucSetting::<bool>::new(false);
static SHARE_PLANS: GucSetting<bool> = GucSetting::<bool>::new(true);
static KEEP_STATES: GucSetting<bool> = GucSetting::<bool>::new(true);
static GROUP_AFTER: GucSetting<i32> = GucSetting::<i32>::new(32);
static STATEMENT_RETRIES: GucSetting<i32> = GucSetting::<i32>::new(50);
static WAIT_TIMEOUT_MS: GucSetting<i32> = GucSetting::<i32>::new(30_000);
static CONFLICT_GRACE_MS: GucSetting<i32> = GucSetting::<i32>::new(500);
static CHECKPOINT_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(100);
static KEEP_INITIAL_ROWS: GucSetting<bool> = GucSetting::<bool>::new(true);
static CHECKPOINTS_KEPT: GucSetting<i32> = GucSetting::<i32>::new(3);
static EXECUTOR_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(1);
static BLOCK_MEMORY_MB: GucSetting<i32> = GucSetting::<i32>::new(2_048);
static SCRUB_RATE: GucSetting<i32> = GucSetting::<i32>::new(50_000);
static SCRUB_INTERVAL_S: GucSetting<i32> = GucSetting::<i32>::new(600);

static ANALYTICS: GucSetting<Analytics> = GucSetting::<Analytics>::new(Analytics::Off);
static ANALYTICS_SOCKET: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ANALYTICS_PORT: GucSetting<i32> = GucSetting::<i32>::new(26_670);
static ANALYTICS_TIMEOUT_MS: GucSetting<i32> = GucSetting::<i32>::new(600_000);
static ANALYTICS_COST: GucSetting<f64> = GucSetting::<f64>::new(100_000.0);

/// Which SELECTs over mirrored tables the analytics worker answers.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum Analytics {
    /// None.
    #[name = c"off"]
    Off,
    /// Those that it can.
    #[name = c"on"]
    On,
    /// Those of them that PostgreSQL's planner takes for dear.
    #[name = c"auto"]
    Auto,
}

/// The way of a session's own changes of ledger tables.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum Writes {
    /// They are refused: only `chainify.execute` and its relatives submit.
    #[name = c"refuse"]
    Refuse,
    /// They are undone, and ordered as effects when the session commits.
    #[name = c"effects"]
    Effects,
    /// The same; a deterministic statement that is alone in its transaction is ordered as SQL.
    #[name = c"ledger"]
    Ledger,
}

/// The way of a session's local changes in a transaction that changes ledger tables as well.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum LocalWrites {
    /// They are committed after the ledger's; a crash in between loses them.
    #[name = c"commit"]
    Commit,
    /// They are prepared before, and end as the ledger's do.
    #[name = c"prepare"]
    Prepare,
}

/// Defines them; once, while the library is loaded.
pub fn define() {
    GucRegistry::define_string_guc(
        c"chainify.node_socket",
        c"Path of the Unix socket of this organisation's node.",
        c"Empty: no node, transactions cannot be submitted from this database.",
        &NODE_SOCKET,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"chainify.as_of",
        c"The block, or the time, at whose end the views <table>_as_of show their tables.",
        c"Empty: the last block.",
        &AS_OF,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"chainify.writes",
        c"What becomes of changes that a session makes to ledger tables by plain SQL.",
        c"refuse: an error. effects: they are undone, and ordered and applied everywhere when the session commits. ledger: the same, but single statements that are deterministic run everywhere.",
        &WRITES,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"chainify.local_writes",
        c"How changes of local tables are committed beside changes that the ledger orders.",
        c"commit: after them; a crash in between loses the local ones. prepare: they are prepared before, and end as the ledger's do.",
        &LOCAL_WRITES,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"chainify.guard",
        c"Refuses writes and DDL on ledger tables outside a block.",
        c"What is written while this is off is not recorded: verification reports it as a deviation.",
        &GUARD,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"chainify.refuse_stale_reads",
        c"Refuses statements that read ledger tables while this database deviates.",
        c"Each asks the node how it stands. Superusers are never refused.",
        &REFUSE_STALE_READS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"chainify.share_plans",
        c"Plans statements that differ in literals alone once.",
        c"Off: every text is planned as written. Results are the same.",
        &SHARE_PLANS,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"chainify.keep_states",
        c"Starts a statement that runs several times in a block once.",
        c"Off: each execution starts anew. Results are the same.",
        &KEEP_STATES,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.group_after",
        c"Transactions that succeed in a row for each further one that shares their subtransaction.",
        c"0: as many share one as may; -1: each has its own. Results are the same.",
        &GROUP_AFTER,
        -1,
        10_000,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.wait_timeout",
        c"How long chainify.execute waits for consensus.",
        c"",
        &WAIT_TIMEOUT_MS,
        0,
        600_000,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"chainify.conflict_grace",
        c"How long a session may hold a lock that a block needs, before its statement or connection is ended.",
        c"-1: for ever; the block waits.",
        &CONFLICT_GRACE_MS,
        -1,
        600_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"chainify.checkpoint_interval",
        c"Blocks from one checkpoint to the next.",
        c"0: none but those at changes of what is on the ledger.",
        &CHECKPOINT_INTERVAL,
        0,
        1_000_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.checkpoints_kept",
        c"How many of the newest checkpoints can be restored; history before them is folded into their base.",
        c"",
        &CHECKPOINTS_KEPT,
        1,
        1_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"chainify.keep_initial_rows",
        c"Keeps the rows with which tables are attached.",
        c"Off: saves a copy of them; blocks cannot be executed from the first one again to recover.",
        &KEEP_INITIAL_ROWS,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.scrub_rate",
        c"Rows per second that the scrubber reads.",
        c"0: it does not run; only rows that blocks touch are then looked at.",
        &SCRUB_RATE,
        0,
        1_000_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.scrub_interval",
        c"How long a ledger table is left alone after it was scrubbed.",
        c"",
        &SCRUB_INTERVAL_S,
        1,
        10_000_000,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    define_of_retries();
    define_of_parts();
    define_of_analytics();
}

fn define_of_analytics() {
    GucRegistry::define_enum_guc(
        c"chainify.analytics",
        c"Which SELECTs over mirrored tables the analytics worker answers.",
        c"off: none. on: those that it can. auto: those of them that cost more than chainify.analytics_cost.",
        &ANALYTICS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_float_guc(
        c"chainify.analytics_cost",
        c"The planner's cost above which chainify.analytics = auto asks the worker.",
        c"",
        &ANALYTICS_COST,
        0.0,
        1e300,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"chainify.analytics_socket",
        c"Directory of the Unix socket of the analytics worker.",
        c"Empty: no worker.",
        &ANALYTICS_SOCKET,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.analytics_port",
        c"Number in the name of the worker's socket, .s.PGSQL.<number>.",
        c"",
        &ANALYTICS_PORT,
        1,
        65_535,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.analytics_timeout",
        c"How long a session waits for the whole answer of the analytics worker.",
        c"0: until it is cancelled.",
        &ANALYTICS_TIMEOUT_MS,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
}

fn define_of_retries() {
    GucRegistry::define_int_guc(
        c"chainify.statement_retries",
        c"How often a statement of plain SQL outside of a transaction block runs again after a conflict.",
        c"0: its client gets the conflict. All runs together end at chainify.wait_timeout.",
        &STATEMENT_RETRIES,
        0,
        10_000,
        GucContext::Userset,
        GucFlags::default(),
    );
}

/// Those of execution in parts.
fn define_of_parts() {
    GucRegistry::define_int_guc(
        c"chainify.executor_workers",
        c"Processes that execute a block, the session that was asked included.",
        c"Results are the same with any number.",
        &EXECUTOR_WORKERS,
        1,
        WORKERS_MAX as i32 + 1,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"chainify.block_memory",
        c"Memory that one process may take to execute a block, beside maintenance_work_mem.",
        c"0: no bound. A transaction that needs more is voted stuck.",
        &BLOCK_MEMORY_MB,
        0,
        1 << 30,
        GucContext::Suset,
        GucFlags::UNIT_MB,
    );
    test_switches::define();
}

/// Memory of a process that executes a block, in bytes; None: without a bound.
pub(crate) fn block_memory() -> Option<usize> {
    let megabytes = usize::try_from(BLOCK_MEMORY_MB.get()).unwrap_or(0);
    Some(megabytes << 20).filter(|bytes| *bytes > 0)
}

/// Path of the node's socket; empty when not configured.
pub fn node_socket() -> String {
    NODE_SOCKET
        .get()
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Which SELECTs the analytics worker answers.
pub fn analytics() -> Analytics {
    ANALYTICS.get()
}

/// The planner's cost above which `auto` asks the worker.
pub fn analytics_cost() -> f64 {
    ANALYTICS_COST.get()
}

/// Directory of the analytics worker's socket; empty when not configured.
pub fn analytics_socket() -> String {
    ANALYTICS_SOCKET
        .get()
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Number in the name of the analytics worker's socket.
pub fn analytics_port() -> i32 {
    ANALYTICS_PORT.get()
}

/// How long to wait for an answer of the analytics worker; `None`: for ever.
pub fn analytics_timeout() -> Option<Duration> {
    let ms = u64::try_from(ANALYTICS_TIMEOUT_MS.get()).unwrap_or(0);
    Some(Duration::from_millis(ms)).filter(|time| !time.is_zero())
}

/// PostgreSQL's own statement_timeout, in milliseconds; 0: none.
pub fn statement_timeout_ms() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pgrx::pg_sys::StatementTimeout }
}

/// The way of the session's own changes of ledger tables.
pub fn writes() -> Writes {
    WRITES.get()
}

/// The way of the session's local changes beside those of ledger tables.
pub fn local_writes() -> LocalWrites {
    LOCAL_WRITES.get()
}

/// Whether writes and DDL outside a block are refused.
pub fn guard() -> bool {
    GUARD.get()
}

/// Whether this session does not want to read what may not be as agreed.
pub fn refuse_stale_reads() -> bool {
    REFUSE_STALE_READS.get()
}

/// Whether statements that differ in literals alone share a plan.
pub fn share_plans() -> bool {
    SHARE_PLANS.get()
}

/// Whether the executor's states are kept while a block runs.
pub(crate) fn keep_states() -> bool {
    KEEP_STATES.get()
}

/// Successes in a row for each further transaction of a group, 0 to 10,000; None: no groups.
pub fn group_after() -> Option<usize> {
    usize::try_from(GROUP_AFTER.get()).ok()
}

/// Milliseconds, 0 to 600,000.
pub fn wait_timeout_ms() -> i32 {
    WAIT_TIMEOUT_MS.get()
}

/// How often a lone statement runs again after a conflict, 0 to 10,000.
pub(crate) fn statement_retries() -> u32 {
    STATEMENT_RETRIES.get().unsigned_abs()
}

/// How long a session may hold a lock that a block needs; `None`: for ever.
pub fn conflict_grace() -> Option<Duration> {
    u64::try_from(CONFLICT_GRACE_MS.get())
        .ok()
        .map(Duration::from_millis)
}

/// Blocks from one checkpoint to the next; `None`: no regular ones.
pub fn checkpoint_interval() -> Option<i64> {
    Some(i64::from(CHECKPOINT_INTERVAL.get())).filter(|blocks| *blocks > 0)
}

/// At least 1.
pub fn checkpoints_kept() -> i64 {
    i64::from(CHECKPOINTS_KEPT.get())
}

/// Processes that execute a block, the leader included; at least 1.
pub fn executor_workers() -> usize {
    EXECUTOR_WORKERS.get().max(1) as usize
}

/// How tests want blocks divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DebugParts {
    /// By what transactions access, whether it pays or not.
    Access,
    /// The same, in the keys that served an earlier block, as without a test.
    KeptKeys,
    /// Into so many parts by position, at least 1.
    Position(u32),
}

/// `None`: no test.
pub fn debug_parts() -> Option<DebugParts> {
    match test_switches::debug_parts() {
        0 => None,
        -1 => Some(DebugParts::Access),
        -2 => Some(DebugParts::KeptKeys),
        parts => Some(DebugParts::Position(parts as u32)),
    }
}

/// Whether EFFECTS transactions of a block take turns by the rules of the order; else they are
/// applied in the order of the block.
pub use test_switches::turns;

/// Where to crash.
pub(crate) use test_switches::crash_point;

/// Whether the callback of PostgreSQL of this name panics.
pub(crate) use test_switches::panics;

/// The switches of tests. The library that is shipped is built without it.
#[cfg(feature = "test-switches")]
mod test_switches {
    use std::ffi::CString;

    use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

    static DEBUG_PARTS: GucSetting<i32> = GucSetting::<i32>::new(0);
    static CRASH_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
    static TURNS: GucSetting<bool> = GucSetting::<bool>::new(true);
    static PANIC_IN: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

    pub fn define() {
        GucRegistry::define_int_guc(
            c"chainify.debug_parts",
            c"For tests: divides a block into so many parts by position, whatever its transactions access.",
            c"0: by what they access, when it pays; -1: by what they access; -2: the same in the keys that an earlier block was divided by.",
            &DEBUG_PARTS,
            -2,
            super::WORKERS_MAX as i32 + 1,
            GucContext::Suset,
            GucFlags::NO_SHOW_ALL,
        );
        GucRegistry::define_string_guc(
            c"chainify.crash_point",
            c"For tests: where to crash the server while a block is executed or committed.",
            c"",
            &CRASH_POINT,
            GucContext::Suset,
            GucFlags::NO_SHOW_ALL,
        );
        GucRegistry::define_string_guc(
            c"chainify.panic_in",
            c"For tests: the callback of PostgreSQL that panics, as the server's log names it.",
            c"",
            &PANIC_IN,
            GucContext::Suset,
            GucFlags::NO_SHOW_ALL,
        );
        GucRegistry::define_bool_guc(
            c"chainify.debug_turns",
            c"For measurements: EFFECTS transactions of a block take turns by the rules of their order.",
            c"off: they are applied in the order of the block. All organisations need the same value.",
            &TURNS,
            GucContext::Suset,
            GucFlags::NO_SHOW_ALL,
        );
    }

    pub fn turns() -> bool {
        TURNS.get()
    }

    pub fn debug_parts() -> i32 {
        DEBUG_PARTS.get()
    }

    pub(crate) fn crash_point() -> Option<String> {
        let point = CRASH_POINT.get()?.to_string_lossy().into_owned();
        (!point.is_empty()).then_some(point)
    }

    pub(crate) fn panics(callback: &str) -> bool {
        PANIC_IN
            .get()
            .is_some_and(|wanted| wanted.as_bytes() == callback.as_bytes())
    }
}

/// Nothing is switched.
#[cfg(not(feature = "test-switches"))]
mod test_switches {
    pub fn define() {}

    pub fn debug_parts() -> i32 {
        0
    }

    pub fn turns() -> bool {
        true
    }

    pub(crate) fn crash_point() -> Option<String> {
        None
    }

    pub(crate) fn panics(_: &str) -> bool {
        false
    }
}

/// Rows per second; `None`: the scrubber does not run.
pub fn scrub_rate() -> Option<i64> {
    Some(i64::from(SCRUB_RATE.get())).filter(|rate| *rate > 0)
}

/// From one look at a table to the next.
pub fn scrub_interval() -> Duration {
    Duration::from_secs(u64::try_from(SCRUB_INTERVAL_S.get()).unwrap_or(1))
}
