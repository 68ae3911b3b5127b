//! The text that pg_stat_activity shows of this session.
use pgrx::pg_sys;

/// Shows what this session is doing as its query in pg_stat_activity.
pub fn show_query(text: &str) {
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: the text is copied.
    unsafe {
        let state = pg_sys::BackendState::STATE_RUNNING;
        pg_sys::pgstat_report_activity(state, text.as_ptr());
    }
}
