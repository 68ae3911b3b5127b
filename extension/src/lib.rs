//! The extension `chainify`: what turns a PostgreSQL database into one organisation's copy of the ledger.
//!
//! `api` holds the SQL functions and hooks in safe Rust; `pg` holds every `unsafe` block, one file per PostgreSQL primitive.
//! The SQL objects are in `extension/sql`, concatenated in name order into the install script.
#![deny(unsafe_op_in_unsafe_fn)]

mod block;
mod entry;
mod guard;
mod leader;
mod ledger;
mod parallel;
mod pg;
mod recovery;
mod rules;
mod transaction;
mod verify;

pgrx::pg_module_magic!();

/// Called once by the postmaster, because the settings, hooks and callbacks must exist in every session.
#[allow(non_snake_case)]
#[no_mangle]
pub extern "C-unwind" fn _PG_init() {
    pg::base::startup::init(|| {
        pg::base::settings::define();
        guard::writes::install();
        block::lock_conflicts::install();
        leader::commit::install();
        verify::progress::install();
        pg::shared::pool::register(parallel::executor::serve);
        recovery::maintenance::install();
    });
}
