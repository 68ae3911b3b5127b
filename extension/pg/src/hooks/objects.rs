//! A change of a database object in the words of the rooms above.
use std::ffi::{c_int, c_void};

use pgrx::pg_sys;

/// The change of a database object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Create,
    Alter,
    Drop,
    Truncate,
}

/// A DDL event.
#[derive(Clone, Copy, Debug)]
pub struct Ddl {
    pub change: Change,
    /// Catalog of the object, and its oid.
    pub class: pg_sys::Oid,
    pub object: pg_sys::Oid,
    /// The number of a relation's column; 0 for an object as a whole.
    pub column: i32,
    /// Of a change of inheritance: the parent.
    pub auxiliary: pg_sys::Oid,
    /// A by-product of another command (a rewritten table, an index of a constraint).
    pub internal: bool,
}

impl Ddl {
    /// None: the access changes no object.
    ///
    /// # Safety
    /// The arguments must be those of `object_access_hook`.
    pub(super) unsafe fn of(
        access: pg_sys::ObjectAccessType::Type,
        class: pg_sys::Oid,
        object: pg_sys::Oid,
        column: c_int,
        arg: *mut c_void,
    ) -> Option<Ddl> {
        use pg_sys::ObjectAccessType::*;
        let (mut auxiliary, mut internal) = (pg_sys::InvalidOid, false);
        // SAFETY: `arg` is null or what objectaccess.h says for this kind of access.
        let change = unsafe {
            match access {
                OAT_POST_CREATE => {
                    let of = arg.cast::<pg_sys::ObjectAccessPostCreate>().as_ref();
                    internal = of.is_some_and(|a| a.is_internal);
                    Change::Create
                }
                OAT_POST_ALTER => {
                    if let Some(a) = arg.cast::<pg_sys::ObjectAccessPostAlter>().as_ref() {
                        (auxiliary, internal) = (a.auxiliary_id, a.is_internal);
                    }
                    Change::Alter
                }
                OAT_DROP => {
                    let of = arg.cast::<pg_sys::ObjectAccessDrop>().as_ref();
                    let flags = of.map_or(0, |a| a.dropflags);
                    internal = flags & pg_sys::PERFORM_DELETION_INTERNAL as i32 != 0;
                    Change::Drop
                }
                OAT_TRUNCATE => Change::Truncate,
                _ => return None,
            }
        };
        Some(Ddl {
            change,
            class,
            object,
            column,
            auxiliary,
            internal,
        })
    }
}
