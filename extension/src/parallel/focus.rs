//! Keeps the keys chosen for the statements of one block for the next blocks (spec/scheduling.md,
//! Focus).
//!
//! Whether a key fits depends on the statements alone (S7). A key that fits them fits each subset
//! of them. Which of several keys is the best follows from the values. Choosing takes as long as
//! filling in the access sets of the block.
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use chainify_sched::Focus;

use crate::pg::run::statement::Prepared;

/// How often a choice is used: what the clients do may change.
const USES_MAX: u32 = 128;
/// Statements of a block whose choice is remembered.
const STATEMENTS_MAX: usize = 256;

struct Chosen {
    focus: Rc<Focus>,
    /// By address, which nothing else has as long as they are here.
    statements: HashMap<*const Prepared, Weak<Prepared>>,
    /// From how many executions.
    sample: usize,
    left: u32,
}

impl Chosen {
    fn serves(&self, statements: &[Rc<Prepared>], sample: usize) -> bool {
        let known = |statement| self.statements.contains_key(&Rc::as_ptr(statement));
        self.left > 0 && self.sample >= sample && statements.iter().all(known)
    }
}

thread_local! {
    static LAST: RefCell<Option<Chosen>> = const { RefCell::new(None) };
}

/// The last choice, if it covered these `statements` and came from as large a `sample`; otherwise
/// the one of `choose`.
pub fn chosen_for(
    statements: &[Rc<Prepared>],
    sample: usize,
    choose: impl FnOnce() -> Focus,
) -> Rc<Focus> {
    let last = LAST.with_borrow_mut(|last| {
        let last = last.as_mut()?;
        last.serves(statements, sample).then(|| {
            last.left -= 1;
            last.focus.clone()
        })
    });
    last.unwrap_or_else(|| {
        let focus = Rc::new(choose());
        if statements.len() <= STATEMENTS_MAX {
            let held = statements.iter().map(|s| (Rc::as_ptr(s), Rc::downgrade(s)));
            LAST.set(Some(Chosen {
                focus: focus.clone(),
                statements: held.collect(),
                sample,
                left: USES_MAX,
            }));
        }
        focus
    })
}
