//! Lists of nodes.
use std::ptr::NonNull;

use pgrx::pg_sys;

/// # Safety
/// `list` must be null or a list of nodes.
pub(crate) unsafe fn nodes(list: *mut pg_sys::List) -> impl Iterator<Item = NonNull<pg_sys::Node>> {
    // SAFETY: a list has `length` elements.
    let elements = NonNull::new(list).map_or(&[][..], |l| unsafe {
        std::slice::from_raw_parts(l.as_ref().elements, l.as_ref().length as usize)
    });
    // SAFETY: elements of a node list are pointers.
    elements
        .iter()
        .filter_map(|cell| NonNull::new(unsafe { cell.ptr_value }.cast()))
}

/// Elements of a list of pointers.
///
/// # Safety
/// `list` must be null or a list of nodes, alive as long as the result.
pub(crate) unsafe fn elements<T>(list: *mut pg_sys::List) -> Vec<NonNull<T>> {
    // SAFETY: a list has `length` elements, pointers in a list of nodes.
    unsafe {
        let Some(list) = list.as_ref() else {
            return Vec::new();
        };
        (0..list.length as usize)
            .filter_map(|i| NonNull::new((*list.elements.add(i)).ptr_value.cast()))
            .collect()
    }
}
