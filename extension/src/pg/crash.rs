//! Crashing on purpose, for tests of what a crash leaves behind.

use super::settings;

const SIGKILL: std::ffi::c_int = 9;

extern "C" {
    fn kill(pid: std::ffi::c_int, signal: std::ffi::c_int) -> std::ffi::c_int;
}

/// Kills this process, with all that the server has logged so far on disk, when `chainify.crash_point` names the point; the server then recovers as from any crash.
pub fn point(name: &str) {
    if settings::crash_point().is_some_and(|wanted| wanted == name) {
        // SAFETY: flushing what was inserted needs no more than an initialised process; then our own pid.
        unsafe {
            pgrx::pg_sys::XLogFlush(pgrx::pg_sys::GetXLogInsertRecPtr());
            kill(pgrx::pg_sys::MyProcPid, SIGKILL);
        }
    }
}
