//! `chainify_ledger.verifying`: the progress of verifications in this database
//! (pg/shared/progress.rs).

use pgrx::pg_sys;

use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::shared::progress;
use crate::pg::shared::progress::Phase;

crate::pg::sql_function!(chainify_verifying, pg_finfo_chainify_verifying, verifying);

fn verifying(call: &mut Call) -> Answer {
    call.rows(|row| {
        for seen in progress::seen() {
            row(&[
                cell(seen.pid),
                cell(pg_sys::Oid::from(seen.relation)),
                cell(name(seen.phase).to_owned()),
                cell(seen.done),
                cell(seen.total),
            ]);
        }
    })
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Blocks => "reading blocks",
        Phase::Definition => "comparing definitions",
        Phase::Hashing => "hashing rows",
        Phase::Rows => "comparing rows",
        Phase::Indexes => "comparing indexes",
    }
}
