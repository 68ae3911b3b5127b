//! Settings that a session sets in the part of its transaction that may be undone.
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pgrx::pg_sys;

/// Settings that one part may set; a SET of a further one counts as a change of something else.
const SETTINGS_MAX: usize = 64;

thread_local! {
    /// The names of those whose values outlive the part.
    static SETTINGS: RefCell<BTreeSet<CString>> = const { RefCell::new(BTreeSet::new()) };
}

/// A transaction begins or is over.
pub fn forget() {
    SETTINGS.take();
}

/// Whether the session keeps what a SET in the part sets: it is set again when the part is undone.
///
/// # Safety
/// The name of the setting must be null or a C string.
pub(in crate::pg) unsafe fn keeps(statement: &pg_sys::VariableSetStmt) -> bool {
    use pg_sys::VariableSetKind::*;
    // SAFETY: by the caller's promise.
    let name = unsafe { statement.name.as_ref().map(|name| CStr::from_ptr(name)) };
    match (statement.kind, name) {
        (VAR_SET_VALUE | VAR_SET_DEFAULT | VAR_SET_CURRENT | VAR_RESET, Some(name)) => SETTINGS
            .with_borrow_mut(|names| {
                let kept = names.len() < SETTINGS_MAX;
                if kept {
                    names.insert(name.to_owned());
                }
                kept
            }),
        // SET TRANSACTION ends with it.
        (VAR_SET_MULTI, Some(name)) => name.to_bytes() == b"TRANSACTION",
        _ => false,
    }
}

/// The values of the settings that the session has set in the part.
pub fn values() -> Vec<(CString, CString)> {
    let value = |name: CString| {
        // SAFETY: a C string; the value is one as well, or null for a setting that is gone.
        let value = unsafe {
            let value = pg_sys::GetConfigOptionByName(name.as_ptr(), null_mut(), true);
            value.as_ref().map(|value| CStr::from_ptr(value).to_owned())
        };
        value.map(|value| (name, value))
    };
    SETTINGS.take().into_iter().filter_map(value).collect()
}

/// Sets them again, as the session.
pub fn set_again(settings: Vec<(CString, CString)>) {
    // SAFETY: C strings, which are copied. PostgreSQL checks the right to each setting.
    unsafe {
        let context = match pg_sys::superuser() {
            true => pg_sys::GucContext::PGC_SUSET,
            false => pg_sys::GucContext::PGC_USERSET,
        };
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                context,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SET,
                true,
                0,
                false,
            );
        }
    }
}
