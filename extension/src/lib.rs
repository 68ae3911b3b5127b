//! The extension `chainify`. It turns a PostgreSQL database into one organisation's copy of the
//! ledger.
//!
//! The files stand in rooms. A room imports only rooms below it, and no files import each other in
//! a circle (ARCHITECTURE.md, "Rooms"; scripts/check-rooms):
//!
//! * `pg`: PostgreSQL's primitives, a crate of its own with every `unsafe` block;
//! * `ledger`: what is on the ledger and how it is stored;
//! * `rules`: what a transaction may say;
//! * `running`: the block that runs, and the capture of its changes;
//! * `agreement`: whose agreement a transaction takes; `sequences`: the values that it draws;
//!   `session`: the changes of an ordinary session;
//! * `sql`, `definitions`, `certification`, `planned`: the kinds of transactions;
//! * `transaction`: one transaction, of whatever kind;
//! * `block`: one block, from request to seal;
//! * `parallel`: a block in parts; `verify`: compares this database with the agreed state;
//! * `leader`: the steps of a block up to its commit;
//! * `recovery`: how a database that deviates comes back; `guard`: what is refused outside of a
//!   block;
//! * `submission`: the transactions that an ordinary session has ordered; `analytics`: queries at a
//!   block, which a worker answers;
//! * `entry`: SQL functions.
//!
//! The SQL objects are in `extension/sql`, concatenated in name order into the install script.
#![forbid(unsafe_code)]

mod agreement;
mod analytics;
mod block;
mod certification;
mod definitions;
mod entry;
mod guard;
mod leader;
mod ledger;
mod parallel;
mod planned;
mod recovery;
mod rules;
mod running;
mod sequences;
mod session;
mod sql;
mod submission;
mod transaction;
mod verify;

use chainify_pg as pg;

pgrx::pg_module_magic!();

pg::at_load!(init);

/// Called once by the postmaster, because the settings, hooks and callbacks must exist in every
/// session.
fn init() {
    pg::base::settings::define();
    pg::hooks::install(&ABOVE);
}

/// The answers of the rooms for PostgreSQL's hooks (`pg/src/hooks.rs`).
static ABOVE: pg::hooks::Above = pg::hooks::Above {
    statements: guard::writes::STATEMENTS,
    queries: rules::determinism::QUERIES,
    agreed: rules::determinism::AGREED,
    reads: session::reads::READS,
    plain_sql: submission::plain_sql::PLAIN_SQL,
    analytics: analytics::planned::ANALYTICS,
    ends: &[
        &running::effects::ENDS,
        &sequences::ENDS,
        &session::plain_sql::ENDS,
    ],
    commit: leader::commit::COMMIT,
    explain: submission::plain_sql::explain,
    workers: pg::hooks::Workers {
        part: parallel::executor::serve,
        conflicts: block::lock_conflicts::watch,
        maintenance: recovery::maintenance::run,
    },
};
