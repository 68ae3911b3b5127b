//! The triggers on ledger tables. They record the changes of a block, and refuse all other changes.
use std::cell::RefCell;
use std::rc::Rc;

use crate::guard::{plain_sql, writes};
use crate::ledger::tables;
use crate::ledger::tables::Leaf;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::relation::{Lock, Relation, Scratch};
use crate::pg::base::trigger::{Event, TriggerCall};
use crate::pg::tree::parse::not_allowed;
use crate::transaction::effects;
use crate::transaction::recorded::{Effects, Record};

crate::pg::trigger_function!(chainify_digest, pg_finfo_chainify_digest, digest);

thread_local! {
    static SCRATCH: RefCell<(Scratch, Scratch)> = RefCell::default();
}

/// The one transaction that a session's record of its own changes is of.
const OWN: u32 = 0;

/// AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW, and BEFORE TRUNCATE FOR EACH STATEMENT on every
/// relation with rows.
fn digest(call: &TriggerCall) {
    match phase() {
        Phase::Internal => (),
        Phase::Outside => writes::refuse_write(call.relation()),
        Phase::Deploy => not_allowed("changing rows while definitions change").raise(),
        Phase::Plain => record(call, OWN, plain_sql::record),
        Phase::Client { tx } | Phase::Own { tx } => {
            record(call, tx, |change: &mut dyn FnMut(&mut Effects)| {
                effects::record(|e| change(e))
            })
        }
    }
}

/// Passes the change to `to`, which keeps it.
fn record<R: Record>(call: &TriggerCall, tx: u32, to: impl Fn(&mut dyn FnMut(&mut R))) {
    // A table detached earlier in this block still has its triggers until that transaction ends.
    let Some(leaf) = tables::leaf(call.relation()) else {
        return;
    };
    let leaf: &Rc<Leaf> = &leaf;
    if call.event() == Event::Truncate {
        Relation::open(leaf.relation, Lock::AccessShare)
            .scan(|row| to(&mut |e| e.deleted(leaf, tx, row)));
        return;
    }
    SCRATCH.with_borrow_mut(|(old, new)| match call.event() {
        Event::Insert => {
            let row = call.row(new);
            to(&mut |e| e.inserted(leaf, tx, &row));
        }
        Event::Delete => {
            let row = call.row(old);
            to(&mut |e| e.deleted(leaf, tx, &row));
        }
        _ => {
            let (before, after) = (call.row(old), call.new_row(new));
            to(&mut |e| e.updated(leaf, tx, &before, &after));
        }
    });
}
