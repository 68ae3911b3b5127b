//! A background worker of one database: its start, its transactions and its waiting.
use std::ffi::CStr;
use std::sync::OnceLock;
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::{pg_sys, IntoDatum};

use crate::base::error::{enter, PgError};
use crate::base::latch;
use crate::base::major;
use crate::base::subtransaction::subtransaction;

static MAIN: OnceLock<fn()> = OnceLock::new();

/// The function that started workers run; once, while the library is loaded.
pub(crate) fn register(main: fn()) {
    let _ = MAIN.set(main);
}

/// Starts a worker in this session's database; false when the server has no room for one. It is not
/// started again when it ends: it holds up DROP DATABASE no longer than whoever asked for it.
pub fn start() -> bool {
    // SAFETY: a variable of the process, set once a session has connected.
    let database = unsafe { pg_sys::MyDatabaseId };
    BackgroundWorkerBuilder::new("chainify maintenance")
        .set_type("chainify maintenance")
        .set_function("chainify_maintenance_worker")
        .set_library("chainify")
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
        .set_argument(database.into_datum())
        .load_dynamic()
        .is_ok()
}

c_functions! {
    fn BackgroundWorkerUnblockSignals();
    fn SignalHandlerForConfigReload(signal: i32);
    fn die(signal: i32);
}

/// Where the new process starts: as superuser in the database named by its argument.
#[no_mangle]
extern "C-unwind" fn chainify_maintenance_worker(argument: pg_sys::Datum) {
    // SAFETY: the whole body, with nothing to drop. The handlers are PostgreSQL's own, set before
    // signals come through; the argument is the oid that `start` passed. MAIN was set in the
    // postmaster, of which this process is a copy.
    unsafe {
        enter(|| {
            major::on_signal(signal::SIGHUP, Some(SignalHandlerForConfigReload));
            major::on_signal(signal::SIGTERM, Some(die));
            BackgroundWorkerUnblockSignals();
            let database = pg_sys::Oid::from(argument.value() as u32);
            pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
            MAIN.get().expect("register sets it")();
        })
    }
}

/// signal.h, the same on every Linux.
mod signal {
    pub(crate) const SIGHUP: i32 = 1;
    pub(crate) const SIGTERM: i32 = 15;
}

/// Runs `f` in a transaction of its own; what fails is undone and returned. `activity` is what
/// pg_stat_activity shows.
pub fn transaction<T>(activity: &CStr, f: impl FnOnce() -> T) -> Result<T, PgError> {
    // SAFETY: the worker is connected and in no transaction; both ends are reached, since errors
    // stop at the subtransaction. Only FATAL passes, and ends the process.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        // The defaults are for clients.
        pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
        pg_sys::XactReadOnly = false;
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, activity.as_ptr());
        let result = subtransaction(|| Ok(f()));
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_stat(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
        result
    }
}

/// Waits between transactions, and takes over changed settings. A termination ends the process
/// here.
pub fn wait(time: Duration) {
    latch::pause(time);
    // SAFETY: outside of transactions, where the server rereads its files as well; the flag belongs
    // to this process.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}
