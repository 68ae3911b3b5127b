//! Values with their types, and which types have the same bytes.
use pgrx::{pg_sys, IntoDatum};

/// A value on its way out, with its type, so that a wrong column is an error and not a wild
/// pointer.
pub struct Cell {
    value: Option<pg_sys::Datum>,
    oid: pg_sys::Oid,
}

impl Cell {
    /// For the primitives of this module: a value that is of this type.
    pub(crate) fn of_type(value: Option<pg_sys::Datum>, oid: pg_sys::Oid) -> Self {
        Cell { value, oid }
    }

    pub(crate) fn oid(&self) -> pg_sys::Oid {
        self.oid
    }

    pub(crate) fn datum(&self) -> Option<pg_sys::Datum> {
        self.value
    }
}

/// Whether a value of type `stored` has the bytes that one of type `wanted` has. Types that show
/// the names of objects have the bytes of the objects' numbers, and a domain has those of the type
/// below it.
pub(crate) fn reads_as(stored: pg_sys::Oid, wanted: pg_sys::Oid) -> bool {
    stored == wanted
        || wanted == pg_sys::OIDOID
            && [pg_sys::REGCLASSOID, pg_sys::REGPROCEDUREOID].contains(&stored)
        // SAFETY: a catalog look-up of the type of a column.
        || stored.to_u32() >= pg_sys::FirstNormalObjectId
            && unsafe { pg_sys::getBaseType(stored) } == wanted
}

/// `None` becomes NULL.
pub fn cell<T: IntoDatum>(value: impl Into<Option<T>>) -> Cell {
    Cell {
        value: value.into().and_then(IntoDatum::into_datum),
        oid: T::type_oid(),
    }
}

extern "C-unwind" {
    /// Whether two values of one type have the same bytes, compressed or not. Both must be there.
    pub(crate) fn datum_image_eq(
        one: pg_sys::Datum,
        other: pg_sys::Datum,
        by_value: bool,
        length: i32,
    ) -> bool;
}
