//! The expressions and the condition of an index as the catalog has them.
//!
//! PostgreSQL's own look-ups of them compute what they can, and so call a user's functions as the
//! current role (invariant X11).
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise};

/// The expressions of an index, a list; null: it has none.
///
/// # Safety
/// `index` must be the number of an index that is open.
pub(crate) unsafe fn expressions(index: pg_sys::Oid) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { stored(index, pg_sys::Anum_pg_index_indexprs as i16) }
}

/// The condition of a partial index; null: it has all rows.
///
/// # Safety
/// `index` must be the number of an index that is open.
pub(crate) unsafe fn condition(index: pg_sys::Oid) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { stored(index, pg_sys::Anum_pg_index_indpred as i16) }
}

unsafe fn stored(index: pg_sys::Oid, column: i16) -> *mut pg_sys::Node {
    let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
    // SAFETY: an open index has its row, which is released after the copy of the text; both columns
    // are texts of trees.
    let read = || unsafe {
        let row = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(index));
        if row.is_null() {
            return null_mut();
        }
        let mut null = false;
        let text = pg_sys::SysCacheGetAttr(cache, row, column, &mut null);
        let node = match null {
            true => null_mut(),
            false => pg_sys::stringToNode(pg_sys::text_to_cstring(text.cast_mut_ptr())),
        };
        pg_sys::ReleaseSysCache(row);
        node.cast()
    };
    // SAFETY: it calls functions of PostgreSQL alone, and owns nothing.
    unsafe { catch_c(read) }.or_raise()
}
