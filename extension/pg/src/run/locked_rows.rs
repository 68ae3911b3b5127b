//! The rows that a query of an ordinary session locks, each shown when it is locked.
use std::cell::Cell;
use std::ffi::c_void;

use pgrx::pg_sys;

use crate::base::error::enter;
use crate::base::lists::nodes;
use crate::base::memory::Context;
use crate::base::relation::{Scratch, Tuple};
use crate::tree::tree_walkers::planstate_tree_walker;

/// Shown a table and a row of it that is locked now. It may raise.
pub type Shown = fn(pg_sys::Oid, &Tuple);

thread_local! {
    /// PostgreSQL's function of the plan nodes that lock rows, the same for all of them.
    static LOCK_ROWS: Cell<pg_sys::ExecProcNodeMtd> = const { Cell::new(None) };
    static SHOWN: Cell<Option<Shown>> = const { Cell::new(None) };
}

/// Has `shown` called for each row that the query locks FOR UPDATE, FOR NO KEY UPDATE or FOR SHARE.
/// A lock FOR KEY SHARE, which foreign keys take, is left to the constraint.
///
/// # Safety
/// The query must have started and not run.
pub(crate) unsafe fn watch(query: *mut pg_sys::QueryDesc, shown: Shown) {
    SHOWN.set(Some(shown));
    // SAFETY: by the caller's promise.
    unsafe {
        if !(*(*query).plannedstmt).rowMarks.is_null() && !(*query).planstate.is_null() {
            walk((*query).planstate, std::ptr::null_mut());
        }
    }
}

unsafe extern "C-unwind" fn walk(state: *mut pg_sys::PlanState, context: *mut c_void) -> bool {
    // SAFETY: a plan state of the executor's; the tag says which. The node's function is replaced
    // by one that calls it.
    unsafe {
        if (*state).type_ == pg_sys::NodeTag::T_LockRowsState {
            if LOCK_ROWS.get().is_none() {
                LOCK_ROWS.set((*state).ExecProcNodeReal);
            }
            (*state).ExecProcNodeReal = Some(lock_rows);
        }
        planstate_tree_walker(state, walk, context)
    }
}

unsafe extern "C-unwind" fn lock_rows(
    state: *mut pg_sys::PlanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the executor calls it with the node that it was set for, which `walk` has seen to be
    // of this type.
    unsafe {
        let Some(theirs) = LOCK_ROWS.get() else {
            return std::ptr::null_mut();
        };
        let slot = theirs(state);
        if !slot.is_null() && (*slot).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 == 0 {
            enter(|| show(state.cast()));
        }
        slot
    }
}

/// # Safety
/// The node must have returned a row.
unsafe fn show(state: *mut pg_sys::LockRowsState) {
    let Some(shown) = SHOWN.get() else {
        return;
    };
    let memory = Context::child(c"chainify locked row");
    let mut scratch = Scratch::default();
    // SAFETY: the marks are of open relations. The version that the node has locked is pinned while
    // it is read.
    unsafe {
        for mark in nodes((*state).lr_arowMarks) {
            let mark = mark.cast::<pg_sys::ExecAuxRowMark>().as_ref().rowmark;
            let (relation, kind) = ((*mark).relation, (*mark).markType);
            if !(*mark).ermActive
                || relation.is_null()
                || kind > pg_sys::RowMarkType::ROW_MARK_SHARE
            {
                continue;
            }
            let mut tuple = pg_sys::HeapTupleData {
                t_self: (*mark).curCtid,
                ..Default::default()
            };
            let mut buffer = 0;
            let any = &raw mut pg_sys::SnapshotAnyData;
            if pg_sys::heap_fetch(relation, any, &mut tuple, &mut buffer, false) {
                memory.enter(|| {
                    let row = scratch.deform(&mut tuple, (*relation).rd_att);
                    shown((*relation).rd_id, &row);
                });
                pg_sys::ReleaseBuffer(buffer);
            }
        }
    }
}
