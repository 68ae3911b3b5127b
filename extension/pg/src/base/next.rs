//! The hook that another library had installed before ours, which ours calls.
use std::sync::OnceLock;

/// A hook's successor, which ours calls. It is the same in all sessions of a server, so that it
/// lies in a static: hooks are called for each statement, and a variable of a thread costs a call.
pub(crate) struct Next<H>(OnceLock<H>);

impl<F: Copy> Next<Option<F>> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Next(OnceLock::new())
    }

    /// Puts `ours` into `place`, in front of what is there.
    ///
    /// # Safety
    /// Only while the postmaster loads libraries, before any backend exists. `place` must be a hook
    /// of PostgreSQL's.
    pub(crate) unsafe fn install(&self, place: *mut Option<F>, ours: F) {
        // SAFETY: by the caller's promise nobody else reads or writes it.
        let before = unsafe { place.replace(Some(ours)) };
        if self.0.set(before).is_err() {
            panic!("a hook is installed twice");
        }
    }

    /// The one to call; None: PostgreSQL's own function, where there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        self.0.get().copied().flatten()
    }
}
