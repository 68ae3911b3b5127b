//! A scan that gives the rows of the worker's answer. When the worker fails it gives those of
//! PostgreSQL's own plan below it. The whole answer is there before the first row goes up.
use std::ffi::{c_char, c_int, CStr, CString};

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use super::analysed::Translated;
use super::constants::zone_is_utc;
use super::worker::ABOVE;
use crate::base::error::{catch_c, enter, OrRaise, PgError};
use crate::base::lists::{elements, nodes};
use crate::base::major;
use crate::base::memory::Context;
use crate::base::text_rows::TextReader;

const NAME: &CStr = c"Chainify Analytics";

/// Methods hold pointers to static text alone.
struct Methods<T>(T);
// SAFETY: never changed, and read by the only thread of a backend.
unsafe impl<T> Sync for Methods<T> {}

static PLAN_METHODS: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static RUN_METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: NAME.as_ptr(),
    BeginCustomScan: Some(begin),
    ExecCustomScan: Some(next_row),
    EndCustomScan: Some(end),
    ReScanCustomScan: Some(rescan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: None,
    InitializeDSMCustomScan: None,
    ReInitializeDSMCustomScan: None,
    InitializeWorkerCustomScan: None,
    ShutdownCustomScan: None,
    ExplainCustomScan: Some(explain),
});

/// Greater than the numbers that the planner gives nodes.
const NODE_ID: c_int = 1_000_000_000;

/// The state of a scan. Everything it points to is PostgreSQL's.
#[repr(C)]
struct State {
    base: pg_sys::CustomScanState,
    /// PostgreSQL's own plan.
    own: *mut pg_sys::PlanState,
    /// The rows of the answer; null before it is asked for, and when there is none.
    store: *mut pg_sys::Tuplestorestate,
    row: *mut pg_sys::TupleTableSlot,
    asked: bool,
    /// The store holds messages for the client in place of rows ([`super::as_sent`]).
    as_sent: bool,
    /// Their one column; null where they are not wanted.
    message: *mut pg_sys::TupleTableSlot,
    /// The last block when a cursor was opened; negative: the scan is of no cursor.
    at: i64,
    /// The block whose rows the worker answered with; 0: it named none.
    block: i64,
    /// Why the own plan runs; null: it does not.
    reason: *const c_char,
}

/// A scan that is the whole plan of a query, while the query runs.
#[derive(Clone, Copy)]
pub(super) struct Scan(*mut State);

impl Scan {
    /// None: the plan is another.
    ///
    /// # Safety
    /// `plan` must be the state of a plan that has started.
    pub(super) unsafe fn on_top(plan: *mut pg_sys::PlanState) -> Option<Scan> {
        // SAFETY: by the caller's promise; the tag says which structure follows.
        unsafe {
            if plan.is_null() || (*plan).type_ != T_CustomScanState {
                return None;
            }
            let scan = plan.cast::<pg_sys::CustomScanState>();
            let ours = std::ptr::eq((*scan).methods, &raw const RUN_METHODS.0);
            ours.then_some(Scan(scan.cast()))
        }
    }

    /// Has the rows kept as messages; false: they are there already, as rows.
    ///
    /// # Safety
    /// As for [`Scan::on_top`], and the query still runs.
    pub(super) unsafe fn send_as_they_come(self) -> bool {
        // SAFETY: by the caller's promise; descriptor and slot belong to the query's memory.
        unsafe {
            let state = &mut *self.0;
            if state.asked {
                return state.as_sent;
            }
            if !state.as_sent {
                let estate = state.base.ss.ps.state;
                let old = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
                let columns = pg_sys::CreateTemplateTupleDesc(1);
                let name = c"message".as_ptr();
                pg_sys::TupleDescInitEntry(columns, 1, name, pg_sys::BYTEAOID, -1, 0);
                let kind = &raw const pg_sys::TTSOpsMinimalTuple;
                state.message = pg_sys::ExecInitExtraTupleSlot(estate, columns, kind);
                state.as_sent = true;
                pg_sys::MemoryContextSwitchTo(old);
            }
            true
        }
    }

    /// The message of the row that the scan gave last; None: it gave one of PostgreSQL's own plan.
    ///
    /// # Safety
    /// As for [`Scan::send_as_they_come`]. The next row ends the message.
    pub(super) unsafe fn message<'m>(self) -> Option<&'m [u8]> {
        // SAFETY: by the caller's promise; the slot has a row of one bytea.
        unsafe {
            let state = &*self.0;
            if state.store.is_null() || !state.as_sent {
                return None;
            }
            pg_sys::slot_getsomeattrs(state.message, 1);
            let message = (*(*state.message).tts_values).cast_mut_ptr();
            Some(pgrx::varlena::varlena_to_byte_slice(message))
        }
    }
}

/// Marks of a plan, behind the worker's query: it is a cursor's; it means the same only while
/// TimeZone is UTC.
const OF_CURSOR: &CStr = c"cursor";
const IN_UTC: &CStr = c"UTC";

/// Puts the scan on top of a plan of the same query. That of a cursor, whose rows are asked for
/// later, sees the block that it began at.
///
/// # Safety
/// `plan` must be what the planner just made.
pub(super) unsafe fn put_on_top(
    plan: *mut pg_sys::PlannedStmt,
    translated: &Translated,
    is_cursor: bool,
) {
    // SAFETY: by the caller's promise; nodes are made in the current memory context, that of the
    // plan. The last field of a plan node is filled with its defaults.
    unsafe {
        let own = (*plan).planTree;
        let scan = pg_sys::palloc0(size_of::<pg_sys::CustomScan>()).cast::<pg_sys::CustomScan>();
        let node = &mut (*scan).scan.plan;
        node.type_ = T_CustomScan;
        node.startup_cost = (*own).startup_cost;
        node.total_cost = (*own).total_cost;
        node.plan_rows = (*own).plan_rows;
        node.plan_width = (*own).plan_width;
        node.plan_node_id = NODE_ID;
        node.extParam = (*own).extParam;
        node.allParam = (*own).allParam;
        let shown: Vec<_> = elements::<pg_sys::TargetEntry>((*own).targetlist)
            .into_iter()
            .filter(|target| !target.as_ref().resjunk)
            .collect();
        if shown.len() != translated.columns.len() {
            return;
        }
        for target in shown {
            let target = target.as_ref();
            let expr = target.expr.cast::<pg_sys::Node>();
            let (of, typmod) = (pg_sys::exprType(expr), pg_sys::exprTypmod(expr));
            let (collation, number) = (pg_sys::exprCollation(expr), target.resno);
            let value = pg_sys::makeNullConst(of, typmod, collation);
            let in_scan = pg_sys::makeTargetEntry(value.cast(), number, target.resname, false);
            (*scan).custom_scan_tlist = pg_sys::lappend((*scan).custom_scan_tlist, in_scan.cast());
            let var = pg_sys::makeVar(pg_sys::INDEX_VAR, number, of, typmod, collation, 0);
            let result = pg_sys::makeTargetEntry(var.cast(), number, target.resname, false);
            node.targetlist = pg_sys::lappend(node.targetlist, result.cast());
        }
        let sql = CString::new(translated.sql.replace('\0', "")).unwrap_or_default();
        let sql = pg_sys::makeString(pg_sys::pstrdup(sql.as_ptr()));
        (*scan).custom_private = pg_sys::lappend(std::ptr::null_mut(), sql.cast());
        for (mark, is_so) in [(OF_CURSOR, is_cursor), (IN_UTC, translated.needs_utc)] {
            if is_so {
                let mark = pg_sys::makeString(pg_sys::pstrdup(mark.as_ptr()));
                (*scan).custom_private = pg_sys::lappend((*scan).custom_private, mark.cast());
            }
        }
        (*scan).custom_plans = pg_sys::lappend(std::ptr::null_mut(), own.cast());
        (*scan).methods = &raw const PLAN_METHODS.0;
        (*plan).planTree = scan.cast();
    }
}

unsafe extern "C-unwind" fn create(_: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: zero is right for every field but these.
    unsafe {
        let state = pg_sys::palloc0(size_of::<State>()).cast::<State>();
        (*state).base.ss.ps.type_ = T_CustomScanState;
        (*state).base.methods = &raw const RUN_METHODS.0;
        state.cast()
    }
}

unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    flags: c_int,
) {
    // SAFETY: the node is one that `create` made; its plan has one plan below it.
    unsafe {
        enter(|| {
            let state = &mut *node.cast::<State>();
            let scan = state.base.ss.ps.plan.cast::<pg_sys::CustomScan>();
            let is_cursor = is_marked(state, OF_CURSOR);
            let above = ABOVE.get();
            let at_once = is_cursor && (above.wanted)();
            state.at = if at_once { (above.last_block)() } else { -1 };
            let own = nodes((*scan).custom_plans).next();
            let own = own.map_or(std::ptr::null_mut(), |own| own.as_ptr().cast());
            state.own = pg_sys::ExecInitNode(own, estate, flags);
            state.base.custom_ps = pg_sys::lappend(std::ptr::null_mut(), state.own.cast());
            let descriptor = (*state.base.ss.ss_ScanTupleSlot).tts_tupleDescriptor;
            let kind = &raw const pg_sys::TTSOpsMinimalTuple;
            state.row = pg_sys::ExecInitExtraTupleSlot(estate, descriptor, kind);
        });
    }
}

unsafe extern "C-unwind" fn next_row(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the node is one that `create` made and `begin` has started.
    unsafe {
        enter(|| {
            let state = &mut *node.cast::<State>();
            if !state.asked {
                ask(state);
                state.asked = true;
            }
            if state.store.is_null() {
                return own_row(state);
            }
            let row = match state.as_sent {
                true => state.message,
                false => state.row,
            };
            if !pg_sys::tuplestore_gettupleslot(state.store, true, false, row) {
                return pg_sys::ExecClearTuple(row);
            }
            match state.as_sent {
                true => pg_sys::ExecStoreAllNullTuple(state.base.ss.ss_ScanTupleSlot),
                false => row,
            }
        })
    }
}

/// Gathers the worker's answer; without one the own plan will run.
///
/// # Safety
/// `state` must be that of a scan that has begun.
unsafe fn ask(state: &mut State) {
    // SAFETY: by the caller's promise. The store is made in the memory of the query, and ended with
    // it when an ERROR comes between.
    unsafe {
        let descriptor = (*state.row).tts_tupleDescriptor;
        let attributes = major::attributes(descriptor);
        let old = pg_sys::MemoryContextSwitchTo((*state.base.ss.ps.state).es_query_cxt);
        let store = pg_sys::tuplestore_begin_heap(false, false, pg_sys::work_mem);
        let mut reader = TextReader::new(attributes.iter().map(|a| a.atttypid));
        let context = Context::child(c"chainify row");
        let mut here: Option<PgError> = None;
        let at = (state.at >= 0).then_some(state.at);
        // The plan may be kept from a time when the session had changed nothing, and no setting.
        let same_zone = zone_is_utc() || !is_marked(state, IN_UTC);
        let above = ABOVE.get();
        let answered = match same_zone && (above.wanted)() {
            true => (above.ask)(&query_of(state), at, &mut |row| {
                let put = context.enter(|| {
                    if state.as_sent {
                        reader.check(row.fields)?;
                        put_message(store, state.message, row.message);
                        return Ok(());
                    }
                    let (mut values, mut nulls) = reader.read(row.fields)?;
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    pg_sys::tuplestore_putvalues(store, descriptor, values, nulls);
                    Ok(())
                });
                context.reset();
                here = put.as_ref().err().cloned();
                put
            }),
            false => Err(PgError::new(b"55000", "the session does not want it now")),
        };
        if let Some(error) = here {
            error.raise();
        }
        match answered {
            Ok(block) => (state.store, state.block) = (store, block.unwrap_or(0)),
            Err(error) if error.sqlstate.as_str().starts_with("57") => error.raise(),
            Err(error) => {
                pg_sys::tuplestore_end(store);
                let reason = CString::new(error.message.replace('\0', "")).unwrap_or_default();
                state.reason = pg_sys::pstrdup(reason.as_ptr());
            }
        }
        pg_sys::MemoryContextSwitchTo(old);
    }
}

/// # Safety
/// The slot must be that of messages, and the store have none but these.
unsafe fn put_message(
    store: *mut pg_sys::Tuplestorestate,
    slot: *mut pg_sys::TupleTableSlot,
    message: &[u8],
) {
    // SAFETY: by the caller's promise; the store copies the value.
    unsafe {
        let columns = (*slot).tts_tupleDescriptor;
        let mut value = pgrx::varlena::rust_byte_slice_to_bytea(message)
            .into_pg()
            .into();
        pg_sys::tuplestore_putvalues(store, columns, &mut value, &mut false);
    }
}

/// A row of PostgreSQL's own plan, without what it only sorts by.
///
/// # Safety
/// As for [`ask`].
unsafe fn own_row(state: &mut State) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: by the caller's promise. The values live as long as the row below, which is until the
    // next one is asked for.
    unsafe {
        let to = state.base.ss.ss_ScanTupleSlot;
        pg_sys::ExecClearTuple(to);
        let from = pg_sys::ExecProcNode(state.own);
        if from.is_null() || (*from).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 {
            return to;
        }
        let count = (*(*to).tts_tupleDescriptor).natts;
        pg_sys::slot_getsomeattrs(from, count);
        for at in 0..count as usize {
            *(*to).tts_values.add(at) = *(*from).tts_values.add(at);
            *(*to).tts_isnull.add(at) = *(*from).tts_isnull.add(at);
        }
        pg_sys::ExecStoreVirtualTuple(to)
    }
}

unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node is one that `begin` has started.
    unsafe {
        enter(|| {
            let state = &mut *node.cast::<State>();
            pg_sys::ExecEndNode(state.own);
            if !state.store.is_null() {
                pg_sys::tuplestore_end(state.store);
                state.store = std::ptr::null_mut();
            }
        });
    }
}

unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node is one that `begin` has started. A store that cannot go back is asked for
    // anew.
    unsafe {
        enter(|| {
            let state = &mut *node.cast::<State>();
            if !state.store.is_null() {
                pg_sys::tuplestore_end(state.store);
                state.store = std::ptr::null_mut();
            }
            (state.asked, state.block, state.reason) = (false, 0, std::ptr::null());
            pg_sys::ExecReScan(state.own);
        });
    }
}

unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    _: *mut pg_sys::List,
    explained: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node is one that `begin` has started; texts are C strings.
    unsafe {
        enter(|| {
            let state = &*node.cast::<State>();
            let text = |label: &CStr, text: *const c_char| {
                catch_c(|| pg_sys::ExplainPropertyText(label.as_ptr(), text, explained)).or_raise()
            };
            let sql = CString::new(query_of(state)).unwrap_or_default();
            text(c"Worker Query", sql.as_ptr());
            if state.asked {
                let by = match state.reason.is_null() {
                    true => c"the worker",
                    false => c"PostgreSQL",
                };
                text(c"Answered By", by.as_ptr());
            }
            if state.block > 0 {
                let (label, unit) = (c"Block".as_ptr(), std::ptr::null());
                catch_c(|| pg_sys::ExplainPropertyInteger(label, unit, state.block, explained))
                    .or_raise();
            }
            if !state.reason.is_null() {
                text(c"Reason", state.reason);
            }
        });
    }
}

/// Whether `put_on_top` marked the plan so.
///
/// # Safety
/// `state` must be that of a scan.
unsafe fn is_marked(state: &State, mark: &CStr) -> bool {
    // SAFETY: by the caller's promise; `put_on_top` put texts there.
    unsafe {
        let scan = state.base.ss.ps.plan.cast::<pg_sys::CustomScan>();
        nodes((*scan).custom_private)
            .skip(1)
            .any(|text| CStr::from_ptr(text.cast::<pg_sys::String>().as_ref().sval) == mark)
    }
}

/// The query for the worker.
///
/// # Safety
/// `state` must be that of a scan.
unsafe fn query_of(state: &State) -> String {
    // SAFETY: by the caller's promise; `put_on_top` put a text there.
    unsafe {
        let scan = state.base.ss.ps.plan.cast::<pg_sys::CustomScan>();
        let text = nodes((*scan).custom_private).next();
        text.map_or(String::new(), |text| {
            let text = text.cast::<pg_sys::String>().as_ref().sval;
            CStr::from_ptr(text).to_string_lossy().into_owned()
        })
    }
}
