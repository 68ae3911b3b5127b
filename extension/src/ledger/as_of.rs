//! A cache of facts from the ledger, valid until definitions change.
use std::cell::RefCell;
use std::rc::Rc;

use crate::pg::base::catalog;

/// Something read, as of a generation of the catalog ([`catalog::generation`]).
pub struct AsOf<T>(RefCell<Option<(u64, Rc<T>)>>);

impl<T> AsOf<T> {
    pub const fn nothing() -> Self {
        AsOf(RefCell::new(None))
    }

    /// The facts read before, or what `read` gives when definitions have changed since.
    pub fn or(&self, read: impl FnOnce() -> T) -> Rc<T> {
        let generation = catalog::generation();
        let kept = self.0.borrow().clone();
        if let Some((_, kept)) = kept.filter(|(of, _)| *of == generation) {
            return kept;
        }
        let found = Rc::new(read());
        self.0.replace(Some((generation, found.clone())));
        found
    }
}
