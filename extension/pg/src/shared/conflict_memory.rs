//! The messages of block executors, client sessions and the conflict worker in shared memory.
//!
//! Nothing here outlives the server, and nothing needs rebuilding: a crash restart starts with
//! zeroed memory. All of it is behind one lock that is held for a few copies, never across anything
//! that can raise, wait or take another lock. So it may be taken while an error is being reported
//! or unwound.
use std::cell::Cell;
use std::ffi::c_char;
use std::mem::{align_of, size_of};
use std::ptr::{addr_of_mut, null_mut};

use pgrx::pg_sys;

/// Processes that execute blocks at the same moment in one server. Further ones run unwatched.
const EXECUTORS_MAX: usize = 64;
/// Tables an executor tells the names of, because the worker can read no database's catalogs; locks
/// on further ones are reported without a name.
const TABLES_MAX: usize = 64;
/// Bytes of a table's name kept, `schema.table`; longer ones are cut at a character.
const NAME_BYTES: usize = 2 * pg_sys::NAMEDATALEN as usize;

#[derive(Clone, Copy)]
struct Name([u8; NAME_BYTES]);

/// A block being executed. Free when `pid` is 0.
#[derive(Clone, Copy)]
struct Executor {
    pid: i32,
    block: i64,
    tables: [(u32, Name); TABLES_MAX],
}

/// Of one backend, by its number in the process array; valid for the process `pid` alone.
#[derive(Clone, Copy)]
struct Slot {
    pid: i32,
    waiting: bool,
    maintaining: bool,
    gives_up: bool,
    /// The local transaction that is being ended; 0 for none.
    ended: u32,
    /// `waiting` when it was decided to end it: unwinding resets that one before the error is
    /// reported.
    ended_waiting: bool,
    block: i64,
    table: Name,
}

/// The slots follow it.
struct Head {
    /// The worker's latch; null before it has started.
    worker: *mut pg_sys::Latch,
    /// Set while the worker sleeps without a time limit.
    asleep: bool,
    executors: [Executor; EXECUTORS_MAX],
}

/// Why a session's claim was ended, for its error message.
pub struct Reason {
    /// Number of the ledger block that waited.
    pub block: i64,
    /// `schema.table`; `None` when unknown.
    pub table: Option<String>,
    /// The session was waiting for the outcome of its own ledger transaction.
    pub waiting: bool,
}

const TRANCHE: &std::ffi::CStr = c"chainify";

thread_local! {
    static HEAD: Cell<*mut Head> = const { Cell::new(null_mut()) };
    static LOCK: Cell<*mut pg_sys::LWLock> = const { Cell::new(null_mut()) };
}

/// Bytes of head and slots; `MaxBackends` is final when libraries ask for memory.
fn size() -> usize {
    // SAFETY: reads a variable that no longer changes.
    let backends = unsafe { pg_sys::MaxBackends } as usize;
    size_of::<Head>() + backends * size_of::<Slot>()
}

/// Asks for the memory, before the server has any.
///
/// # Safety
/// Only in PostgreSQL's hook for such requests.
pub(crate) unsafe fn request() {
    // SAFETY: by the caller's promise.
    unsafe {
        pg_sys::RequestAddinShmemSpace(size());
        pg_sys::RequestNamedLWLockTranche(TRANCHE.as_ptr(), 1);
    }
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
        let name: *const c_char = TRANCHE.as_ptr();
        let head = pg_sys::ShmemInitStruct(name, size(), &mut found).cast::<u8>();
        head.write_bytes(0, size());
        HEAD.set(head.cast());
        LOCK.set(addr_of_mut!(
            (*pg_sys::GetNamedLWLockTranche(TRANCHE.as_ptr())).lock
        ));
    }
}

/// Runs `f` with the lock held; `None` in a process that has no place in the process array, such as
/// the postmaster.
fn locked<T>(f: impl FnOnce(&mut Head, &mut [Slot]) -> T) -> Option<T> {
    let (head, lock) = (HEAD.get(), LOCK.get());
    // SAFETY: set up by `start_up` in the postmaster, whose children inherit the pointers; the
    // slots follow the head, as many as `size` counts. The exclusive lock makes the references
    // unique, and `f` neither raises nor nests.
    unsafe {
        if head.is_null() || pg_sys::MyProc.is_null() {
            return None;
        }
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        let slots = std::slice::from_raw_parts_mut(
            head.add(1).cast::<Slot>(),
            pg_sys::MaxBackends as usize,
        );
        let result = f(&mut *head, slots);
        pg_sys::LWLockRelease(lock);
        Some(result)
    }
}

// So the slots are aligned where the head ends.
const _: () = assert!(align_of::<Slot>() <= align_of::<Head>());

fn my_pid() -> i32 {
    // SAFETY: reads a variable set when the process started.
    unsafe { pg_sys::MyProcPid }
}

/// This process's place in the process array, and its local transaction.
fn my_place() -> (usize, u32) {
    // SAFETY: only called from within `locked`, which has seen that MyProc is set.
    crate::base::major::place_of(unsafe { &*pg_sys::MyProc })
}

/// Runs `f`, a block's transactions, while the conflict worker keeps its locks free. `tables`: oid
/// and name.
pub fn executing<'a, T>(
    block: i64,
    tables: impl Iterator<Item = (pg_sys::Oid, &'a str)>,
    f: impl FnOnce() -> T,
) -> T {
    /// Its drop cannot raise, so it also works while unwinding. A process that exits without it is
    /// noticed by its pid.
    struct Registered;
    impl Drop for Registered {
        fn drop(&mut self) {
            retire();
        }
    }
    let _registered = Registered;
    enlist(block, tables);
    f()
}

/// From now on the conflict worker keeps the locks of this process free, until [`retire`].
pub fn enlist<'a>(block: i64, tables: impl Iterator<Item = (pg_sys::Oid, &'a str)>) {
    let pid = my_pid();
    // The caller's iterator runs before the lock is taken: it may do anything.
    let mut names = [(0, Name::new("")); TABLES_MAX];
    for (to, (oid, name)) in names.iter_mut().zip(tables) {
        *to = (oid.to_u32(), Name::new(name));
    }
    let latch = locked(|head, _| {
        let free = head.executors.iter_mut().find(|e| e.pid == 0)?;
        free.pid = pid;
        free.block = block;
        free.tables = names;
        std::mem::take(&mut head.asleep).then_some(head.worker)
    });
    if let Some(latch) = latch.flatten().filter(|l| !l.is_null()) {
        // SAFETY: a latch in the process array, which stays as long as the server; a wake-up too
        // many does no harm.
        unsafe { pg_sys::SetLatch(latch) }
    }
}

/// This process executes nothing any more. Cannot raise.
pub fn retire() {
    forget_executor(my_pid());
}

/// Runs `f`, which waits for the outcome of a ledger transaction: such a session must not hold up a
/// block at all.
pub fn waiting<T>(f: impl FnOnce() -> T) -> T {
    /// As above: cannot raise.
    struct Marked;
    impl Drop for Marked {
        fn drop(&mut self) {
            mark(false);
        }
    }
    fn mark(waiting: bool) {
        let pid = my_pid();
        locked(|_, slots| {
            if let Some(slot) = slots.get_mut(my_place().0) {
                slot.own(pid);
                slot.waiting = waiting;
            }
        });
    }
    let _marked = Marked;
    mark(true);
    f()
}

/// This process is the ledger's own maintenance, for as long as it lives.
pub fn maintains() {
    let pid = my_pid();
    locked(|_, slots| {
        if let Some(slot) = slots.get_mut(my_place().0) {
            slot.own(pid);
            slot.maintaining = true;
        }
    });
}

/// Whether the changes of this session's transaction are ordered when it commits. Cannot raise.
pub fn gives_up(gives_up: bool) {
    let pid = my_pid();
    locked(|_, slots| {
        if let Some(slot) = slots.get_mut(my_place().0) {
            slot.own(pid);
            slot.gives_up = gives_up;
        }
    });
}

/// For the worker: whether the process `pid`, at `place` in the process array, is such a one.
pub fn is_giving_up(place: usize, pid: i32) -> bool {
    locked(|_, slots| slots.get(place).is_some_and(|s| s.pid == pid && s.gives_up)).unwrap_or(false)
}

/// For the worker: whether the process `pid`, at `place` in the process array, is such a one.
pub fn is_maintaining(place: usize, pid: i32) -> bool {
    locked(|_, slots| {
        slots
            .get(place)
            .is_some_and(|s| s.pid == pid && s.maintaining)
    })
    .unwrap_or(false)
}

/// Why this session's current transaction is being ended, if it is; told once.
pub fn take_reason() -> Option<Reason> {
    let pid = my_pid();
    locked(|_, slots| {
        let (place, transaction) = my_place();
        let slot = slots.get_mut(place).filter(|s| s.pid == pid)?;
        // A request that came too late for its transaction says nothing about this one.
        let ended = std::mem::take(&mut slot.ended);
        (ended != 0 && ended == transaction).then_some(*slot)
    })
    .flatten()
    .map(|slot| Reason {
        block: slot.block,
        table: slot.table.text(),
        waiting: slot.ended_waiting,
    })
}

/// Whether some transaction of this session, which may be over, was to be ended; told once.
pub fn take_end() -> bool {
    let pid = my_pid();
    locked(|_, slots| {
        let slot = slots.get_mut(my_place().0).filter(|slot| slot.pid == pid);
        slot.is_some_and(|slot| std::mem::take(&mut slot.ended) != 0)
    })
    .unwrap_or(false)
}

/// For the worker: has executors wake this process.
pub fn serve() {
    locked(|head, _| {
        // SAFETY: `locked` has seen that MyProc is set.
        head.worker = unsafe { addr_of_mut!((*pg_sys::MyProc).procLatch) };
    });
}

/// For the worker: pid and number of every block being executed. When there is none, the next one
/// sets the latch.
pub fn executing_now() -> Vec<(i32, i64)> {
    let mut found = Vec::with_capacity(EXECUTORS_MAX);
    locked(|head, _| {
        let busy = head.executors.iter().filter(|e| e.pid != 0);
        found.extend(busy.map(|e| (e.pid, e.block)));
        head.asleep = found.is_empty();
    });
    found
}

/// Forgets an executor whose process has gone.
pub fn forget_executor(pid: i32) {
    locked(|head, _| {
        for executor in head.executors.iter_mut().filter(|e| e.pid == pid) {
            executor.pid = 0;
        }
    });
}

/// For the worker: whether the process `pid`, at `place` in the process array, waits in
/// [`waiting`].
pub fn is_waiting(place: usize, pid: i32) -> bool {
    locked(|_, slots| slots.get(place).is_some_and(|s| s.pid == pid && s.waiting)).unwrap_or(false)
}

/// For the worker: leaves the reason for a session whose local transaction it is about to end.
pub fn leave_reason(
    place: usize,
    pid: i32,
    transaction: u32,
    executor: (i32, i64),
    table: Option<pg_sys::Oid>,
) {
    locked(|head, slots| {
        let tables = head.executors.iter().find(|e| e.pid == executor.0);
        let named = tables
            .zip(table)
            .and_then(|(e, oid)| e.tables.iter().find(|(known, _)| *known == oid.to_u32()));
        if let Some(slot) = slots.get_mut(place) {
            slot.own(pid);
            slot.ended = transaction;
            slot.ended_waiting = slot.waiting;
            slot.block = executor.1;
            slot.table = named.map_or(Name::new(""), |(_, name)| *name);
        }
    });
}

impl Slot {
    /// Makes the slot that of `pid`, without what it held of an earlier process.
    fn own(&mut self, pid: i32) {
        if self.pid != pid {
            (self.pid, self.ended) = (pid, 0);
            (self.waiting, self.maintaining, self.gives_up) = (false, false, false);
        }
    }
}

impl Name {
    fn new(text: &str) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let fits = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=text.len().min(NAME_BYTES))
            .rev()
            .find(fits)
            .unwrap_or(0);
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Name(bytes)
    }

    fn text(&self) -> Option<String> {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        let text = std::str::from_utf8(&self.0[..end]).ok()?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}
