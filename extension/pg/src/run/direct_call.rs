//! `SELECT f($1, …)`: a statement that only calls a function, without starting the executor for it.
//!
//! It does everything that the executor would do, in its order: validates the plan, checks
//! EXECUTE, takes a snapshot, calls the access hook, and calls no strict function with a NULL. A
//! call that is not of this form, or not allowed, is left to the executor, which has the error.
//! Nothing is kept from call to call.
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::base::lists::nodes;
use crate::base::major;

/// PostgreSQL's functions without pgrx's boundary: this runs inside `catch_c`.
mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn GetCachedPlan(
            source: *mut pg_sys::CachedPlanSource,
            params: pg_sys::ParamListInfo,
            owner: pg_sys::ResourceOwner,
            environment: *mut pg_sys::QueryEnvironment,
        ) -> *mut pg_sys::CachedPlan;
        pub(crate) fn ReleaseCachedPlan(plan: *mut pg_sys::CachedPlan, owner: pg_sys::ResourceOwner);
        pub(crate) fn GetTransactionSnapshot() -> pg_sys::Snapshot;
        pub(crate) fn PushActiveSnapshot(snapshot: pg_sys::Snapshot);
        pub(crate) fn UpdateActiveSnapshotCommandId();
        pub(crate) fn PopActiveSnapshot();
        pub(crate) fn CommandCounterIncrement();
        pub(crate) fn GetUserId() -> pg_sys::Oid;
        pub(crate) fn RunFunctionExecuteHook(function: pg_sys::Oid);
        pub(crate) fn fmgr_info(function: pg_sys::Oid, info: *mut pg_sys::FmgrInfo);
        pub(crate) fn palloc0(size: usize) -> *mut std::ffi::c_void;
    }
}

/// Arguments of a function, as many as PostgreSQL allows.
const ARGUMENTS_MAX: usize = pg_sys::FUNC_MAX_ARGS as usize;

/// The element of a list of one.
///
/// # Safety
/// `list` must be null or a list of nodes.
unsafe fn only(list: *mut pg_sys::List) -> Option<NonNull<pg_sys::Node>> {
    // SAFETY: by the caller's promise.
    let mut elements = unsafe { nodes(list) };
    elements.next().filter(|_| elements.next().is_none())
}

/// The call that a column of a result is.
///
/// # Safety
/// `entry` must be of a target list.
unsafe fn function(entry: NonNull<pg_sys::Node>) -> Option<NonNull<pg_sys::FuncExpr>> {
    // SAFETY: by the caller's promise; the tag says which structure follows.
    unsafe {
        let expression = NonNull::new(entry.cast::<pg_sys::TargetEntry>().as_ref().expr)?;
        let is_call =
            expression.cast::<pg_sys::Node>().as_ref().type_ == pg_sys::NodeTag::T_FuncExpr;
        is_call.then(|| expression.cast())
    }
}

/// Whether an analysed query looks like a call: worth validating its plan here.
///
/// # Safety
/// `queries` must be null or a list of queries.
pub(crate) unsafe fn is_call(queries: *mut pg_sys::List) -> bool {
    // SAFETY: by the caller's promise; a query's target list is of TargetEntry.
    unsafe {
        let Some(query) = only(queries).map(|q| q.cast::<pg_sys::Query>().as_ref()) else {
            return false;
        };
        query.commandType == pg_sys::CmdType::CMD_SELECT
            && query.rtable.is_null()
            && only(query.targetList).is_some_and(|entry| function(entry).is_some())
    }
}

/// Runs the plan of `source` when it is a call that the current role may make; false: nothing has
/// been done.
///
/// # Safety
/// Only inside `catch_c`. `values` must be of the parameters' `types`, with which the source was
/// analysed.
pub(crate) unsafe fn run(
    source: *mut pg_sys::CachedPlanSource,
    types: &[pg_sys::Oid],
    values: &[Option<pg_sys::Datum>],
) -> bool {
    // SAFETY: the plan is held from GetCachedPlan to ReleaseCachedPlan, by the resource owner when
    // an ERROR comes between; the snapshot is popped here or by abort processing.
    unsafe {
        let owner = pg_sys::CurrentResourceOwner;
        let none = std::ptr::null_mut();
        let plan = raw::GetCachedPlan(source, none, owner, std::ptr::null_mut());
        crate::base::outermost::running();
        let Some(call) = called(plan).filter(|call| may_call(call.as_ref())) else {
            raw::ReleaseCachedPlan(plan, owner);
            return false;
        };
        let call = call.as_ref();
        let Some(frame) = frame(call, types, values) else {
            raw::ReleaseCachedPlan(plan, owner);
            return false;
        };
        raw::PushActiveSnapshot(raw::GetTransactionSnapshot());
        raw::CommandCounterIncrement();
        raw::UpdateActiveSnapshotCommandId();
        if (&raw const pg_sys::object_access_hook).read().is_some() {
            raw::RunFunctionExecuteHook(call.funcid);
        }
        crate::base::raised::in_context(|| invoke(frame));
        raw::ReleaseCachedPlan(plan, owner);
        raw::CommandCounterIncrement();
        raw::PopActiveSnapshot();
        true
    }
}

/// The only thing a plan does, when that is calling a function.
///
/// # Safety
/// The plan must be held.
unsafe fn called(plan: *mut pg_sys::CachedPlan) -> Option<NonNull<pg_sys::FuncExpr>> {
    // SAFETY: a cached plan holds planned statements; tags say which structures follow.
    unsafe {
        let statement = only((*plan).stmt_list)?.cast::<pg_sys::PlannedStmt>();
        let statement = statement.as_ref();
        let tree = NonNull::new(statement.planTree)?;
        if statement.commandType != pg_sys::CmdType::CMD_SELECT
            || statement.hasModifyingCTE
            || !statement.subplans.is_null()
            || !statement.rowMarks.is_null()
            || tree.cast::<pg_sys::Node>().as_ref().type_ != pg_sys::NodeTag::T_Result
        {
            return None;
        }
        let result = tree.cast::<pg_sys::Result>().as_ref();
        let alone = result.resconstantqual.is_null()
            && result.plan.lefttree.is_null()
            && result.plan.qual.is_null()
            && result.plan.initPlan.is_null();
        let call = function(only(result.plan.targetlist)?)?;
        (alone && !call.as_ref().funcretset).then_some(call)
    }
}

/// # Safety
/// A transaction must be in progress.
unsafe fn may_call(call: &pg_sys::FuncExpr) -> bool {
    // SAFETY: catalog look-ups. Whoever counts calls wants the executor's.
    unsafe {
        pg_sys::pgstat_track_functions == 0 && major::may_execute(call.funcid, raw::GetUserId())
    }
}

/// The call with its arguments; None when one is neither a parameter nor a constant.
///
/// # Safety
/// As for [`run`]; the call must be of a plan that is held.
unsafe fn frame(
    call: &pg_sys::FuncExpr,
    types: &[pg_sys::Oid],
    values: &[Option<pg_sys::Datum>],
) -> Option<NonNull<pg_sys::FunctionCallInfoBaseData>> {
    // SAFETY: the frame has room for the arguments it says it has; it lives in the current memory
    // context.
    unsafe {
        let count = NonNull::new(call.args).map_or(0, |args| args.as_ref().length as usize);
        if count > ARGUMENTS_MAX {
            return None;
        }
        let header = std::mem::size_of::<pg_sys::FunctionCallInfoBaseData>();
        let bytes = header + count * std::mem::size_of::<pg_sys::NullableDatum>();
        let frame = raw::palloc0(bytes).cast::<pg_sys::FunctionCallInfoBaseData>();
        for (i, node) in nodes(call.args).enumerate() {
            *(*frame).args.as_mut_ptr().add(i) = argument(node, types, values)?;
        }
        let info = raw::palloc0(std::mem::size_of::<pg_sys::FmgrInfo>()).cast::<pg_sys::FmgrInfo>();
        raw::fmgr_info(call.funcid, info);
        (*info).fn_expr = std::ptr::from_ref(call).cast_mut().cast();
        (*frame).flinfo = info;
        (*frame).fncollation = call.inputcollid;
        (*frame).nargs = count as i16;
        NonNull::new(frame)
    }
}

/// # Safety
/// As for [`frame`].
unsafe fn argument(
    node: NonNull<pg_sys::Node>,
    types: &[pg_sys::Oid],
    values: &[Option<pg_sys::Datum>],
) -> Option<pg_sys::NullableDatum> {
    // SAFETY: the tag says which structure follows.
    let given = unsafe {
        match node.as_ref().type_ {
            pg_sys::NodeTag::T_Param => {
                let parameter = node.cast::<pg_sys::Param>().as_ref();
                let at = (parameter.paramid as usize).wrapping_sub(1);
                let fits = parameter.paramkind == pg_sys::ParamKind::PARAM_EXTERN
                    && types.get(at) == Some(&parameter.paramtype);
                *values.get(at).filter(|_| fits)?
            }
            pg_sys::NodeTag::T_Const => {
                let constant = node.cast::<pg_sys::Const>().as_ref();
                (!constant.constisnull).then_some(constant.constvalue)
            }
            pg_sys::NodeTag::T_RelabelType => {
                let inner = node.cast::<pg_sys::RelabelType>().as_ref().arg;
                return argument(NonNull::new(inner.cast())?, types, values);
            }
            _ => return None,
        }
    };
    Some(pg_sys::NullableDatum {
        value: given.unwrap_or(pg_sys::Datum::from(0)),
        isnull: given.is_none(),
    })
}

/// # Safety
/// From [`frame`].
unsafe fn invoke(frame: NonNull<pg_sys::FunctionCallInfoBaseData>) {
    // SAFETY: the frame has `nargs` arguments and a function that fmgr_info looked up.
    unsafe {
        let call = frame.as_ptr();
        let arguments = std::slice::from_raw_parts((*call).args.as_ptr(), (*call).nargs as usize);
        if (*(*call).flinfo).fn_strict && arguments.iter().any(|a| a.isnull) {
            return;
        }
        if let Some(function) = (*(*call).flinfo).fn_addr {
            function(call);
        }
    }
}
