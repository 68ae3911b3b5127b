//! One kept state of the executor: how it is made, used for one execution after the other, and
//! ended (see `executor_cache.rs`).
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};

use pgrx::pg_sys;

use crate::base::major;
use crate::describe::relation_use;
use crate::run::resettable_plans::{has_own_conditions_alone, look_with, settle};

/// Memory of a state above which it is not used again: functions may leave something behind with
/// each call.
const BYTES_MAX: usize = 1 << 20;
/// Executions between two looks at its memory.
const LOOK_EVERY: u32 = 64;

/// The address of a planned statement, which stays that statement's until its plan goes.
pub(crate) type Statement = usize;

/// PostgreSQL's functions without pgrx's boundary: nothing of ours is on the stack that an ERROR
/// could skip.
mod raw {
    use super::{c_int, c_void, pg_sys};
    c_functions! {
        pub(crate) fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
        pub(crate) fn standard_ExecutorEnd(query: *mut pg_sys::QueryDesc);
        pub(crate) fn AfterTriggerBeginQuery();
        pub(crate) fn GetCurrentCommandId(used: bool) -> pg_sys::CommandId;
        pub(crate) fn UnregisterSnapshot(snapshot: pg_sys::Snapshot);
        pub(crate) fn LockRelationOid(relation: pg_sys::Oid, mode: pg_sys::LOCKMODE);
        pub(crate) fn copyObjectImpl(node: *const c_void) -> *mut c_void;
        pub(crate) fn palloc0(size: usize) -> *mut c_void;
        pub(crate) fn AllocSetContextCreateInternal(
            parent: pg_sys::MemoryContext,
            name: *const std::ffi::c_char,
            min: usize,
            initial: usize,
            max: usize,
        ) -> pg_sys::MemoryContext;
        pub(crate) fn MemoryContextDelete(context: pg_sys::MemoryContext);
        pub(crate) fn MemoryContextMemAllocated(context: pg_sys::MemoryContext, recurse: bool) -> usize;
        pub(crate) fn ResourceOwnerCreate(
            parent: pg_sys::ResourceOwner,
            name: *const std::ffi::c_char,
        ) -> pg_sys::ResourceOwner;
        pub(crate) fn ResourceOwnerRelease(
            owner: pg_sys::ResourceOwner,
            phase: pg_sys::ResourceReleasePhase::Type,
            commit: bool,
            top: bool,
        );
        pub(crate) fn ResourceOwnerDelete(owner: pg_sys::ResourceOwner);
    }
}

/// A state with all it holds.
pub(crate) struct Kept {
    /// Whose state it is.
    pub(crate) statement: Statement,
    pub(crate) memory: pg_sys::MemoryContext,
    pub(crate) owner: pg_sys::ResourceOwner,
    /// Of our own, with a copy of the plan: the state refers to nothing else.
    pub(crate) query: *mut pg_sys::QueryDesc,
    pub(crate) flags: c_int,
    pub(crate) compile: pg_sys::ParamCompileHook,
    pub(crate) generation: u64,
    pub(crate) uses: u32,
    /// The execution under way, and the nesting of transactions it began in.
    pub(crate) runs: *mut pg_sys::QueryDesc,
    pub(crate) level: c_int,
}

/// The memory that a new state is made in.
pub(crate) struct Room {
    pub(crate) memory: pg_sys::MemoryContext,
    pub(crate) owner: pg_sys::ResourceOwner,
    pub(crate) query: *mut pg_sys::QueryDesc,
}

/// Makes room for a state, below a context and an owner that outlive it.
///
/// # Safety
/// Only as a part of the hook: what is raised goes through.
pub(crate) unsafe fn make_room(
    memory: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
) -> Room {
    // SAFETY: by the caller's promise; what is made belongs to what was given.
    unsafe {
        let memory = raw::AllocSetContextCreateInternal(
            memory,
            c"chainify kept state".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        let old = pg_sys::MemoryContextSwitchTo(memory);
        let query = raw::palloc0(size_of::<pg_sys::QueryDesc>()).cast();
        pg_sys::MemoryContextSwitchTo(old);
        let owner = raw::ResourceOwnerCreate(owner, c"chainify kept state".as_ptr());
        Room {
            memory,
            owner,
            query,
        }
    }
}

/// Starts an execution of a statement in a new state.
///
/// # Safety
/// Only as the end of the hook: what is raised goes through. `kept` must be new, and among those
/// that run.
pub(crate) unsafe fn start_first(kept: *mut Kept, query: *mut pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise.
    unsafe {
        let (own, outer) = ((*kept).query, pg_sys::CurrentResourceOwner);
        let old = pg_sys::MemoryContextSwitchTo((*kept).memory);
        pg_sys::CurrentResourceOwner = (*kept).owner;
        lock_tables((*(*query).plannedstmt).rtable);
        *own = *query;
        (*own).plannedstmt = raw::copyObjectImpl((*query).plannedstmt.cast()).cast();
        (*own).dest = null_mut();
        raw::standard_ExecutorStart(own, (*kept).flags);
        crate::base::outermost::running();
        show_state(own, query);
        pg_sys::CurrentResourceOwner = outer;
        pg_sys::MemoryContextSwitchTo(old);
    }
}

/// The plan has locked them for the subtransaction; the state wants them locked as long as it is
/// there.
///
/// # Safety
/// `tables` must be a range table.
unsafe fn lock_tables(tables: *mut pg_sys::List) {
    // SAFETY: by the caller's promise.
    unsafe {
        for entry in crate::base::lists::nodes(tables) {
            let entry = entry.cast::<pg_sys::RangeTblEntry>().as_ref();
            if relation_use::names_relation(entry) {
                raw::LockRelationOid(entry.relid, entry.rellockmode);
            }
        }
    }
}

/// # Safety
/// `own` must have started.
unsafe fn show_state(own: *mut pg_sys::QueryDesc, query: *mut pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise.
    unsafe {
        (*query).tupDesc = (*own).tupDesc;
        (*query).estate = (*own).estate;
        (*query).planstate = (*own).planstate;
    }
}

/// Does what standard_ExecutorStart does for an execution, with a state that is there.
///
/// # Safety
/// Only as the end of the hook: what is raised goes through. `kept` must be among those that run,
/// and of the query's statement.
pub(crate) unsafe fn start_again(kept: *mut Kept, query: *mut pg_sys::QueryDesc) {
    // SAFETY: by the caller's promise; the state is of the query's statement.
    unsafe {
        crate::base::outermost::running();
        let statement = &*(*query).plannedstmt;
        relation_use::check(statement);
        let estate = &mut *(*(*kept).query).estate;
        if statement.commandType != pg_sys::CmdType::CMD_SELECT || !statement.rowMarks.is_null() {
            estate.es_output_cid = raw::GetCurrentCommandId(true);
        }
        estate.es_snapshot = (*query).snapshot; // registered by the query's maker
        look_with((*(*kept).query).planstate, estate, (*query).snapshot);
        estate.es_sourceText = (*query).sourceText;
        estate.es_param_list_info = (*query).params;
        for context in crate::base::lists::nodes(estate.es_exprcontexts) {
            let context = context.cast::<pg_sys::ExprContext>().as_ptr();
            (*context).ecxt_param_list_info = (*query).params;
        }
        show_state((*kept).query, query);
        // As ExecutorFinish asks: a SELECT has this flag, whatever its caller said.
        if estate.es_top_eflags & pg_sys::EXEC_FLAG_SKIP_TRIGGERS as c_int == 0 {
            raw::AfterTriggerBeginQuery();
        }
    }
}

/// Puts the state back to its beginning; false when it must not be used again.
///
/// # Safety
/// Only as a part of the hook: what is raised goes through. The state must be running `query`.
pub(crate) unsafe fn end_execution(kept: *mut Kept, query: *mut pg_sys::QueryDesc) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let own = (*kept).query;
        let estate = &mut *(*own).estate;
        let outer = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = (*kept).owner;
        let old = pg_sys::MemoryContextSwitchTo(estate.es_query_cxt);
        let mut again = settle((*own).planstate, estate);
        if (*kept).uses == 0 {
            raw::UnregisterSnapshot(estate.es_snapshot); // standard_ExecutorStart registered it
            again &= has_own_conditions_alone(estate);
        }
        (*kept).uses += 1;
        if (*kept).uses.is_multiple_of(LOOK_EVERY) {
            again &= raw::MemoryContextMemAllocated((*kept).memory, true) <= BYTES_MAX;
        }
        pg_sys::MemoryContextSwitchTo(old);
        pg_sys::CurrentResourceOwner = outer;
        estate.es_snapshot = null_mut();
        estate.es_param_list_info = null_mut();
        estate.es_sourceText = null();
        estate.es_finished = false;
        major::count_anew(estate);
        (*query).tupDesc = null_mut();
        (*query).estate = null_mut();
        (*query).planstate = null_mut();
        again
    }
}

/// Ends a state that does not run, as the executor ends a statement.
///
/// # Safety
/// Only where an ERROR may be raised. Nothing may use the state afterwards.
pub(crate) unsafe fn end_state(kept: &Kept) {
    // SAFETY: by the caller's promise.
    unsafe {
        let outer = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = kept.owner;
        raw::standard_ExecutorEnd(kept.query);
        pg_sys::CurrentResourceOwner = outer;
        release(kept, true);
    }
}

/// # Safety
/// As for [`end_state`].
pub(crate) unsafe fn release(kept: &Kept, commit: bool) {
    use pg_sys::ResourceReleasePhase::{
        RESOURCE_RELEASE_AFTER_LOCKS, RESOURCE_RELEASE_BEFORE_LOCKS, RESOURCE_RELEASE_LOCKS,
    };
    // SAFETY: by the caller's promise; locks go to the block's owner when it ends well.
    unsafe {
        for phase in [
            RESOURCE_RELEASE_BEFORE_LOCKS,
            RESOURCE_RELEASE_LOCKS,
            RESOURCE_RELEASE_AFTER_LOCKS,
        ] {
            raw::ResourceOwnerRelease(kept.owner, phase, commit, false);
        }
        raw::ResourceOwnerDelete(kept.owner);
        raw::MemoryContextDelete(kept.memory);
    }
}
