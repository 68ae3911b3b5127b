//! The locks that the session's transaction holds.
use pgrx::pg_sys;

use crate::base::major;
use crate::base::own_lock;

const LOCK_METHOD: u8 = 1; // DEFAULT_LOCKMETHOD of lock.h
const READ: i32 = pg_sys::AccessShareLock as i32;
const CHANGE: i32 = pg_sys::RowExclusiveLock as i32;
const MODE_MAX: i32 = 8;

/// Whether a lock of the extension's own is held. Cost: as all here, a look at all locks of the
/// server.
pub fn has_own() -> bool {
    locks().iter().any(|(tag, _)| own_lock::is_own(tag))
}

/// The relations that are locked for more than changes of rows.
pub fn strong() -> Vec<pg_sys::Oid> {
    let strong = locks().into_iter().filter(|(_, mode)| *mode > CHANGE);
    strong.filter_map(|(tag, _)| relation_of(&tag)).collect()
}

/// Gives up the locks of reading, those on sequences, and those for changes of rows where there are
/// none. To be called when no statement runs any more, as the transaction ends.
pub fn release_weak(unchanged: impl Fn(pg_sys::Oid) -> bool) {
    for (tag, mode) in locks() {
        let needless = |relation| {
            mode == READ || mode <= CHANGE && (is_sequence(relation) || unchanged(relation))
        };
        if relation_of(&tag).is_some_and(needless) {
            // SAFETY: in a transaction; the owner is put back. Locks that belong to no statement
            // that runs belong to the transaction itself.
            unsafe {
                let owner = pg_sys::CurrentResourceOwner;
                pg_sys::CurrentResourceOwner = pg_sys::TopTransactionResourceOwner;
                while major::holds_lock(&tag, mode) && pg_sys::LockRelease(&tag, mode, false) {}
                pg_sys::CurrentResourceOwner = owner;
            }
        }
    }
}

/// A lock with its mode.
pub(crate) type Held = (pg_sys::LOCKTAG, i32);

/// The advisory locks of SQL functions, and the locks for more than reading of relations that
/// `keeps` takes.
pub fn beside(keeps: impl Fn(pg_sys::Oid) -> bool) -> Vec<Held> {
    let kept = |(tag, mode): &Held| match relation_of(tag) {
        Some(relation) => *mode > READ && keeps(relation),
        None => own_lock::is_advisory(tag),
    };
    locks().into_iter().filter(kept).collect()
}

/// Has the session hold locks that its transaction holds, too.
pub(crate) fn hold(held: &[Held]) {
    for (tag, mode) in held {
        // SAFETY: in a transaction. The lock is held, so nobody is waited for.
        unsafe { pg_sys::LockAcquire(tag, *mode, true, false) };
    }
}

/// Has the transaction hold locks in the place of the session.
pub(crate) fn hand_back(held: &[Held]) {
    // SAFETY: in a transaction; the owner is put back. A lock that is held is not waited for.
    unsafe {
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = pg_sys::TopTransactionResourceOwner;
        for (tag, mode) in held
            .iter()
            .filter(|(tag, mode)| major::holds_lock(tag, *mode))
        {
            pg_sys::LockAcquire(tag, *mode, false, false);
        }
        pg_sys::CurrentResourceOwner = owner;
    }
    let_go(held);
}

/// Has the session hold locks no more. PostgreSQL takes those of relations with a transaction that
/// fails.
pub(crate) fn let_go(held: &[Held]) {
    for (tag, mode) in held {
        // SAFETY: looks into tables of this process, and of the server for a lock that is held.
        unsafe {
            if major::holds_lock(tag, *mode) {
                pg_sys::LockRelease(tag, *mode, true);
            }
        }
    }
}

/// The locks of this process with their modes.
fn locks() -> Vec<Held> {
    // SAFETY: the list is PostgreSQL's copy in the current memory context, as long as it says.
    let (all, own) = unsafe {
        let data = &*pg_sys::GetLockStatusData();
        let all = match data.nelements {
            0 => &[],
            count => std::slice::from_raw_parts(data.locks, count as usize),
        };
        (all, pg_sys::MyProcPid)
    };
    let of_mine = all.iter().filter(|lock| lock.pid == own);
    of_mine
        .flat_map(|lock| {
            let holds = |mode: &i32| lock.holdMask & (1 << mode) != 0;
            let modes = (1..=MODE_MAX).filter(holds);
            modes.map(|mode| (lock.locktag, mode))
        })
        .collect()
}

/// The relation of this database that is locked as a whole.
fn relation_of(tag: &pg_sys::LOCKTAG) -> Option<pg_sys::Oid> {
    // SAFETY: a variable set when the session connected.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let whole = tag.locktag_type == pg_sys::LockTagType::LOCKTAG_RELATION as u8
        && tag.locktag_lockmethodid == LOCK_METHOD
        && tag.locktag_field1 == database;
    whole.then(|| pg_sys::Oid::from(tag.locktag_field2))
}

fn is_sequence(relation: pg_sys::Oid) -> bool {
    // SAFETY: in a transaction; 0 for a relation that is not there.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_SEQUENCE }
}
