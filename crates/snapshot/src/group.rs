//! Bytes of a snapshot, with their owner.

use std::ops::{Deref, Range};
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;

use crate::sync::Arc;

/// Keeps bytes where they are and as they are.
trait Owner: AsRef<[u8]> + Send + Sync + RefUnwindSafe {}
impl<T: AsRef<[u8]> + Send + Sync + RefUnwindSafe> Owner for T {}

/// The cells of one group of a snapshot, or a buffer of values. They stay where they are and as
/// they are while the `Group` or a clone of it lives, also after the snapshot has gone (V1).
///
/// Arrow makes a buffer of it without copying: `Buffer::from(bytes::Bytes::from_owner(group))`, or
/// `Buffer::from_custom_allocation` with [`start`](Self::start) and the group as owner. Groups
/// begin at a multiple of 64. A clone costs one atomic addition.
#[derive(Clone)]
pub struct Group {
    owner: Arc<dyn Owner>,
    range: Range<usize>,
}

impl Group {
    /// The part `range` of what an owner has.
    pub(crate) fn new<T: AsRef<[u8]> + Send + Sync + RefUnwindSafe + 'static>(
        owner: Arc<T>,
        range: Range<usize>,
    ) -> Self {
        Group { owner, range }
    }

    /// All of what an owner has.
    pub(crate) fn whole<T: AsRef<[u8]> + Send + Sync + RefUnwindSafe + 'static>(owner: Arc<T>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Group { owner, range }
    }

    /// Where the bytes begin.
    pub fn start(&self) -> NonNull<u8> {
        NonNull::from(&**self).cast()
    }
}

impl Deref for Group {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Group {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
