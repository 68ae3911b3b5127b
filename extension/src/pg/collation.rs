//! What a collation's order depends on.
use std::ffi::CStr;

use pgrx::pg_sys;

const DEFAULT: u32 = 100;
const C: u32 = 950;
const POSIX: u32 = 951;
/// transam.h: collations from here on were made by users, whatever they are called.
const OF_USERS: u32 = 16_384;

/// Name of the collation when its order depends on the machine's libraries; None for byte order, and for none at all.
pub(super) fn local(collation: pg_sys::Oid) -> Option<String> {
    let name = match collation.to_u32() {
        0 | C | POSIX => return None,
        DEFAULT => super::major::default_collation(),
        _ => name_of(collation),
    };
    let by_bytes = ["C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic"];
    let trusted = collation.to_u32() < OF_USERS && by_bytes.contains(&name.as_str());
    (!trusted).then_some(name)
}

/// Name of the collation when it takes different texts as equal.
pub(super) fn nondeterministic(collation: pg_sys::Oid) -> Option<String> {
    // SAFETY: a catalog look-up of a collation that a query names.
    let differs = collation != pg_sys::InvalidOid
        && !unsafe { pg_sys::get_collation_isdeterministic(collation) };
    differs.then(|| name_of(collation))
}

fn name_of(collation: pg_sys::Oid) -> String {
    // SAFETY: null or a fresh C string.
    unsafe {
        let name = pg_sys::get_collation_name(collation);
        if name.is_null() {
            return collation.to_u32().to_string();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}
