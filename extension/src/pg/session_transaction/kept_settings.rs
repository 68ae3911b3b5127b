//! Settings that a session sets in the part of its transaction that may be undone, by SET or by
//! `set_config`. They outlive the part as those of a savepoint outlive its release.
use std::ffi::c_int;

use pgrx::pg_sys;

/// The nesting level that PostgreSQL gives to the settings of a transaction by itself.
pub const OF_TRANSACTION: c_int = 1;

/// The level that settings of a subtransaction have that begins now.
pub fn level_of_next() -> c_int {
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
