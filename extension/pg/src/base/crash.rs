//! Crashing on purpose, for tests of what a crash leaves behind.

use crate::base::settings;

const SIGKILL: std::ffi::c_int = 9;

extern "C" {
    fn kill(pid: std::ffi::c_int, signal: std::ffi::c_int) -> std::ffi::c_int;
}

/// Kills this process, with all that the server has logged so far on disk, when
/// `chainify.crash_point` names the point; the server then recovers as from any crash.
pub fn point(name: &str) {
    if settings::crash_point().is_some_and(|wanted| wanted == name) {
        // SAFETY: flushing what was inserted needs no more than an initialised process; then our
        // own pid.
        unsafe {
            pgrx::pg_sys::XLogFlush(end_of_log());
            kill(pgrx::pg_sys::MyProcPid, SIGKILL);
        }
    }
}

/// Where the last record ends. At the end of a page the server names the place after the next
/// page's header, to which nothing can be flushed.
fn end_of_log() -> u64 {
    // SAFETY: reads shared memory under its own lock, and a constant of the cluster.
    let (at, segment) = unsafe {
        (
            pgrx::pg_sys::GetXLogInsertRecPtr(),
            pgrx::pg_sys::wal_segment_size as u64,
        )
    };
    let within = at % u64::from(pgrx::pg_sys::XLOG_BLCKSZ);
    let page = at - within;
    let header = match page % segment {
        0 => size_of::<pgrx::pg_sys::XLogLongPageHeaderData>(),
        _ => size_of::<pgrx::pg_sys::XLogPageHeaderData>(),
    };
    // header sizes are those of PostgreSQL, rounded up to eight bytes as it does
    match within == header.next_multiple_of(8) as u64 {
        true => page,
        false => at,
    }
}
