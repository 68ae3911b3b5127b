//! Converts values of PostgreSQL's types into values of access sets.
use std::ffi::CStr;

use chainify_sched::value::{Class, Value};
use chainify_sched::KEY_BYTES_MAX;
use pgrx::pg_sys;

/// Elements of an array that are looked at.
const ELEMENTS_MAX: i32 = 4_096;

/// How values of a type compare by the operators of its default B-tree family; None: not looked at.
pub(super) fn class_of(oid: pg_sys::Oid) -> Option<Class> {
    // SAFETY: catalog look-ups.
    let oid = unsafe { pg_sys::getBaseType(oid) };
    Some(match oid {
        pg_sys::BOOLOID => Class::Bool,
        pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID => Class::Integer,
        pg_sys::NUMERICOID => Class::Decimal,
        pg_sys::TEXTOID | pg_sys::VARCHAROID => Class::Text,
        pg_sys::BPCHAROID => Class::Padded,
        pg_sys::BYTEAOID => Class::Bytes,
        pg_sys::UUIDOID => Class::Uuid,
        pg_sys::DATEOID => Class::Date,
        pg_sys::TIMESTAMPOID => Class::Timestamp,
        pg_sys::TIMESTAMPTZOID => Class::Instant,
        // SAFETY: as above.
        _ if unsafe { pg_sys::get_typtype(oid) as u8 } == pg_sys::TYPTYPE_ENUM => Class::Symbol,
        _ => return None,
    })
}

/// Reads a value. Cost: some 10 ns, for a numeric 100.
///
/// # Safety
/// The datum must be of the type.
pub(crate) unsafe fn value_of(datum: Option<pg_sys::Datum>, oid: pg_sys::Oid) -> Value {
    let Some(datum) = datum else {
        return Value::Null;
    };
    // SAFETY: by the caller's promise; the class says which representation the datum has.
    unsafe {
        match class_of(oid) {
            Some(Class::Bool) => Value::Bool(datum.value() as u8 != 0),
            Some(Class::Integer) => Value::Integer(match pg_sys::getBaseType(oid) {
                pg_sys::INT2OID => i64::from(datum.value() as i16),
                pg_sys::INT4OID => i64::from(datum.value() as i32),
                _ => datum.value() as i64,
            }),
            Some(Class::Decimal) => {
                let text = pg_sys::OidOutputFunctionCall(pg_sys::F_NUMERIC_OUT.into(), datum);
                let text = CStr::from_ptr(text).to_string_lossy();
                if text.len() > KEY_BYTES_MAX {
                    return Value::Opaque;
                }
                Value::Decimal(text.into_owned())
            }
            Some(Class::Text | Class::Padded) => bytes(datum).map_or(Value::Opaque, Value::Text),
            Some(Class::Bytes) => bytes(datum).map_or(Value::Opaque, Value::Bytes),
            Some(Class::Uuid) => Value::Uuid(*datum.cast_mut_ptr::<[u8; 16]>()),
            Some(Class::Date) => Value::Date(datum.value() as i32),
            Some(Class::Timestamp) => Value::Timestamp(datum.value() as i64),
            Some(Class::Instant) => Value::Instant(datum.value() as i64),
            Some(Class::Symbol) => Value::Symbol(datum.value() as u32),
            None => array(datum, oid),
        }
    }
}

/// # Safety
/// The datum must be of a variable-length type.
unsafe fn bytes(datum: pg_sys::Datum) -> Option<Vec<u8>> {
    // SAFETY: a detoasted value has a header with its length.
    unsafe {
        let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        let bytes = pgrx::varlena::varlena_to_byte_slice(value);
        (bytes.len() <= KEY_BYTES_MAX).then(|| bytes.to_vec())
    }
}

/// # Safety
/// The datum must be of the type.
unsafe fn array(datum: pg_sys::Datum, oid: pg_sys::Oid) -> Value {
    // SAFETY: an array type has an element type, whose storage the catalog tells.
    unsafe {
        let element = pg_sys::get_element_type(pg_sys::getBaseType(oid));
        if element == pg_sys::InvalidOid || class_of(element).is_none() {
            return Value::Opaque;
        }
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            element,
            length.into(),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        if count > ELEMENTS_MAX {
            return Value::Opaque;
        }
        let element_at = |i| value_of((!*nulls.add(i)).then(|| *values.add(i)), element);
        let elements = (0..count as usize).map(element_at).collect();
        // Behind the header are the lengths of the dimensions, then the numbers of their first
        // elements.
        let first = array.add(1).cast::<i32>().add(1);
        match (*array).ndim {
            0 => Value::Array(elements),
            1 if *first == 1 => Value::Array(elements),
            _ => Value::Elements(elements),
        }
    }
}
