//! The background worker that resolves lock conflicts: its registration and its waiting.
use std::sync::OnceLock;
use std::time::Duration;

use pgrx::bgworkers::{
    BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags,
};
use pgrx::pg_sys;

use crate::base::error::enter;

/// After a failure it starts again.
const RESTART: Duration = Duration::from_secs(1);

static MAIN: OnceLock<fn()> = OnceLock::new();

/// Has the postmaster run `main` in a process of its own; once, while the library is loaded.
pub(crate) fn register(main: fn()) {
    if MAIN.set(main).is_err() {
        return;
    }
    BackgroundWorkerBuilder::new("chainify conflicts")
        .set_function("chainify_conflict_worker")
        .set_library("chainify")
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(RESTART))
        .load();
}

/// Where the new process starts. It belongs to no database: it serves all of them, and holds up no
/// DROP DATABASE.
#[no_mangle]
extern "C-unwind" fn chainify_conflict_worker(_: pg_sys::Datum) {
    // SAFETY: the whole body, with nothing to drop. MAIN was set in the postmaster, of which this
    // process is a copy.
    unsafe {
        enter(|| {
            BackgroundWorker::attach_signal_handlers(
                SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM,
            );
            BackgroundWorker::connect_worker_to_spi(None, None);
            MAIN.get().expect("register sets it")();
        })
    }
}

/// Waits for the latch, at most `time`; false when the worker has to stop. Takes over changed
/// settings.
pub fn wait(time: Option<Duration>) -> bool {
    let go_on = BackgroundWorker::wait_latch(time);
    if BackgroundWorker::sighup_received() {
        // SAFETY: a background worker outside of transactions, where the server rereads its files
        // as well.
        unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) }
    }
    go_on
}
