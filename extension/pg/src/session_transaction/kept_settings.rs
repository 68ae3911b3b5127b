//! Settings that a session sets in the part of its transaction that may be undone, by SET or by
//! `set_config`. They outlive the part as those of a savepoint outlive its release.
use std::ffi::{c_int, CStr, CString};
use std::ptr::null;

use pgrx::pg_sys;

use crate::base::backend::{self, BACKEND};
use crate::base::error::attempt_undone;
use crate::base::major;

/// The nesting level that PostgreSQL gives to the settings of a transaction by itself.
pub(crate) const OF_TRANSACTION: c_int = 1;

/// The level that settings of a subtransaction have that begins now.
pub(crate) fn level_of_next() -> c_int {
    // SAFETY: a level is opened and closed again with nothing in it.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        pg_sys::AtEOXact_GUC(true, level);
        level
    }
}

/// Has the transaction around keep what was set at a level, or at one inside of it. The end of that
/// level finds nothing left to undo. At the level of the transaction itself the session keeps it.
///
/// # Safety
/// The level must be open, and its end must be an undo that comes next.
pub(super) unsafe fn keep(level: c_int) {
    // SAFETY: by the caller's promise. guc.c lets an undo find its level closed already.
    unsafe { pg_sys::AtEOXact_GUC(true, level) }
}

/// The settings that a transaction has changed for its session, as they were before: those of a
/// transaction that fails in its COMMIT come back, though `keep` had the session keep them.
pub(super) struct Before(backend::Before);

/// The settings that the transaction in progress has changed so far.
pub(super) fn before() -> Before {
    let settings = major::all_settings().into_iter();
    // SAFETY: each is a variable of guc.c.
    Before(
        settings
            .filter_map(|setting| unsafe { of_before(setting) })
            .collect(),
    )
}

/// The name of a setting that the session is to keep, with the value from before the transaction.
/// None: the value is that of RESET.
///
/// # Safety
/// The setting must be one of guc.c.
unsafe fn of_before(setting: *mut pg_sys::config_generic) -> Option<(CString, Option<CString>)> {
    use pg_sys::config_type::*;
    use pg_sys::GucStackState::{GUC_SET, GUC_SET_LOCAL};
    // SAFETY: the type says which structure the setting is and which value is there; names and
    // texts are C strings. The last entry of the stack is of the outermost level.
    unsafe {
        let generic = &*setting;
        let mut entry = generic.stack.as_ref()?;
        let is_kept = |entry: &pg_sys::guc_stack| matches!(entry.state, GUC_SET | GUC_SET_LOCAL);
        let mut kept = is_kept(entry);
        while let Some(outer) = entry.prev.as_ref() {
            kept |= is_kept(outer);
            entry = outer;
        }
        if !kept || generic.context == pg_sys::GucContext::PGC_INTERNAL {
            return None;
        }
        let value = &entry.prior.val;
        let text = match generic.vartype {
            _ if entry.source < pg_sys::GucSource::PGC_S_SESSION => None,
            PGC_BOOL => CString::new(value.boolval.to_string()).ok(),
            PGC_INT => CString::new(value.intval.to_string()).ok(),
            PGC_REAL => CString::new(value.realval.to_string()).ok(),
            PGC_ENUM => {
                let name = pg_sys::config_enum_lookup_by_value(setting.cast(), value.enumval);
                Some(CStr::from_ptr(name).to_owned())
            }
            _ if value.stringval.is_null() => None,
            _ => Some(CStr::from_ptr(value.stringval).to_owned()),
        };
        Some((CStr::from_ptr(generic.name).to_owned(), text))
    }
}

impl Before {
    /// Puts them back. No transaction may be in progress.
    pub(super) fn put_back(self) {
        if self.0.is_empty() {
            return;
        }
        let put_back = || {
            // SAFETY: no transaction is in progress. Names and values are C strings.
            unsafe {
                pg_sys::StartTransactionCommand();
                for (name, value) in &self.0 {
                    // A value that is not allowed any more, such as a role that is gone, is left.
                    pg_sys::set_config_option(
                        name.as_ptr(),
                        value.as_ref().map_or(null(), |value| value.as_ptr()),
                        pg_sys::GucContext::PGC_SUSET,
                        pg_sys::GucSource::PGC_S_SESSION,
                        pg_sys::GucAction::GUC_ACTION_SET,
                        true,
                        pg_sys::DEBUG1 as c_int,
                        false,
                    );
                }
                pg_sys::CommitTransactionCommand();
            }
        };
        // SAFETY: aborted after an Err. The context of the messages is there for as long as the
        // session.
        unsafe {
            if attempt_undone(put_back).is_err() {
                pg_sys::AbortOutOfAnyTransaction();
            }
            pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
        }
    }

    /// Has `put_back_now` put them back.
    pub(super) fn put_back_later(self) {
        BACKEND.session.procedure.before.replace(Some(self.0));
    }
}

/// The session is about to wait for its client.
pub(super) fn put_back_now() {
    if let Some(before) = BACKEND.session.procedure.before.take() {
        Before(before).put_back();
    }
}

/// Runs `undo`, and has the session act as the same role after it. An undo goes back to the role
/// that its transaction began with, even when the setting of the role is kept.
pub(super) fn with_role_kept(undo: impl FnOnce()) {
    let (mut role, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: variables of this process; the role was the session's a moment before.
    unsafe { pg_sys::GetUserIdAndSecContext(&mut role, &mut context) };
    undo();
    // SAFETY: as above.
    unsafe { pg_sys::SetUserIdAndSecContext(role, context) };
}
