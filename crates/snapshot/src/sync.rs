//! The primitives that threads share. The test `model` puts those of loom in their place.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

use std::sync::PoisonError;

/// The lock, also after a panic in another thread: no state here is broken in the middle of a lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value itself when nobody shares it, otherwise a copy of it in its place.
pub(crate) fn owned<T: Clone>(shared: &mut Arc<T>) -> &mut T {
    Arc::make_mut(shared)
}
