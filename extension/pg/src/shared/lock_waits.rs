//! The waits in the lock manager, and the states of the sessions in the way.
use std::ffi::c_char;
use std::mem::size_of;

use pgrx::pg_sys;
use pgrx::{direct_function_call_as_datum, IntoDatum};

use crate::base::major;

/// A session in another one's way.
pub struct Session {
    pub pid: i32,
    /// Its place in the process array, below `MaxBackends`.
    pub place: usize,
    /// Its number among those that are sent signals.
    pub(crate) backend: i32,
    pub(crate) database: pg_sys::Oid,
    /// Its local transaction; 0 when it has none.
    pub transaction: u32,
    /// A client's; otherwise autovacuum, a background worker or a replication process.
    pub of_client: bool,
    /// In a transaction, waiting for the client's next command. False when `track_activities` is
    /// off.
    pub idle: bool,
}

/// Whether `pid` waits for a heavyweight lock; `None` when there is no such process. Takes none of
/// the lock manager's locks.
pub fn waits(pid: i32) -> Option<bool> {
    // SAFETY: an entry of the process array stays valid memory even when its process exits; one
    // aligned word is read.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid).as_ref()?;
        let event = std::ptr::addr_of!(process.wait_event_info).read_volatile();
        Some(event & 0xFF00_0000 == pg_sys::PG_WAIT_LOCK)
    }
}

/// The processes `pid` waits for, also those before it in the queue of the lock; a prepared
/// transaction is 0.
pub fn blockers(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    // SAFETY: pg_blocking_pids takes one int4 that is not null, and returns a one-dimensional
    // int4[] without nulls, which is taken apart with the properties of int4: this process has no
    // database to look them up in.
    unsafe {
        let args = [pid.into_datum()];
        let Some(array) = direct_function_call_as_datum(pg_sys::pg_blocking_pids, &args) else {
            return found;
        };
        let (mut pids, mut count) = (std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array.cast_mut_ptr(),
            pg_sys::INT4OID,
            size_of::<i32>() as i32,
            true,
            pg_sys::TYPALIGN_INT as c_char,
            &mut pids,
            std::ptr::null_mut(),
            &mut count,
        );
        found.extend((0..count as usize).map(|i| (*pids.add(i)).value() as i32));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The table `pid` waits for a lock on, or on a row of; `None` when the lock manager cannot tell.
pub fn table_waited_for(pid: i32) -> Option<pg_sys::Oid> {
    // SAFETY: GetLockStatusData gives a palloc'd copy with `nelements` locks.
    let locks = unsafe {
        let data = &*pg_sys::GetLockStatusData();
        std::slice::from_raw_parts(data.locks, data.nelements as usize)
    };
    let of_table = |lock: &&pg_sys::LockInstanceData| {
        u32::from(lock.locktag.locktag_type) <= pg_sys::LockTagType::LOCKTAG_TUPLE
    };
    let of_row = |lock: &&pg_sys::LockInstanceData| {
        u32::from(lock.locktag.locktag_type) == pg_sys::LockTagType::LOCKTAG_TUPLE
    };
    let own = || locks.iter().filter(|lock| lock.pid == pid);
    let waited = own().find(|lock| lock.waitLockMode != pg_sys::NoLock as i32)?;
    // A session that waits for the transaction that changed a row holds that row's lock meanwhile.
    let lock = Some(waited)
        .filter(of_table)
        .or_else(|| own().find(of_row))?;
    Some(pg_sys::Oid::from(lock.locktag.locktag_field2))
}

/// The state of the session of process `pid`; `None` when it has gone.
pub fn session(pid: i32) -> Option<Session> {
    // SAFETY: as in `waits`. The status entries are a copy that stays until it is cleared below;
    // they count from 1.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid).as_ref()?;
        let (place, transaction) = major::place_of(process);
        let count = pg_sys::pgstat_fetch_stat_numbackends();
        let status = (1..=count)
            .filter_map(|i| major::status_of(i).as_ref())
            .map(|entry| &entry.backendStatus)
            .find(|status| status.st_procpid == pid)
            .map(|status| (status.st_backendType, status.st_state));
        pg_sys::pgstat_clear_backend_activity_snapshot();
        let (kind, state) = status?;
        use pg_sys::BackendState::{STATE_IDLEINTRANSACTION, STATE_IDLEINTRANSACTION_ABORTED};
        Some(Session {
            pid,
            place,
            backend: major::backend_of(process),
            database: process.databaseId,
            transaction,
            of_client: kind == pg_sys::BackendType::B_BACKEND,
            idle: state == STATE_IDLEINTRANSACTION || state == STATE_IDLEINTRANSACTION_ABORTED,
        })
    }
}
