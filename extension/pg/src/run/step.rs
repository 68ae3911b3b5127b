//! The steps from a SQL function of the node to a client's statement, and what each one sets.
//!
//! One place says as whom a line of a block runs, with which rights, under which settings and at
//! which time, and whether its changes are recorded. It is the function `sets` below, and the table
//! under "A block's way" in ARCHITECTURE.md. A step leaves all else as it is around it.
//!
//! The phase says what becomes of changes of ledger tables ([`Phase`]). The ledger's own SQL names
//! everything with its schema, under a search_path of its own (invariant X11, `base/spi.rs`).
use std::rc::Rc;

use chainify_sched::declared::Declared;

use crate::base::backend::{within, Phase};
use crate::base::clock::at_time;
use crate::base::error::{attempt, PgError};
use crate::base::memory_limit::bounded;
use crate::base::raised::{watched, Raised, Wanted};
use crate::base::role::Role;
use crate::base::spi::connected;
use crate::base::subtransaction::subtransaction;
use crate::planner::block_settings::{pinned, pinned_impatiently, settings_undone};
use crate::planner::planned_access;
use crate::run::executor_cache::keeping;
use crate::run::plpgsql;

/// A step, with what differs from one time to the next.
pub enum Step {
    /// Work of the ledger that the node asks for.
    Ledger,
    /// The transactions of a part of a block. `impatient`: other parts run beside it, so that it
    /// gives up a lock that is not to be had soon.
    Block { time: i64, impatient: bool },
    /// A transaction that is run to be looked at, and undone.
    Rehearsal { time: i64 },
    /// The statements of a client.
    Client {
        role: Role,
        tx: u32,
        declared: Option<Rc<[Declared]>>,
    },
    /// Changes of rows that a client's session made.
    Changes { role: Role, tx: u32 },
    /// Changes of rows of the ledger's own tables that a client asks for by a command.
    Rows { tx: u32 },
    /// The same, which the ledger makes by itself.
    Own { tx: u32 },
    /// A statement that changes definitions.
    Deploy { role: Role },
    /// A look at what the ledger keeps, in the middle of a client's transaction.
    Look,
}

/// Settings of a step.
enum Settings {
    AsAround,
    /// Those that all organisations share.
    Pinned,
    /// The same, and no long waits for locks.
    Impatient,
}

/// The settings of a step; None: as around it.
struct Sets {
    role: Option<Role>,
    phase: Option<Phase>,
    settings: Settings,
    time: Option<i64>,
    bounds_memory: bool,
    keeps_states: bool,
    connects: bool,
    declared: Option<Rc<[Declared]>>,
}

impl Sets {
    const NOTHING: Sets = Sets {
        role: None,
        phase: None,
        settings: Settings::AsAround,
        time: None,
        bounds_memory: false,
        keeps_states: false,
        connects: false,
        declared: None,
    };
}

impl Step {
    /// The table above.
    #[inline]
    fn sets(self) -> Sets {
        match self {
            Step::Ledger => Sets {
                phase: Some(Phase::Internal),
                connects: true,
                ..Sets::NOTHING
            },
            Step::Block { time, impatient } => Sets {
                settings: match impatient {
                    true => Settings::Impatient,
                    false => Settings::Pinned,
                },
                time: Some(time),
                bounds_memory: true,
                keeps_states: true,
                ..Sets::NOTHING
            },
            Step::Rehearsal { time } => Sets {
                settings: Settings::Pinned,
                time: Some(time),
                bounds_memory: true,
                ..Sets::NOTHING
            },
            Step::Client { role, tx, declared } => Sets {
                role: Some(role),
                phase: Some(Phase::Client { tx }),
                declared,
                ..Sets::NOTHING
            },
            Step::Changes { role, tx } => Sets {
                role: Some(role),
                phase: Some(Phase::Client { tx }),
                connects: true,
                ..Sets::NOTHING
            },
            Step::Rows { tx } => Sets {
                phase: Some(Phase::Client { tx }),
                ..Sets::NOTHING
            },
            Step::Own { tx } => Sets {
                phase: Some(Phase::Own { tx }),
                ..Sets::NOTHING
            },
            Step::Deploy { role } => Sets {
                role: Some(role),
                phase: Some(Phase::Deploy),
                ..Sets::NOTHING
            },
            Step::Look => Sets {
                role: Some(Role::bootstrap()),
                phase: Some(Phase::Internal),
                ..Sets::NOTHING
            },
        }
    }
}

/// Runs `f` in a step; all that it set is as before however `f` ends. When `f` raises, abort
/// processing puts role and settings back, so that a step which sets them needs a transaction or
/// subtransaction around it that is undone then.
#[inline]
pub fn enter<T>(step: Step, f: impl FnOnce() -> T) -> T {
    let sets = step.sets();
    let declared = sets.declared;
    let f = || match declared.is_some() {
        true => planned_access::within(declared, f),
        false => f(),
    };
    let f = || match sets.connects {
        true => connected(f),
        false => f(),
    };
    let f = || match sets.phase {
        Some(phase) => within(phase, f),
        None => f(),
    };
    let f = || match sets.role {
        Some(role) => role.run(f),
        None => f(),
    };
    let f = || match sets.time {
        Some(time) => at_time(time, f),
        None => f(),
    };
    let f = || match sets.keeps_states {
        true => keeping(f),
        false => f(),
    };
    let f = || match sets.bounds_memory {
        true => bounded(f),
        false => f(),
    };
    match sets.settings {
        Settings::AsAround => f(),
        Settings::Pinned => pinned(f),
        Settings::Impatient => pinned_impatiently(f),
    }
}

/// Whose subtransaction is undone when a transaction fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// Its own.
    Alone,
    /// One that it shares with others: the caller undoes it.
    WithOthers,
}

/// Runs `f`, a transaction of a block or an attempt at one. Gives its result, and which of the
/// `wanted` errors were raised in it, caught or not.
pub fn transaction<T>(
    undone: Undone,
    wanted: Wanted,
    f: impl FnOnce() -> Result<T, PgError>,
) -> (Result<T, PgError>, Raised) {
    plpgsql::forget_functions();
    let f = || settings_undone(|| plpgsql::transaction(f));
    watched(wanted, || match undone {
        Undone::Alone => subtransaction(f),
        Undone::WithOthers => attempt(f).and_then(|outcome| outcome),
    })
}
