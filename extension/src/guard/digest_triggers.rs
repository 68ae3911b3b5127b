//! The triggers on ledger tables: record what a block changes, refuse what anyone else changes.
use std::cell::RefCell;

use crate::guard::writes;
use crate::ledger::session;
use crate::ledger::session::Mode;
use crate::ledger::tables;
use crate::pg::base::relation::{Lock, Relation, Scratch};
use crate::pg::base::trigger::{Event, TriggerCall};
use crate::pg::tree::parse::not_allowed;
use crate::transaction::effects;

crate::trigger_function!(chainify_digest, pg_finfo_chainify_digest, digest);

thread_local! {
    static SCRATCH: RefCell<(Scratch, Scratch)> = RefCell::default();
}

/// AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW, and BEFORE TRUNCATE FOR EACH STATEMENT on every
/// relation with rows.
fn digest(call: &TriggerCall) {
    let tx = match session::mode() {
        Mode::Internal => return,
        Mode::Outside => return writes::refuse_write(call.relation()),
        Mode::Deploy => not_allowed("changing rows while definitions change").raise(),
        Mode::Client { tx } => tx,
    };
    // A table detached earlier in this block still has its triggers until that transaction ends.
    let Some(leaf) = tables::leaf(call.relation()) else {
        return;
    };
    if call.event() == Event::Truncate {
        Relation::open(leaf.relation, Lock::AccessShare)
            .scan(|row| effects::deleted(&leaf, tx, row));
        return;
    }
    SCRATCH.with_borrow_mut(|(old, new)| match call.event() {
        Event::Insert => effects::inserted(&leaf, tx, &call.row(new)),
        Event::Delete => effects::deleted(&leaf, tx, &call.row(old)),
        _ => effects::updated(&leaf, tx, &call.row(old), &call.new_row(new)),
    });
}
