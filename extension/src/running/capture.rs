//! The capture of a changed row: what the triggers on ledger tables read of it.
use std::cell::RefCell;
use std::rc::Rc;

use crate::ledger::tables;
use crate::ledger::tables::Leaf;
use crate::pg::base::relation::{Lock, Relation, Scratch};
use crate::pg::base::trigger::{Event, TriggerCall};
use crate::running::recorded::Record;

thread_local! {
    static SCRATCH: RefCell<(Scratch, Scratch)> = RefCell::default();
}

/// Passes the change that a trigger is called for, in transaction `tx`, to `to`, which keeps it.
pub fn capture<R: Record>(call: &TriggerCall, tx: u32, to: impl Fn(&mut dyn FnMut(&mut R))) {
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
