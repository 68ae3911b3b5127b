//! Runs a client's statement a second time, with the same values.
//!
//! Sessions that lost a conflict on the same row wait for each other, so that each of them succeeds
//! in the end.
use std::ffi::{c_char, c_int, CStr};
use std::ptr::{null, null_mut};
use std::time::Duration;

use pgrx::pg_sys;

use crate::base::backend::BACKEND;
use crate::base::error::attempt_undone;
use crate::base::major;

/// A longer text, and larger values, are not kept.
const TEXT_BYTES_MAX: usize = 1 << 20;
const VALUES_BYTES_MAX: usize = 1 << 20;

/// Tells locks on rows' turns from advisory locks of clients, which have 1 and 2 there.
const TURN: u16 = 0xC41F;

mod raw {
    use super::c_int;
    extern "C-unwind" {
        /// timeout.h; the identifiers of these two are the same in PostgreSQL 15 to 18.
        pub(crate) fn disable_timeout(timeout: c_int, keep_indicator: bool);
        pub(crate) fn enable_timeout_after(timeout: c_int, milliseconds: c_int);
    }
    pub(crate) const STATEMENT_TIMEOUT: c_int = 3;
    pub(crate) const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: c_int = 7;
}

/// Keeps a statement of the session. False: it is another than the one that the client sent, such
/// as that of an EXECUTE, or it is too large.
///
/// # Safety
/// The query must be about to start.
pub(super) unsafe fn keep(query: &pg_sys::QueryDesc) -> bool {
    // SAFETY: texts are C strings. Contexts below the top one live until they are deleted; values
    // of a portal need none of PostgreSQL's callbacks to be copied.
    unsafe {
        if query.sourceText.is_null() {
            return false;
        }
        let text = CStr::from_ptr(query.sourceText);
        if text.count_bytes() > TEXT_BYTES_MAX || !is_request(query) {
            return false;
        }
        let values = query.params;
        if !values.is_null() && pg_sys::EstimateParamListSpace(values) > VALUES_BYTES_MAX {
            return false;
        }
        if BACKEND.session.again.memory.get().is_null() {
            BACKEND.session.again.memory.set(new_context());
        }
        pg_sys::MemoryContextReset(BACKEND.session.again.memory.get());
        let before = pg_sys::MemoryContextSwitchTo(BACKEND.session.again.memory.get());
        BACKEND
            .session
            .again
            .text
            .set(pg_sys::pstrdup(query.sourceText));
        BACKEND
            .session
            .again
            .values
            .set(pg_sys::copyParamList(values));
        pg_sys::MemoryContextSwitchTo(before);
    }
    true
}

/// Whether the text of a statement is all that the client sent.
///
/// # Safety
/// The query must be about to start.
pub(super) unsafe fn is_request(query: &pg_sys::QueryDesc) -> bool {
    // SAFETY: texts are C strings or null.
    unsafe {
        let (text, request) = (query.sourceText, pg_sys::debug_query_string);
        !text.is_null() && !request.is_null() && CStr::from_ptr(text) == CStr::from_ptr(request)
    }
}

fn new_context() -> pg_sys::MemoryContext {
    // SAFETY: the name is static, and the context lives until it is deleted.
    unsafe {
        pg_sys::AllocSetContextCreateExtended(
            pg_sys::TopMemoryContext,
            c"chainify statement that may run again".as_ptr(),
            0,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}

/// # Safety
/// The text must be one that has been parsed before.
unsafe fn one_statement(text: *const c_char) -> Option<*mut pg_sys::RawStmt> {
    // SAFETY: the list is of raw statements.
    unsafe {
        let parsed = pg_sys::pg_parse_query(text).as_ref()?;
        (parsed.length == 1).then(|| (*parsed.elements).ptr_value.cast())
    }
}

/// Runs it in a transaction of its own and tells the client how many rows it changed. Raises its
/// error, and leaves the transaction to PostgreSQL's clean-up then.
///
/// No transaction may be in progress, and no portal may run.
pub(super) fn run() {
    let text = BACKEND.session.again.text.get();
    // SAFETY: text and values are there until the next statement is kept.
    unsafe {
        pg_sys::debug_query_string = text;
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        let completion = execute(text, BACKEND.session.again.values.get());
        // The part stays open, if there is one: it ends with the message.
        pg_sys::CommitTransactionCommand();
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
        if let Some(completion) = &completion {
            pg_sys::EndCommand(completion, pg_sys::CommandDest::DestRemote, false);
        }
        pg_sys::debug_query_string = null();
    }
}

/// Runs a statement in the transaction in progress. None: the text has several. Raises its error.
///
/// # Safety
/// Text and values must live until the end of the call, and no portal may run.
unsafe fn execute(
    text: *const c_char,
    values: pg_sys::ParamListInfo,
) -> Option<pg_sys::QueryCompletion> {
    // SAFETY: by the caller's promise. What is made on the way lives in the message's context and
    // in the portal. Lists are those of the functions before.
    unsafe {
        pg_sys::MemoryContextSwitchTo(pg_sys::MessageContext);
        if pg_sys::StatementTimeout > 0 {
            raw::enable_timeout_after(raw::STATEMENT_TIMEOUT, pg_sys::StatementTimeout);
        }
        let types: Vec<_> = match values.as_ref() {
            Some(list) => {
                let of = |value: &pg_sys::ParamExternData| value.ptype;
                list.params
                    .as_slice(list.numParams as usize)
                    .iter()
                    .map(of)
                    .collect()
            }
            None => Vec::new(),
        };
        let statement = one_statement(text)?;
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let queries = pg_sys::pg_analyze_and_rewrite_fixedparams(
            statement,
            text,
            types.as_ptr(),
            types.len() as c_int,
            null_mut(),
        );
        let parallel = pg_sys::CURSOR_OPT_PARALLEL_OK as c_int;
        let plans = pg_sys::pg_plan_queries(queries, text, parallel, values);
        pg_sys::PopActiveSnapshot();
        let portal = pg_sys::CreatePortal(c"".as_ptr(), true, true);
        (*portal).visible = false;
        let tag = pg_sys::CreateCommandTag((*statement).stmt);
        pg_sys::PortalDefineQuery(portal, null(), text, tag, plans, null_mut());
        pg_sys::PortalStart(portal, values, 0, null_mut());
        pg_sys::PortalSetResultFormat(portal, 0, null_mut());
        let receiver = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestNone);
        let mut completion = pg_sys::QueryCompletion::default();
        major::run_portal(portal, receiver, &mut completion);
        if let Some(destroy) = (*receiver).rDestroy {
            destroy(receiver);
        }
        pg_sys::PortalDrop(portal, false);
        raw::disable_timeout(raw::STATEMENT_TIMEOUT, false);
        Some(completion)
    }
}

/// Whether this session may go on.
pub(super) enum Turn {
    Mine,
    /// Others had the row for all the time there was.
    TooLate,
}

/// Waits until it is this session's turn for a row, at most `left`. Holds nothing meanwhile, so
/// that no two sessions wait for each other. Raises when it is cancelled.
pub(super) fn take_turn(row: u32, left: Duration) -> Turn {
    if BACKEND.session.again.turn.get() == Some(row) {
        return Turn::Mine;
    }
    end_turn();
    let tag = turn(row);
    let limit = c_int::try_from(left.as_millis())
        .unwrap_or(c_int::MAX)
        .max(1);
    // SAFETY: no transaction is in progress; the one that is begun ends here, and the lock outlives
    // it. The setting is put back at once.
    let waited = unsafe {
        let of_session = pg_sys::LockTimeout;
        pg_sys::StartTransactionCommand();
        pg_sys::LockTimeout = limit;
        let exclusive = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        let waited = attempt_undone(|| pg_sys::LockAcquire(&tag, exclusive, true, false));
        pg_sys::LockTimeout = of_session;
        waited
    };
    match waited {
        Ok(_) => {
            BACKEND.session.again.turn.set(Some(row));
            // SAFETY: the transaction has done nothing.
            unsafe { pg_sys::CommitTransactionCommand() };
            Turn::Mine
        }
        Err(error) => {
            // SAFETY: no portal runs.
            unsafe { pg_sys::AbortOutOfAnyTransaction() };
            match error.sqlstate.as_str() {
                "55P03" => Turn::TooLate,
                _ => error.raise(),
            }
        }
    }
}

/// The next session has its turn.
pub(super) fn end_turn() {
    if let Some(row) = BACKEND.session.again.turn.take() {
        let tag = turn(row);
        // SAFETY: the lock is the session's and needs no transaction.
        unsafe { pg_sys::LockRelease(&tag, pg_sys::ExclusiveLock as pg_sys::LOCKMODE, true) };
    }
}

fn turn(row: u32) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: a variable of this process.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: 0,
        locktag_field3: row,
        locktag_field4: TURN,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// From 0 to 1.
pub(super) fn random() -> f64 {
    // SAFETY: the state is this process's, seeded at its start.
    unsafe { pg_sys::pg_prng_double(&raw mut pg_sys::pg_global_prng_state) }
}

/// The session works for its client, who waits.
pub(super) fn show_busy() {
    // SAFETY: the text is there until the next statement is kept, and copied. A timeout that does
    // not run is not ended.
    unsafe {
        raw::disable_timeout(major::idle_session_timeout(), false);
        raw::disable_timeout(raw::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, false);
        pg_sys::pgstat_report_activity(
            pg_sys::BackendState::STATE_RUNNING,
            BACKEND.session.again.text.get(),
        );
    }
}

/// It waits for its client again.
pub(super) fn show_idle() {
    // SAFETY: as above.
    unsafe {
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, null());
        if pg_sys::IdleSessionTimeout > 0 {
            raw::enable_timeout_after(major::idle_session_timeout(), pg_sys::IdleSessionTimeout);
        }
    }
}
