//! The progress of long verifications, in shared memory, for other sessions to see.
//!
//! No decision depends on these fields, and one process alone writes each, so there is no lock. A
//! reader may see an entry half written. The entry of a process that has ended is free.
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering::Relaxed};

use pgrx::pg_sys;

/// Verifications that are told of at the same moment in one server; of further ones nothing is.
const PLACES: usize = 32;

/// The verification that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    Blocks = 1,
    Definition = 2,
    Hashing = 3,
    Rows = 4,
    Indexes = 5,
}

const PHASES: [Phase; 5] = [
    Phase::Blocks,
    Phase::Definition,
    Phase::Hashing,
    Phase::Rows,
    Phase::Indexes,
];

/// Free when `pid` is 0.
struct Place {
    pid: AtomicI32,
    database: AtomicU32,
    relation: AtomicU32,
    phase: AtomicU32,
    done: AtomicI64,
    total: AtomicI64,
}

/// One verification as another session sees it.
pub struct Seen {
    pub pid: i32,
    /// 0 for the ledger as a whole.
    pub relation: u32,
    pub phase: Phase,
    pub done: i64,
    pub total: i64,
}

const NAME: &std::ffi::CStr = c"chainify progress";

thread_local! {
    static FIRST: Cell<*const Place> = const { Cell::new(null_mut()) };
}

const fn size() -> usize {
    PLACES * size_of::<Place>()
}

/// Asks for the memory, before the server has any.
///
/// # Safety
/// Only in PostgreSQL's hook for such requests.
pub(crate) unsafe fn request() {
    // SAFETY: by the caller's promise.
    unsafe { pg_sys::RequestAddinShmemSpace(size()) }
}

/// Sets the memory up.
///
/// # Safety
/// Only in PostgreSQL's hook for that: in the postmaster, again after a crash restart, before any
/// other process can look.
pub(crate) unsafe fn start_up() {
    // SAFETY: by the caller's promise. Zeroes are a valid value of every field, and shared memory
    // is aligned for all of them.
    unsafe {
        let mut found = false;
        let first = pg_sys::ShmemInitStruct(NAME.as_ptr(), size(), &mut found).cast::<u8>();
        first.write_bytes(0, size());
        FIRST.set(first.cast());
    }
}

/// All places; none in a process that has no shared memory of ours.
fn places() -> &'static [Place] {
    let first = FIRST.get();
    if first.is_null() {
        return &[];
    }
    // SAFETY: set up by `start_up` in the postmaster, whose children inherit the pointer; shared
    // memory outlives every process, and its fields are atomic.
    unsafe { std::slice::from_raw_parts(first, PLACES) }
}

fn is_backend(pid: i32) -> bool {
    // SAFETY: takes and releases a lock; any number may be asked for.
    !unsafe { pg_sys::BackendPidGetProc(pid) }.is_null()
}

/// A verification of this process; nothing more is told of it once it is dropped.
pub struct Progress(Option<&'static Place>, PhantomData<*const ()>);

impl Progress {
    /// Takes a place; where there is none left, the verification is not told of. `relation` is 0
    /// for the ledger as a whole.
    pub fn start(relation: pg_sys::Oid) -> Self {
        // SAFETY: both are set when a process starts.
        let (pid, database) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId) };
        let place = places().iter().find(|place| {
            let held = place.pid.load(Relaxed);
            (held == 0 || !is_backend(held))
                && place
                    .pid
                    .compare_exchange(held, pid, Relaxed, Relaxed)
                    .is_ok()
        });
        let progress = Progress(place, PhantomData);
        if let Some(place) = place {
            place.phase.store(0, Relaxed);
            place.database.store(database.to_u32(), Relaxed);
            place.relation.store(relation.to_u32(), Relaxed);
        }
        progress
    }

    /// Begins a phase of so many steps.
    pub fn phase(&self, phase: Phase, total: i64) {
        if let Some(place) = self.0 {
            place.done.store(0, Relaxed);
            place.total.store(total, Relaxed);
            place.phase.store(phase as u32, Relaxed);
        }
    }

    /// So many steps of the phase are done.
    pub fn done(&self, steps: i64) {
        if let Some(place) = self.0 {
            place.done.store(steps, Relaxed);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.pid.store(0, Relaxed);
        }
    }
}

/// The verification that runs in this database.
pub fn seen() -> Vec<Seen> {
    // SAFETY: set when the process started.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let read = |place: &Place| {
        let phase = place.phase.load(Relaxed);
        Some(Seen {
            pid: place.pid.load(Relaxed),
            relation: place.relation.load(Relaxed),
            phase: PHASES.into_iter().find(|known| *known as u32 == phase)?,
            done: place.done.load(Relaxed),
            total: place.total.load(Relaxed),
        })
    };
    places()
        .iter()
        .filter(|place| place.database.load(Relaxed) == database)
        .filter_map(read)
        .filter(|seen| is_backend(seen.pid))
        .collect()
}
