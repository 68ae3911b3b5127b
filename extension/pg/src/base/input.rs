//! Converts values of spec/formats.md back to values of PostgreSQL's types.
use chainify_codec::Value;
use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::cell::Cell;
use crate::base::error::{catch_c, PgError};

/// The type under all domains of a type.
pub fn base_type(oid: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up; it raises for a type that is not there.
    unsafe { pg_sys::getBaseType(oid) }
}

/// NULL of this type.
pub fn null(oid: pg_sys::Oid) -> Cell {
    Cell::of_type(None, oid)
}

/// The value as one of type `oid`, in the memory of the caller. The type must not be a domain: a
/// domain's conditions are left to the statement that stores the value. Err: the type does not take
/// it, by the SQLSTATE of its input function. Must run under the settings of a block, and in a
/// subtransaction that is undone after an Err.
pub fn input(value: &Value, oid: pg_sys::Oid) -> Result<Cell, PgError> {
    let datum = match (value, oid) {
        (Value::Bool(v), pg_sys::BOOLOID) => pg_sys::Datum::from(*v),
        (Value::Int(v), pg_sys::INT8OID) => pg_sys::Datum::from(*v),
        (Value::Int(v), pg_sys::INT4OID) if i32::try_from(*v).is_ok() => {
            pg_sys::Datum::from(*v as i32)
        }
        _ => by_text(&value.to_text(), oid)?,
    };
    Ok(Cell::of_type(Some(datum), oid))
}

fn by_text(text: &str, oid: pg_sys::Oid) -> Result<pg_sys::Datum, PgError> {
    let text = c_string(text)?;
    // SAFETY: the input function and its argument are those of the type. It reads the text and
    // leaves it.
    unsafe {
        catch_c(|| {
            let (mut function, mut argument) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            pg_sys::getTypeInputInfo(oid, &mut function, &mut argument);
            pg_sys::OidInputFunctionCall(function, text.as_ptr().cast_mut(), argument, -1)
        })
    }
}
