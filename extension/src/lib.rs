//! The extension `chainify`: what turns a PostgreSQL database into one organisation's copy of the ledger.
//!
//! `api` holds the SQL functions and hooks in safe Rust; `pg` holds every `unsafe` block, one file per PostgreSQL primitive.
//! The SQL objects are in `extension/sql`, concatenated in name order into the install script.
#![deny(unsafe_op_in_unsafe_fn)]

mod api;
mod pg;

pgrx::pg_module_magic!();

/// Called once by the postmaster, because the settings, hooks and callbacks must exist in every session.
#[allow(non_snake_case)]
#[no_mangle]
pub extern "C-unwind" fn _PG_init() {
    pg::startup::init(|| {
        pg::settings::define();
        api::guard::install();
        api::conflict::install();
        api::commit::install();
        api::verifying::install();
        pg::pool::register(api::executor::serve);
        api::maintenance::install();
    });
}
