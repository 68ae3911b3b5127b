//! The values behind a `VARIADIC "any"` argument, as text.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::base::function::Call;
use crate::base::value_settings::values_pinned;

/// One value as its type's output function writes it, whatever the session's settings. The
/// search_path is pinned by the SET clauses of the SQL functions that take such arguments.
pub struct TextValue {
    /// As `format_type` spells it, schema-qualified where not built in; empty for an untyped
    /// literal.
    pub type_name: String,
    /// `None` is NULL.
    pub text: Option<String>,
    /// A type that no other session could read the text as: a row of unnamed type, for one.
    pub pseudo_type: bool,
}

/// The arguments from `first` (from 0) on, those of a `VARIADIC` array one by one; none when there
/// are none.
pub fn variadic_from(call: &Call, first: usize) -> Vec<TextValue> {
    let call = call.fcinfo();
    let (mut values, mut types, mut nulls) = (
        std::ptr::null_mut(),
        std::ptr::null_mut(),
        std::ptr::null_mut(),
    );
    // SAFETY: call information of the running call; three out pointers that are set to palloc'd
    // arrays of as many elements as the count returned, which is -1 for a NULL array. Each value
    // has the type beside it.
    unsafe {
        if ((*call).nargs as usize) <= first {
            return Vec::new();
        }
        let count = pg_sys::extract_variadic_args(
            call,
            first as i32,
            false,
            &mut values,
            &mut types,
            &mut nulls,
        );
        (0..usize::try_from(count).unwrap_or(0))
            .map(|i| text_value(*values.add(i), *types.add(i), *nulls.add(i)))
            .collect()
    }
}

/// # Safety
/// `value` is of the type `type_oid` unless `null`.
pub(crate) unsafe fn text_value(
    value: pg_sys::Datum,
    type_oid: pg_sys::Oid,
    null: bool,
) -> TextValue {
    if type_oid == pg_sys::UNKNOWNOID {
        // SAFETY: an unknown literal is a C string.
        let text = (!null).then(|| unsafe { owned(value.cast_mut_ptr()) });
        return TextValue {
            type_name: String::new(),
            text,
            pseudo_type: false,
        };
    }
    // SAFETY: both look the type up in the catalog and raise when there is none; the value is of
    // that type.
    unsafe {
        let pseudo_type = pg_sys::get_typtype(type_oid) as u8 == pg_sys::TYPTYPE_PSEUDO;
        let qualify = if type_oid.to_u32() >= pg_sys::FirstNormalObjectId {
            pg_sys::FORMAT_TYPE_FORCE_QUALIFY
        } else {
            0
        };
        let type_name = owned(pg_sys::format_type_extended(type_oid, -1, qualify as u16));
        let text = || {
            let (mut output, mut varlena) = (pg_sys::InvalidOid, false);
            pg_sys::getTypeOutputInfo(type_oid, &mut output, &mut varlena);
            owned(pg_sys::OidOutputFunctionCall(output, value))
        };
        let text = (!null).then(|| values_pinned(text));
        TextValue {
            type_name,
            text,
            pseudo_type,
        }
    }
}

/// # Safety
/// `text` is a NUL-terminated string.
unsafe fn owned(text: *const std::ffi::c_char) -> String {
    // SAFETY: per contract.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
