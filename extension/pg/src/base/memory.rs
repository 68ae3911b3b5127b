//! Memory contexts: one reset frees everything that PostgreSQL allocated inside the context.
use std::ffi::CStr;

use pgrx::pg_sys;

/// PostgreSQL's function without pgrx's boundary: it raises nothing.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn MemoryContextReset(context: pg_sys::MemoryContext);
    }
}

/// A context of our own below the current one; deleted with it, or when dropped.
pub struct Context(pg_sys::MemoryContext);

impl Context {
    pub fn child(name: &'static CStr) -> Self {
        // SAFETY: the name is static, as the context's header wants.
        Context(unsafe {
            pg_sys::AllocSetContextCreateExtended(
                pg_sys::CurrentMemoryContext,
                name.as_ptr(),
                0,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        })
    }

    /// Runs `f` with this context current. When `f` raises, abort processing switches contexts.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        // SAFETY: self owns a live context; the old one outlives this frame.
        unsafe {
            let old = pg_sys::MemoryContextSwitchTo(self.0);
            let result = f();
            pg_sys::MemoryContextSwitchTo(old);
            result
        }
    }

    pub fn reset(&self) {
        // SAFETY: nothing allocated inside outlives an `enter`, by the rule of this module.
        unsafe { raw::MemoryContextReset(self.0) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // deleted with its parent at abort
        }
        // SAFETY: created by `child` and not deleted since.
        unsafe { pg_sys::MemoryContextDelete(self.0) }
    }
}
