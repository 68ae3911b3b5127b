//! Executor workers: background workers of one session, and the shared memory through which it
//! talks to them.
//!
//! The segment lives as long as the leader's session. When either side ends, the other finds its
//! queues detached; so no worker outlives its leader, and no wait for a lost worker goes on.
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::base::error::{enter, PgError};
use crate::base::major;
use crate::base::settings::WORKERS_MAX;

/// Bytes of a queue; longer messages pass in pieces.
const QUEUE_BYTES: usize = 512 * 1024;
/// Room for the header, so that queues begin aligned.
const HEADER_BYTES: usize = 256;
const SIGINT: c_int = 2;
const SIGHUP: c_int = 1;
const SIGTERM: c_int = 15;

c_functions! {
    // As signal handlers, not as pgrx wraps them.
    fn die(signal: c_int);
    fn SignalHandlerForConfigReload(signal: c_int);
}

extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

/// At the start of the segment.
#[repr(C)]
struct Header {
    database: u32,
    /// PostgreSQL's number for what the leader's commits wait for.
    synchronous_commit: i32,
    /// Not 0: a part met something unforeseen, and the others need not go on.
    stopped: AtomicU32,
    /// For each part the transaction that it runs, counted from 1; 0: none.
    running: [AtomicU32; WORKERS_MAX + 1],
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

thread_local! {
    /// This process's segment, and its part.
    static SHARED: Cell<(*mut Header, usize)> = const { Cell::new((null_mut(), 0)) };
}

static SERVE: OnceLock<fn(&mut Leader)> = OnceLock::new();

/// Has workers run `serve`; once, while the library is loaded.
pub(crate) fn register(serve: fn(&mut Leader)) {
    let _ = SERVE.set(serve); // a second call is one of the same library
}

fn shared<T>(f: impl FnOnce(&Header, usize) -> T) -> Option<T> {
    let (header, part) = SHARED.get();
    // SAFETY: set while the segment is attached, and cleared before it is detached; all fields are
    // atomic or constant.
    unsafe { header.as_ref() }.map(|header| f(header, part))
}

/// Says which transaction this process runs, for the leader to show; None: none.
pub fn show_running(tx: Option<u32>) {
    shared(|header, part| header.running[part].store(tx.map_or(0, |tx| tx + 1), Ordering::Relaxed));
}

/// Tells the other parts to stop.
pub fn stop_parts() {
    shared(|header, _| header.stopped.store(1, Ordering::Release));
}

/// Whether another part asked to stop.
pub fn parts_stopped() -> bool {
    shared(|header, _| header.stopped.load(Ordering::Acquire) != 0).unwrap_or(false)
}

/// The earliest transaction that another process of this pool runs.
pub fn earliest_running() -> Option<u32> {
    let earliest = |header: &Header, own: usize| {
        let others = header.running.iter().enumerate();
        let others = others.filter(|(part, _)| *part != own);
        let running = others.filter_map(|(_, tx)| tx.load(Ordering::Relaxed).checked_sub(1));
        running.min()
    };
    shared(earliest).flatten()
}

/// The process at the other end is gone.
#[derive(Debug)]
pub struct Lost;

/// The leader's end of one worker.
struct Worker {
    handle: *mut pg_sys::BackgroundWorkerHandle,
    to: *mut pg_sys::shm_mq_handle,
    from: *mut pg_sys::shm_mq_handle,
}

/// The workers of this session.
pub struct Pool {
    segment: *mut pg_sys::dsm_segment,
    workers: Vec<Worker>,
    /// A message was sent incompletely, so no further message can be sent to its worker.
    torn: bool,
}

/// Where worker `index` (from 0) has its queue: to it, or from it.
unsafe fn queue(header: *mut Header, index: usize, from: bool) -> *mut c_void {
    let at = HEADER_BYTES + (2 * index + usize::from(from)) * QUEUE_BYTES;
    // SAFETY: the caller's segment is `segment_bytes` long for more than `index` workers.
    unsafe { header.cast::<u8>().add(at).cast() }
}

fn segment_bytes(workers: usize) -> usize {
    HEADER_BYTES + 2 * workers * QUEUE_BYTES
}

impl Pool {
    /// Starts up to `count` workers, without waiting for them; None when the server has no free
    /// worker slot. Raises when there is no shared memory.
    pub fn start(count: usize) -> Option<Pool> {
        let count = count.min(WORKERS_MAX);
        // SAFETY: the segment is long enough for what is laid out in it, and pinned last: an error
        // on the way gives it back with the current resource owner, and the workers registered find
        // nothing to attach to and end.
        unsafe {
            let context = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let segment = pg_sys::dsm_create(segment_bytes(count), 0);
            let header = pg_sys::dsm_segment_address(segment).cast::<Header>();
            header.cast::<u8>().write_bytes(0, HEADER_BYTES);
            (*header).database = pg_sys::MyDatabaseId.to_u32();
            (*header).synchronous_commit = (&raw const pg_sys::synchronous_commit).read();
            let mut workers = Vec::with_capacity(count);
            for index in 0..count {
                let queues = [false, true]
                    .map(|from| pg_sys::shm_mq_create(queue(header, index, from), QUEUE_BYTES));
                pg_sys::shm_mq_set_sender(queues[0], pg_sys::MyProc);
                pg_sys::shm_mq_set_receiver(queues[1], pg_sys::MyProc);
                let Some(handle) = launch(pg_sys::dsm_segment_handle(segment), index) else {
                    break;
                };
                let [to, from] = queues.map(|q| pg_sys::shm_mq_attach(q, segment, handle));
                workers.push(Worker { handle, to, from });
            }
            pg_sys::MemoryContextSwitchTo(context);
            if workers.is_empty() {
                pg_sys::dsm_detach(segment);
                return None;
            }
            pg_sys::dsm_pin_mapping(segment);
            SHARED.set((header, 0));
            Some(Pool {
                segment,
                workers,
                torn: false,
            })
        }
    }

    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Lets parts run again after [`stop_parts`].
    pub fn clear(&self) {
        shared(|header, _| {
            header.stopped.store(0, Ordering::Release);
            let running = header.running.iter();
            running.for_each(|tx| tx.store(0, Ordering::Relaxed));
        });
    }

    /// Sends a message, and waits while its queue is full. An interrupt ends the wait; the pool can
    /// then only be ended.
    pub fn send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        if std::mem::replace(&mut self.torn, true) {
            return Err(Lost);
        }
        // SAFETY: the queue is attached as long as self; the message outlives the call.
        let sent = unsafe {
            let to = self.workers[worker].to;
            pg_sys::shm_mq_send(to, message.len(), message.as_ptr().cast(), false, true)
        };
        self.torn = sent != pg_sys::shm_mq_result::SHM_MQ_SUCCESS;
        (!self.torn).then_some(()).ok_or(Lost)
    }

    /// Sends a short message if its queue has room, and waits for nothing.
    pub fn try_send(&mut self, worker: usize, message: &[u8]) -> Result<(), Lost> {
        if self.torn {
            return Err(Lost);
        }
        // SAFETY: as for `send`.
        let sent = unsafe {
            let to = self.workers[worker].to;
            pg_sys::shm_mq_send(to, message.len(), message.as_ptr().cast(), true, true)
        };
        self.torn = sent != pg_sys::shm_mq_result::SHM_MQ_SUCCESS;
        (!self.torn).then_some(()).ok_or(Lost)
    }

    /// The next message, if there is one. Waits for nothing.
    pub fn receive(&mut self, worker: usize) -> Result<Option<Vec<u8>>, Lost> {
        // SAFETY: as for `send`.
        unsafe { receive(self.workers[worker].from, true) }
    }

    /// Cancels what the worker runs.
    pub fn cancel(&self, worker: usize) {
        let mut pid = 0;
        // SAFETY: the handle is valid as long as self; a pid is only given for a worker that was
        // started and, as far as the postmaster knows, has not ended, so it is above 1.
        unsafe {
            let status = pg_sys::GetBackgroundWorkerPid(self.workers[worker].handle, &mut pid);
            if status == pg_sys::BgwHandleStatus::BGWH_STARTED {
                kill(pid, SIGINT);
            }
        }
    }

    /// Ends all workers. They roll back what they have open.
    pub fn end(self) {
        SHARED.set((null_mut(), 0));
        // SAFETY: handles and segment are given back once, here; detaching the segment detaches its
        // queues.
        unsafe {
            for worker in &self.workers {
                pg_sys::TerminateBackgroundWorker(worker.handle);
                pg_sys::pfree(worker.handle.cast());
            }
            pg_sys::dsm_detach(self.segment);
        }
    }
}

/// # Safety
/// `from` must be attached to this process as receiver.
unsafe fn receive(
    from: *mut pg_sys::shm_mq_handle,
    no_wait: bool,
) -> Result<Option<Vec<u8>>, Lost> {
    let (mut length, mut data) = (0, null_mut());
    // SAFETY: by the caller's promise; the data stays until the next call and is copied now.
    unsafe {
        match pg_sys::shm_mq_receive(from, &mut length, &mut data, no_wait) {
            pg_sys::shm_mq_result::SHM_MQ_SUCCESS => {
                let bytes = std::slice::from_raw_parts(data.cast::<u8>(), length);
                Ok(Some(bytes.to_vec()))
            }
            pg_sys::shm_mq_result::SHM_MQ_WOULD_BLOCK => Ok(None),
            _ => Err(Lost),
        }
    }
}

/// Asks the postmaster for worker `index`; None when there is no room.
unsafe fn launch(
    segment: pg_sys::dsm_handle,
    index: usize,
) -> Option<*mut pg_sys::BackgroundWorkerHandle> {
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION)
            as c_int,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        bgw_main_arg: pg_sys::Datum::from(segment),
        // SAFETY: reads a variable set when the process started.
        bgw_notify_pid: unsafe { pg_sys::MyProcPid },
        ..Default::default()
    };
    put(
        &mut worker.bgw_name,
        &format!("chainify executor {}", index + 1),
    );
    put(&mut worker.bgw_type, "chainify executor");
    put(&mut worker.bgw_library_name, "chainify");
    put(&mut worker.bgw_function_name, "chainify_executor_worker");
    worker.bgw_extra[0] = index as c_char; // below WORKERS_MAX
    let mut handle = null_mut();
    // SAFETY: the description is copied; the handle is allocated in the caller's memory context.
    let registered = unsafe { pg_sys::RegisterDynamicBackgroundWorker(&mut worker, &mut handle) };
    registered.then_some(handle)
}

/// Writes a short text; the field is zeroed and longer than any text of ours.
fn put(field: &mut [c_char], text: &str) {
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

/// A worker's end.
pub struct Leader {
    to: *mut pg_sys::shm_mq_handle,
    from: *mut pg_sys::shm_mq_handle,
}

impl Leader {
    /// Waits for the next message; None when the leader is gone. Takes over changed settings first.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        // SAFETY: attached for the life of this process; settings are reread where the server does
        // so, too.
        unsafe {
            if std::ptr::read_volatile(&raw const pg_sys::ConfigReloadPending) != 0 {
                pg_sys::ConfigReloadPending = 0;
                pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
            }
            // A cancel request that comes now is meant for a part that is over.
            let held = pg_sys::QueryCancelHoldoffCount;
            pg_sys::QueryCancelHoldoffCount = held + 1;
            let message = receive(self.from, false).ok().flatten();
            pg_sys::QueryCancelHoldoffCount = held;
            pg_sys::QueryCancelPending = 0;
            message
        }
    }

    /// Sends an answer; false when the leader is gone.
    pub fn send(&mut self, message: &[u8]) -> bool {
        // SAFETY: attached for the life of this process.
        let sent = unsafe {
            pg_sys::shm_mq_send(self.to, message.len(), message.as_ptr().cast(), false, true)
        };
        sent == pg_sys::shm_mq_result::SHM_MQ_SUCCESS
    }
}

/// Where a worker's process starts; `argument` is the handle of the leader's segment.
#[no_mangle]
extern "C-unwind" fn chainify_executor_worker(argument: pg_sys::Datum) {
    // SAFETY: the whole body, with nothing to drop. The segment was laid out by `Pool::start`; it
    // is gone when that failed or the leader has ended since.
    unsafe {
        enter(|| {
            major::on_signal(SIGHUP, Some(SignalHandlerForConfigReload));
            major::on_signal(SIGTERM, Some(die));
            pg_sys::BackgroundWorkerUnblockSignals();
            let index = (*pg_sys::MyBgworkerEntry).bgw_extra[0] as usize;
            pg_sys::CurrentResourceOwner =
                pg_sys::ResourceOwnerCreate(null_mut(), c"chainify executor".as_ptr());
            let segment = pg_sys::dsm_attach(argument.value() as pg_sys::dsm_handle);
            if segment.is_null() {
                return;
            }
            pg_sys::dsm_pin_mapping(segment);
            let header = pg_sys::dsm_segment_address(segment).cast::<Header>();
            let [to, from] =
                [false, true].map(|f| queue(header, index, f).cast::<pg_sys::shm_mq>());
            pg_sys::shm_mq_set_receiver(to, pg_sys::MyProc);
            pg_sys::shm_mq_set_sender(from, pg_sys::MyProc);
            pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let from_leader = pg_sys::shm_mq_attach(to, segment, null_mut());
            let to_leader = pg_sys::shm_mq_attach(from, segment, null_mut());
            let database = pg_sys::Oid::from((*header).database);
            pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
            SHARED.set((header, index + 1));
            let mut leader = Leader {
                to: to_leader,
                from: from_leader,
            };
            let Some(serve) = SERVE.get() else {
                PgError::new(b"XX000", "executor worker has nothing to run").raise()
            };
            serve(&mut leader);
        })
    }
}

/// The waits of the leader's commits, by the numbers that PostgreSQL gives these values.
const SYNCHRONOUS_COMMIT: [&CStr; 5] = [c"off", c"local", c"remote_write", c"on", c"remote_apply"];

fn synchronous_commit() -> &'static CStr {
    let number = shared(|header, _| header.synchronous_commit);
    let name = number.and_then(|n| SYNCHRONOUS_COMMIT.get(usize::try_from(n).ok()?).copied());
    name.unwrap_or(c"on")
}

/// Sets a worker's session: its search_path finds PostgreSQL's own objects alone, and its commits
/// wait as the leader's do (`synchronous_commit`).
pub fn settle_worker() {
    for (name, value) in [
        (c"application_name", c"chainify executor"),
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"synchronous_commit", synchronous_commit()),
        (c"statement_timeout", c"0"),
        (c"idle_in_transaction_session_timeout", c"0"),
        (c"lock_timeout", c"0"),
        (c"exit_on_error", c"off"),
    ]
    .into_iter()
    .chain(major::OF_SESSIONS.iter().copied())
    {
        // SAFETY: names and values are C strings of settings that exist.
        unsafe {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_SESSION,
            );
        }
    }
}
