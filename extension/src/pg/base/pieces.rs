//! Sets that a function gives in pieces, from a query that stays open between its calls.
//!
//! PostgreSQL calls such a function once for each value (funcapi.h, value per call). So the first
//! piece goes out before the last row is read, and memory holds the rows of one piece.
use std::ffi::c_long;
use std::mem::size_of;
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::pg::base::cell::Cell;
use crate::pg::base::cursor::Row;
use crate::pg::base::error::{enter, PgError};
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::own_search_path::own_path;
use crate::pg::base::spi::{self, connect, connected, SpiClient};

/// Rows that are fetched at once, whatever their size.
const ROWS: c_long = 16;
/// A piece ends with the rows that bring it to so many bytes.
const BYTES: usize = 256 << 10;

/// A query that changes nothing, under the snapshot of the calling statement. A set keeps it from
/// call to call.
pub struct Open {
    /// Pinned, so that no CLOSE of the caller ends it and no other cursor takes its name. Null
    /// after the end.
    portal: pg_sys::Portal,
}

impl Open {
    /// Opens one of our own queries; its plan is kept for the session.
    pub fn kept(_connection: &SpiClient<'_>, sql: &str, args: &[Cell]) -> Self {
        Open::pinned(spi::open(sql, args))
    }

    /// Opens a query whose text is made up; its plan is not kept.
    pub fn once(_connection: &SpiClient<'_>, sql: &str) -> Self {
        Open::pinned(spi::open_once(sql))
    }

    fn pinned(portal: pg_sys::Portal) -> Self {
        // SAFETY: it was opened just now.
        unsafe { pg_sys::PinPortal(portal) };
        Open { portal }
    }
}

impl Call<'_> {
    /// The next piece of a set of bytea. `open` runs at the first call. `add` appends a row of the
    /// query's result to the piece.
    pub fn pieces(
        &mut self,
        open: impl FnOnce(&Self, &SpiClient<'_>) -> Open,
        add: impl FnMut(&Row<'_>, &mut Vec<u8>),
    ) -> Answer {
        // SAFETY: fcinfo is valid, and `set` was checked. What is open was made by the first call
        // and lives as long as the calls' memory; it is closed before that ends.
        unsafe {
            let fcinfo = self.fcinfo();
            let set = value_per_call(fcinfo);
            if (*(*fcinfo).flinfo).fn_extra.is_null() {
                let opened = connect(|client| open(self, client));
                let calls = pg_sys::init_MultiFuncCall(fcinfo);
                let memory = (*calls).multi_call_memory_ctx;
                let kept = pg_sys::MemoryContextAlloc(memory, size_of::<Open>()).cast::<Open>();
                kept.write(opened);
                (*calls).user_fctx = kept.cast();
                pg_sys::RegisterExprContextCallback((*set).econtext, Some(ended), kept.into());
            }
            let calls = pg_sys::per_MultiFuncCall(fcinfo);
            let kept = (*calls).user_fctx.cast::<Open>();
            let piece = read((*kept).portal, add);
            if !piece.is_empty() {
                (*set).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
                return self.value(piece);
            }
            pg_sys::UnregisterExprContextCallback((*set).econtext, Some(ended), kept.into());
            close(kept);
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

/// The next rows in one piece; empty after the last.
///
/// # Safety
/// The portal must be open.
unsafe fn read(portal: pg_sys::Portal, mut add: impl FnMut(&Row<'_>, &mut Vec<u8>)) -> Vec<u8> {
    let mut piece = Vec::new();
    // SAFETY: by the caller's promise; SPI_tuptable is that of the call before, freed once.
    let mut fetch = || unsafe {
        pg_sys::check_for_interrupts!();
        pg_sys::SPI_cursor_fetch(portal, true, ROWS);
        let rows = pg_sys::SPI_tuptable;
        let count = (*rows).numvals as usize;
        for at in 0..count {
            add(&Row::of(rows, at), &mut piece);
        }
        pg_sys::SPI_freetuptable(rows);
        count as c_long == ROWS && piece.len() < BYTES
    };
    connected(|| own_path(|| while fetch() {}));
    piece
}

/// Called where the query that takes the set ends before the set does. After an ERROR it is not:
/// then PostgreSQL has closed the portal.
unsafe extern "C-unwind" fn ended(kept: pg_sys::Datum) {
    // SAFETY: registered with what is open, and unregistered before that goes.
    unsafe { enter(|| close(kept.cast_mut_ptr::<Open>())) }
}

/// # Safety
/// `kept` must be what the first call made.
unsafe fn close(kept: *mut Open) {
    // SAFETY: by the caller's promise; it is closed once.
    unsafe {
        let portal = std::mem::replace(&mut (*kept).portal, null_mut());
        if !portal.is_null() {
            pg_sys::UnpinPortal(portal);
            pg_sys::SPI_cursor_close(portal);
        }
    }
}
