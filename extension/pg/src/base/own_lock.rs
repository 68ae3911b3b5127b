//! Locks of our own in the server's lock manager, of the current database and transaction. They are
//! advisory locks of a class that no SQL function reaches; `pg_locks` shows them with objsubid 3.
use pgrx::pg_sys;

/// What is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OwnLock {
    /// That no block is committed: shared by readers, held alone while a block is committed.
    Block = 1,
    /// That parts are open: shared by workers; a leader looks whether it is free.
    Parts = 2,
    /// That definitions under the ledger, and bases and history of its tables, stay as they are.
    /// Maintenance and those that compare definitions share it; a block that changes them and a
    /// repair hold it alone (invariant R11).
    Definitions = 3,
}

/// `objsubid` of the two classes SQL functions use are 1 and 2.
const CLASS: u16 = 3;
const USER_LOCKMETHOD: u8 = 2;

fn tag(lock: OwnLock) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: reads a variable set when the session connected.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: 0,
        locktag_field3: lock as u32,
        locktag_field4: CLASS,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: USER_LOCKMETHOD,
    }
}

/// Whether a lock is one of these.
pub(crate) fn is_own(tag: &pg_sys::LOCKTAG) -> bool {
    tag.locktag_type == pg_sys::LockTagType::LOCKTAG_ADVISORY as u8 && tag.locktag_field4 == CLASS
}

/// Whether a lock is of the two classes that SQL functions use, in this database.
pub(crate) fn is_advisory(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: reads a variable set when the session connected.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    tag.locktag_type == pg_sys::LockTagType::LOCKTAG_ADVISORY as u8
        && tag.locktag_field1 == database
        && [1, 2].contains(&tag.locktag_field4)
}

/// Takes the lock beside others that share it; waits for one that holds it alone.
pub fn share(lock: OwnLock) {
    acquire(lock, pg_sys::ShareLock, false);
}

/// Shares the lock unless somebody holds it alone, or waits to.
pub fn try_share(lock: OwnLock) -> bool {
    acquire(lock, pg_sys::ShareLock, true)
}

/// Takes the lock alone; waits for those that share it.
pub fn take(lock: OwnLock) {
    acquire(lock, pg_sys::ExclusiveLock, false);
}

/// Takes the lock alone if it is free.
pub fn try_take(lock: OwnLock) -> bool {
    acquire(lock, pg_sys::ExclusiveLock, true)
}

/// Whether nobody shares the lock.
pub fn is_free(lock: OwnLock) -> bool {
    let free = try_take(lock);
    if free {
        // SAFETY: acquired a moment ago in the same mode.
        unsafe { pg_sys::LockRelease(&tag(lock), pg_sys::ExclusiveLock as i32, false) };
    }
    free
}

fn acquire(lock: OwnLock, mode: u32, only_if_free: bool) -> bool {
    // SAFETY: the tag is copied; the lock is released with the transaction.
    let result = unsafe { pg_sys::LockAcquire(&tag(lock), mode as i32, false, only_if_free) };
    let acquired = result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
    if acquired {
        // SAFETY: in a transaction. What those changed who held it is seen from now on, in the
        // catalogs as well.
        unsafe { pg_sys::AcceptInvalidationMessages() };
    }
    acquired
}
