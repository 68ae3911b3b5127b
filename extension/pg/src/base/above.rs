//! Functions of the rooms above, which this crate calls without knowing them.
use std::sync::OnceLock;

/// A table of such functions.
pub(crate) struct Above<T: 'static>(OnceLock<&'static T>);

impl<T> Above<T> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Above(OnceLock::new())
    }

    /// Once, while the library is loaded, before any hook is registered.
    pub(crate) fn set(&self, table: &'static T) {
        if self.0.set(table).is_err() {
            panic!("a table of the rooms above is supplied twice");
        }
    }

    /// Hooks, callbacks and workers ask: the table is there by then.
    #[inline]
    pub(crate) fn get(&self) -> &'static T {
        self.0
            .get()
            .expect("it is set before any hook is registered")
    }
}
