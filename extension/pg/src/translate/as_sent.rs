//! Passes rows of the worker's answer to the client as the worker sent them.
//!
//! A DataRow message of texts is the same from the worker and from PostgreSQL, as long as the
//! session prints values as the worker does. So no value is decoded and encoded again.
//!
//! The executor sees rows of NULLs, so that it counts them and applies LIMIT as ever. A
//! DestReceiver in front of the client's sends the worker's message in their place.
use std::ffi::{c_char, c_int, CStr};

use pgrx::pg_sys;

use super::scan::Scan;
use crate::base::error::enter;
use crate::base::major::{self, Run};

/// Stands in front of the receiver of a client.
#[repr(C)]
struct Receiver {
    base: pg_sys::DestReceiver,
    client: *mut pg_sys::DestReceiver,
    scan: Scan,
}

/// Runs a query by `next`.
///
/// # Safety
/// The arguments must be those of the hook; `next` must own nothing that needs dropping.
#[inline]
pub(crate) unsafe fn run(run: Run, next: impl FnOnce(Run)) {
    // SAFETY: the query is the executor's. The receiver lives as long as the query, and is taken
    // back before the hook ends. After an ERROR the query does not run again.
    unsafe {
        let query = run.query;
        let client = (*query).dest;
        if !is_client(client) {
            return next(run);
        }
        if let Some(receiver) = enter(|| in_front(query)) {
            (*query).dest = receiver;
        }
        next(run);
        (*query).dest = client;
    }
}

/// A receiver for the rows of the worker; None: the query is another, or its rows have to be read.
///
/// # Safety
/// The query must have started, and its rows must go to a client.
unsafe fn in_front(query: *mut pg_sys::QueryDesc) -> Option<*mut pg_sys::DestReceiver> {
    // SAFETY: by the caller's promise; the receiver is made in the memory of the query.
    unsafe {
        let client = (*query).dest;
        let scan = Scan::on_top((*query).planstate)?;
        if !reads_texts_once(query) || !are_shown_alike((*query).tupDesc) {
            return None;
        }
        if !scan.send_as_they_come() {
            return None;
        }
        let memory = (*(*query).estate).es_query_cxt;
        let receiver = pg_sys::MemoryContextAlloc(memory, size_of::<Receiver>()).cast::<Receiver>();
        let base = pg_sys::DestReceiver {
            receiveSlot: Some(receive),
            rStartup: Some(start_up),
            rShutdown: Some(shut_down),
            rDestroy: None, // nobody destroys the receiver of a query
            mydest: (*client).mydest,
        };
        receiver.write(Receiver { base, client, scan });
        Some(receiver.cast())
    }
}

/// # Safety
/// `receiver` must be one.
unsafe fn is_client(receiver: *mut pg_sys::DestReceiver) -> bool {
    use pg_sys::CommandDest::{DestRemote, DestRemoteExecute};
    // SAFETY: by the caller's promise.
    unsafe { [DestRemote, DestRemoteExecute].contains(&(*receiver).mydest) }
}

/// Whether the rows go to a client as texts, and nobody else can ask for some of them: a statement
/// cannot name the portal.
///
/// # Safety
/// The query must have started.
unsafe fn reads_texts_once(query: *mut pg_sys::QueryDesc) -> bool {
    // SAFETY: the portal that runs is there, with a format for each column.
    unsafe {
        let portal = (&raw const pg_sys::ActivePortal).read();
        let Some(portal) = portal.as_ref().filter(|p| p.queryDesc == query) else {
            return false;
        };
        let texts = || {
            let count = (*(*query).tupDesc).natts as usize;
            let formats = std::slice::from_raw_parts(portal.formats, count);
            formats.iter().all(|format| *format == 0)
        };
        let is_unnamed = CStr::from_ptr(portal.name).is_empty();
        let kept = pg_sys::CURSOR_OPT_HOLD as c_int | pg_sys::CURSOR_OPT_SCROLL as c_int;
        is_unnamed && portal.cursorOptions & kept == 0 && !portal.formats.is_null() && texts()
    }
}

/// Whether this session shows the values of all columns as the worker does (spec/analytics.md,
/// "Values").
///
/// # Safety
/// `columns` must be valid.
unsafe fn are_shown_alike(columns: pg_sys::TupleDesc) -> bool {
    // SAFETY: settings are read; the descriptor is valid by the caller's promise.
    unsafe {
        let utf8 = pg_sys::pg_enc::PG_UTF8 as c_int;
        pg_sys::GetDatabaseEncoding() == utf8
            && pg_sys::pg_get_client_encoding() == utf8
            && major::attributes(columns)
                .iter()
                .all(|column| is_shown_alike(column.atttypid))
    }
}

fn is_shown_alike(of: pg_sys::Oid) -> bool {
    let is = |name: &CStr, values: &[&str]| setting(name).is_some_and(|v| values.contains(&&*v));
    let iso = || setting(c"DateStyle").is_some_and(|style| style.starts_with("ISO"));
    match of {
        pg_sys::BOOLOID
        | pg_sys::INT2OID
        | pg_sys::INT4OID
        | pg_sys::INT8OID
        | pg_sys::NUMERICOID
        | pg_sys::TEXTOID
        | pg_sys::VARCHAROID
        | pg_sys::BPCHAROID
        | pg_sys::UUIDOID
        | pg_sys::TIMEOID => true,
        pg_sys::DATEOID | pg_sys::TIMESTAMPOID => iso(),
        pg_sys::TIMESTAMPTZOID => iso() && is(c"TimeZone", &["UTC", "Etc/UTC"]),
        pg_sys::FLOAT4OID | pg_sys::FLOAT8OID => is(c"extra_float_digits", &["1", "2", "3"]),
        pg_sys::BYTEAOID => is(c"bytea_output", &["hex"]),
        pg_sys::INTERVALOID => is(c"IntervalStyle", &["postgres"]),
        _ => false,
    }
}

/// The value of a setting.
fn setting(name: &CStr) -> Option<String> {
    // SAFETY: a C string, or null where there is none of that name.
    unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}

unsafe extern "C-unwind" fn receive(
    slot: *mut pg_sys::TupleTableSlot,
    receiver: *mut pg_sys::DestReceiver,
) -> bool {
    // SAFETY: the receiver is one of `in_front`. Rows of PostgreSQL's own plan, where the worker
    // does not answer, go the usual way.
    unsafe {
        let receiver = &*receiver.cast::<Receiver>();
        if let Some(message) = enter(|| receiver.scan.message()) {
            enter(|| {
                let mut out = pg_sys::StringInfoData::default();
                pg_sys::pq_beginmessage(&mut out, b'D' as c_char);
                pg_sys::pq_sendbytes(&mut out, message.as_ptr().cast(), message.len() as c_int);
                pg_sys::pq_endmessage(&mut out);
            });
            return true;
        }
        let client = receiver.client;
        (*client)
            .receiveSlot
            .is_none_or(|receive| receive(slot, client))
    }
}

unsafe extern "C-unwind" fn start_up(
    receiver: *mut pg_sys::DestReceiver,
    operation: c_int,
    columns: pg_sys::TupleDesc,
) {
    // SAFETY: the arguments are passed on.
    unsafe {
        let client = (*receiver.cast::<Receiver>()).client;
        if let Some(start_up) = (*client).rStartup {
            start_up(client, operation, columns);
        }
    }
}

unsafe extern "C-unwind" fn shut_down(receiver: *mut pg_sys::DestReceiver) {
    // SAFETY: as above.
    unsafe {
        let client = (*receiver.cast::<Receiver>()).client;
        if let Some(shut_down) = (*client).rShutdown {
            shut_down(client);
        }
    }
}
