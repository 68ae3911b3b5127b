//! Functions that return a set in pieces, from a query that stays open between their calls.
//!
//! PostgreSQL calls such a function once for each value (funcapi.h, value per call). So the first
//! piece goes out before the last row is read, and memory holds the rows of one piece.
//!
//! The query runs in the executor without a portal, as queries of SQL functions do (functions.c).
//! Its locks and memory belong to the calling query. They end with the calling query, or survive a
//! COMMIT together with it. A portal would be one more cursor of the session: the session could
//! close it, and a COMMIT would close or refuse it.
use std::mem::{replace, size_of};
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::cursor::Row;
use crate::base::error::{catch_c, enter, OrRaise, PgError};
use crate::base::function::{Answer, Call};
use crate::base::major::Run;
use crate::base::memory::Context;
use crate::base::own_search_path::own_path;
use crate::base::spi::{self, connect, connected, SpiClient};

/// A piece ends with the row that brings it to so many bytes.
const BYTES: usize = 256 << 10;

/// One of our own queries, which changes nothing. It sees what the calling statement sees.
pub struct Query {
    sql: String,
    args: Vec<Cell>,
    is_kept: bool,
}

impl Query {
    /// Its plan is kept for the session.
    pub fn kept(sql: String, args: Vec<Cell>) -> Self {
        let is_kept = true;
        Query { sql, args, is_kept }
    }

    /// Its text is made up; its plan is not kept.
    pub fn once(sql: String) -> Self {
        let (args, is_kept) = (Vec::new(), false);
        Query { sql, args, is_kept }
    }

    /// Needs [`connected`]. The started query lives in `memory`.
    fn start(&self, memory: pg_sys::MemoryContext) -> *mut pg_sys::QueryDesc {
        match self.is_kept {
            true => spi::start(&self.sql, &self.args, memory),
            false => spi::start_once(&self.sql, memory),
        }
    }
}

/// The query of a set, from call to call; null after its last row.
struct Open(*mut pg_sys::QueryDesc);

impl Call<'_> {
    /// The next piece of a set of bytea. `query` is called for the first one. `add` appends a row
    /// of its result to the piece.
    pub fn pieces(
        &mut self,
        query: impl FnOnce(&Self, &SpiClient<'_>) -> Query,
        add: impl FnMut(&Row<'_>, &mut Vec<u8>),
    ) -> Answer {
        // SAFETY: fcinfo is valid, and `set` was checked. What is open was made by the first call
        // and lives as long as the calls' memory; it is closed before that ends.
        unsafe {
            let fcinfo = self.fcinfo();
            let set = value_per_call(fcinfo);
            if (*(*fcinfo).flinfo).fn_extra.is_null() {
                let calls = pg_sys::init_MultiFuncCall(fcinfo);
                let memory = (*calls).multi_call_memory_ctx;
                let started = connect(|client| query(self, client).start(memory));
                let open = pg_sys::MemoryContextAlloc(memory, size_of::<Open>()).cast::<Open>();
                open.write(Open(started));
                (*calls).user_fctx = open.cast();
                pg_sys::RegisterExprContextCallback((*set).econtext, Some(ended), open.into());
            }
            let calls = pg_sys::per_MultiFuncCall(fcinfo);
            let open = (*calls).user_fctx.cast::<Open>();
            let piece = read(&mut *open, add);
            if !piece.is_empty() {
                (*set).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
                return self.value(piece);
            }
            pg_sys::UnregisterExprContextCallback((*set).econtext, Some(ended), open.into());
            pg_sys::end_MultiFuncCall(fcinfo, calls);
            (*set).isDone = pg_sys::ExprDoneCond::ExprEndResult;
            self.no_value()
        }
    }
}

/// How the caller takes the set. Raises 0A000 where it takes none, or none in pieces.
///
/// # Safety
/// `fcinfo` must be that of a call.
unsafe fn value_per_call(fcinfo: pg_sys::FunctionCallInfo) -> *mut pg_sys::ReturnSetInfo {
    let wanted = pg_sys::SetFunctionReturnMode::SFRM_ValuePerCall as i32;
    // SAFETY: by the caller's promise; the tag says what it is.
    unsafe {
        let info = (*fcinfo).resultinfo;
        let is_set = !info.is_null() && (*info).type_ == pg_sys::NodeTag::T_ReturnSetInfo;
        let set = info.cast::<pg_sys::ReturnSetInfo>();
        if !is_set || (*set).allowedModes & wanted == 0 {
            PgError::new(
                b"0A000",
                "the function gives a set, which is not taken here",
            )
            .raise();
        }
        set
    }
}

/// Takes rows into a piece.
#[repr(C)]
struct Receiver<'a> {
    base: pg_sys::DestReceiver,
    piece: Vec<u8>,
    add: &'a mut dyn FnMut(&Row<'_>, &mut Vec<u8>),
    /// Of the rows of the piece.
    memory: Context,
}

/// The next rows in one piece; empty after the last.
///
/// # Safety
/// The query must have started, in the query that calls.
unsafe fn read(open: &mut Open, mut add: impl FnMut(&Row<'_>, &mut Vec<u8>)) -> Vec<u8> {
    let query = open.0;
    if query.is_null() {
        return Vec::new();
    }
    // SAFETY: a static structure, whose other functions do nothing.
    let nothing = unsafe { *pg_sys::None_Receiver };
    connected(|| {
        let mut receiver = Receiver {
            base: pg_sys::DestReceiver {
                receiveSlot: Some(receive),
                ..nothing
            },
            piece: Vec::new(),
            add: &mut add,
            memory: Context::child(c"chainify piece"),
        };
        // SAFETY: by the caller's promise; the receiver outlives the run, and each run has its own.
        // After an ERROR the query does not run again.
        let ran = own_path(|| unsafe {
            (*query).dest = (&raw mut receiver).cast();
            pg_sys::PushActiveSnapshot((*query).snapshot);
            let ran = catch_c(|| Run::on(query).go_on(pg_sys::ExecutorRun_hook));
            if ran.is_ok() {
                pg_sys::PopActiveSnapshot();
            }
            ran
        });
        ran.or_raise();
        if receiver.piece.len() < BYTES {
            // SAFETY: it ran to its end.
            unsafe { close(open) };
        }
        receiver.piece
    })
}

/// Takes a row. False: the piece is complete.
unsafe extern "C-unwind" fn receive(
    slot: *mut pg_sys::TupleTableSlot,
    receiver: *mut pg_sys::DestReceiver,
) -> bool {
    // SAFETY: the receiver is the one of `read`, which the executor alone uses meanwhile. The slot
    // has a row.
    unsafe {
        enter(|| {
            let receiver = &mut *receiver.cast::<Receiver<'_>>();
            let Receiver {
                piece, add, memory, ..
            } = receiver;
            memory.enter(|| {
                let mut is_copy = false;
                let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, &raw mut is_copy);
                add(&Row::alone(tuple, (*slot).tts_tupleDescriptor), piece);
            });
            piece.len() < BYTES
        })
    }
}

/// Called where the query that takes the set ends before the set does. After an ERROR it is not:
/// then PostgreSQL gives back what the query holds.
unsafe extern "C-unwind" fn ended(open: pg_sys::Datum) {
    // SAFETY: registered with what is open, and unregistered before that goes.
    unsafe { enter(|| close(&mut *open.cast_mut_ptr::<Open>())) }
}

/// # Safety
/// The query must have started, or be null.
unsafe fn close(open: &mut Open) {
    // SAFETY: by the caller's promise; it is closed once.
    unsafe {
        let query = replace(&mut open.0, null_mut());
        if !query.is_null() {
            pg_sys::ExecutorFinish(query);
            pg_sys::ExecutorEnd(query);
            pg_sys::FreeQueryDesc(query);
        }
    }
}
