//! Plans whose executor state can be used again, and how it is put back to what it was before it
//! ran.
//!
//! PostgreSQL can run a plan anew only below a node that asks for it (ExecReScan), and never one
//! that changes rows. The few kinds of nodes that the statements of functions mostly consist of are
//! put back here by hand; a plan with any other is not kept.
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, NonNull};

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag;

use crate::base::lists::nodes;
use crate::planner::plan_notes::has_notes_at_most;
use crate::tree::tree_walkers::expression_tree_walker;

mod raw {
    use super::{c_int, c_void, pg_sys};
    pub(crate) type Checker = unsafe extern "C-unwind" fn(pg_sys::Oid, *mut c_void) -> bool;
    c_functions! {
        pub(crate) fn index_endscan(scan: *mut pg_sys::IndexScanDescData);
        pub(crate) fn index_rescan(
            scan: *mut pg_sys::IndexScanDescData,
            keys: *mut pg_sys::ScanKeyData,
            count: c_int,
            orders: *mut pg_sys::ScanKeyData,
            orders_count: c_int,
        );
        pub(crate) fn ReleaseBuffer(buffer: pg_sys::Buffer);
        pub(crate) fn bms_free(set: *mut pg_sys::Bitmapset);
        pub(crate) fn ReScanExprContext(context: *mut pg_sys::ExprContext);
        pub(crate) fn stringToNode(text: *const std::ffi::c_char) -> *mut c_void;
        pub(crate) fn check_functions_in_node(
            node: *mut pg_sys::Node,
            checker: Option<Checker>,
            context: *mut c_void,
        ) -> bool;
    }
}

/// Whether a planned statement consists of what [`settle`] knows, and calls PostgreSQL's own
/// functions alone. The state that other functions keep from call to call within a statement must
/// not live longer than the statement.
///
/// # Safety
/// `statement` must be a planned statement.
pub(crate) unsafe fn is_known(statement: &pg_sys::PlannedStmt) -> bool {
    use pg_sys::CmdType::{CMD_DELETE, CMD_INSERT, CMD_SELECT, CMD_UPDATE};
    let known = matches!(
        statement.commandType,
        CMD_SELECT | CMD_INSERT | CMD_UPDATE | CMD_DELETE
    );
    // A function, type or domain that a user made is an item that invalidates the plan.
    let plain = !statement.hasModifyingCTE
        && !statement.transientPlan
        && !statement.parallelModeNeeded
        && statement.jitFlags == 0
        && statement.utilityStmt.is_null()
        && statement.appendRelations.is_null()
        && has_notes_at_most(statement);
    if !known || !plain {
        return false;
    }
    let mut initial = 0;
    // SAFETY: by the caller's promise; a list of subplans holds plans.
    unsafe {
        let below = nodes(statement.subplans).map(|plan| plan.as_ptr().cast());
        let below: Vec<*mut pg_sys::Plan> = below.collect();
        is_known_plan(statement.planTree, true, &mut initial)
            && below
                .iter()
                .all(|plan| is_known_plan(*plan, false, &mut initial))
            && initial == below.len()
    }
}

/// Counts the subplans that are computed once, before the node they belong to.
///
/// # Safety
/// `plan` must be null or a plan.
unsafe fn is_known_plan(plan: *mut pg_sys::Plan, top: bool, initial: &mut usize) -> bool {
    let Some(plan) = NonNull::new(plan) else {
        return true;
    };
    // SAFETY: by the caller's promise; the tag says which structure follows.
    unsafe {
        let known = match plan.cast::<pg_sys::Node>().as_ref().type_ {
            NodeTag::T_Result | NodeTag::T_LockRows | NodeTag::T_SeqScan | NodeTag::T_Limit => true,
            NodeTag::T_IndexOnlyScan => plan
                .cast::<pg_sys::IndexOnlyScan>()
                .as_ref()
                .indexorderby
                .is_null(),
            NodeTag::T_IndexScan => plan
                .cast::<pg_sys::IndexScan>()
                .as_ref()
                .indexorderby
                .is_null(),
            // Others keep a row of nothing but NULLs in a slot.
            NodeTag::T_NestLoop => matches!(
                plan.cast::<pg_sys::NestLoop>().as_ref().join.jointype,
                pg_sys::JoinType::JOIN_INNER | pg_sys::JoinType::JOIN_SEMI
            ),
            NodeTag::T_ModifyTable => top && is_known_change(plan.cast().as_ref()),
            _ => false,
        };
        let plan = plan.as_ref();
        for subplan in nodes(plan.initPlan) {
            let subplan = subplan.cast::<pg_sys::SubPlan>().as_ref();
            if !matches!(
                subplan.subLinkType,
                pg_sys::SubLinkType::EXPR_SUBLINK | pg_sys::SubLinkType::EXISTS_SUBLINK
            ) {
                return false;
            }
            *initial += 1;
        }
        known
            && is_known_plan(plan.lefttree, false, initial)
            && is_known_plan(plan.righttree, false, initial)
    }
}

/// One table, which is no parent of others, and nothing to do about conflicts.
fn is_known_change(plan: &pg_sys::ModifyTable) -> bool {
    // SAFETY: null or a list.
    let tables = unsafe { plan.resultRelations.as_ref() }.map_or(0, |list| list.length);
    tables == 1
        && plan.rootRelation == 0
        && plan.onConflictAction == pg_sys::OnConflictAction::ONCONFLICT_NONE
        && plan.mergeActionLists.is_null()
        && plan.fdwDirectModifyPlans.is_null()
        && plan.rowMarks.is_null()
}

/// Whether what the tables changed ask of their rows calls PostgreSQL's own functions alone.
///
/// # Safety
/// The state must be initialised. Only where an ERROR may be raised.
pub(crate) unsafe fn has_own_conditions_alone(estate: &pg_sys::EState) -> bool {
    // SAFETY: by the caller's promise; a state has a result relation for each element of that list.
    unsafe {
        let root = match (*estate.es_plannedstmt).planTree.as_ref() {
            Some(plan) => plan,
            None => return false,
        };
        if root.type_ != NodeTag::T_ModifyTable {
            return true;
        }
        let tables = (*std::ptr::from_ref(root).cast::<pg_sys::ModifyTable>()).resultRelations;
        let number = (*(*tables).elements).int_value as usize;
        let Some(result) = (*estate.es_result_relations.add(number - 1)).as_ref() else {
            return false;
        };
        let relation = &*result.ri_RelationDesc;
        let constraints = (*relation.rd_att).constr;
        (*relation.rd_rel).relkind == pg_sys::RELKIND_RELATION as i8
            && !(*relation.rd_rel).relispartition
            && (constraints.is_null() || are_own(&*constraints))
    }
}

/// # Safety
/// As for [`has_own_conditions_alone`].
unsafe fn are_own(constraints: &pg_sys::TupleConstr) -> bool {
    // SAFETY: by the caller's promise; there are as many conditions as counted.
    unsafe {
        !constraints.has_generated_stored
            && (0..constraints.num_check as usize).all(|i| {
                let condition = raw::stringToNode((*constraints.check.add(i)).ccbin).cast();
                !names_a_function_of_a_user(condition, null_mut())
            })
    }
}

unsafe extern "C-unwind" fn names_a_function_of_a_user(
    node: *mut pg_sys::Node,
    context: *mut c_void,
) -> bool {
    // SAFETY: called with expressions, as the walker wants.
    unsafe {
        !node.is_null()
            && ((*node).type_ == NodeTag::T_CoerceToDomain
                || raw::check_functions_in_node(node, Some(is_of_a_user), context)
                || expression_tree_walker(node, names_a_function_of_a_user, context))
    }
}

unsafe extern "C-unwind" fn is_of_a_user(function: pg_sys::Oid, _: *mut c_void) -> bool {
    function.to_u32() >= pg_sys::FirstNormalObjectId
}

/// Puts a state that has run, or was left off running, back to what it was when it was initialised,
/// and releases what it holds for the snapshot it ran with. False: it must not run again.
///
/// # Safety
/// The state must be of a statement that [`is_known`], with the resource owner it was made with
/// current.
pub(crate) unsafe fn settle(root: *mut pg_sys::PlanState, estate: &mut pg_sys::EState) -> bool {
    // SAFETY: by the caller's promise; the lists are of slots, of expression contexts and of states
    // of subplans.
    unsafe {
        let mut again = settle_node(root, estate);
        for subplan in nodes(estate.es_subplanstates) {
            again &= settle_node(subplan.as_ptr().cast(), estate);
        }
        for slot in nodes(estate.es_tupleTable) {
            clear(slot.as_ptr().cast());
        }
        for context in nodes(estate.es_exprcontexts) {
            let context = context.cast::<pg_sys::ExprContext>().as_ptr();
            raw::ReScanExprContext(context);
            (*context).ecxt_param_list_info = null_mut();
        }
        again && has_plain_indexes(estate)
    }
}

/// # Safety
/// `slot` must be null or a slot.
unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: by the caller's promise; every slot has its operations.
    unsafe {
        if slot.is_null() || (*slot).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 {
            return;
        }
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}

/// # Safety
/// As for [`settle`].
unsafe fn settle_node(node: *mut pg_sys::PlanState, estate: &pg_sys::EState) -> bool {
    if node.is_null() {
        return true;
    }
    // SAFETY: by the caller's promise; the tag says which structure follows.
    unsafe {
        let again = match (*node).type_ {
            NodeTag::T_ResultState => {
                let result = &mut *node.cast::<pg_sys::ResultState>();
                result.rs_done = false;
                result.rs_checkqual = !result.resconstantqual.is_null();
                true
            }
            NodeTag::T_IndexScanState => {
                let scan = &mut *node.cast::<pg_sys::IndexScanState>();
                rewind(
                    &mut scan.iss_ScanDesc,
                    scan.iss_ScanKeys,
                    scan.iss_NumScanKeys,
                );
                scan.iss_RuntimeKeysReady = false;
                true
            }
            NodeTag::T_IndexOnlyScanState => {
                let scan = &mut *node.cast::<pg_sys::IndexOnlyScanState>();
                rewind(
                    &mut scan.ioss_ScanDesc,
                    scan.ioss_ScanKeys,
                    scan.ioss_NumScanKeys,
                );
                if scan.ioss_VMBuffer != pg_sys::InvalidBuffer as pg_sys::Buffer {
                    raw::ReleaseBuffer(scan.ioss_VMBuffer);
                    scan.ioss_VMBuffer = pg_sys::InvalidBuffer as pg_sys::Buffer;
                }
                scan.ioss_RuntimeKeysReady = false;
                true
            }
            NodeTag::T_SeqScanState => {
                let scan = &mut (*node.cast::<pg_sys::SeqScanState>()).ss;
                if let Some(open) = scan.ss_currentScanDesc.as_mut() {
                    if let Some(end) = (*(*open.rs_rd).rd_tableam).scan_end {
                        end(open);
                    }
                    scan.ss_currentScanDesc = null_mut();
                }
                true
            }
            NodeTag::T_LimitState => {
                let limit = &mut *node.cast::<pg_sys::LimitState>();
                limit.lstate = pg_sys::LimitStateCond::LIMIT_INITIAL;
                limit.position = 0;
                limit.subSlot = null_mut();
                true
            }
            NodeTag::T_NestLoopState => {
                let join = &mut *node.cast::<pg_sys::NestLoopState>();
                join.nl_NeedNewOuter = true;
                join.nl_MatchedOuter = false;
                true
            }
            NodeTag::T_LockRowsState => {
                settle_recheck(&(*node.cast::<pg_sys::LockRowsState>()).lr_epqstate, estate)
            }
            NodeTag::T_ModifyTableState => {
                let change = &mut *node.cast::<pg_sys::ModifyTableState>();
                change.mt_done = false;
                change.fireBSTriggers = true;
                change.mt_transition_capture.is_null()
                    && settle_recheck(&change.mt_epqstate, estate)
            }
            _ => false,
        };
        if !(*node).chgParam.is_null() {
            raw::bms_free((*node).chgParam);
            (*node).chgParam = null_mut();
        }
        expect_initial(&*node, estate);
        let left = settle_node((*node).lefttree, estate);
        let right = settle_node((*node).righttree, estate);
        again && left && right
    }
}

/// Puts a scan of a B-tree back before its first row, with nothing pinned: most of what beginning
/// one takes is its memory. Keys that are computed anew are so before the next row is asked for.
/// Ends a scan of another index, and one that searches for the elements of an array, which putting
/// it back would read.
///
/// # Safety
/// `scan` must be null or the scan of an initialised node, `keys` its `count` keys.
unsafe fn rewind(scan: &mut pg_sys::IndexScanDesc, keys: *mut pg_sys::ScanKeyData, count: c_int) {
    if scan.is_null() {
        return;
    }
    // SAFETY: by the caller's promise; putting a scan back copies the keys, and follows those of
    // arrays alone.
    unsafe {
        let is_array = |i| (*keys.add(i)).sk_flags & pg_sys::SK_SEARCHARRAY as c_int != 0;
        let index = &*(*(**scan).indexRelation).rd_rel;
        if index.relam == pg_sys::BTREE_AM_OID && !(0..count as usize).any(is_array) {
            raw::index_rescan(*scan, keys, count, null_mut(), 0);
        } else {
            raw::index_endscan(*scan);
            *scan = null_mut();
        }
    }
}

/// Has the scans that [`settle`] left open find what another snapshot sees.
///
/// # Safety
/// As for [`settle`]; the snapshot must live as long as the execution.
pub(crate) unsafe fn look_with(
    root: *mut pg_sys::PlanState,
    estate: &pg_sys::EState,
    snapshot: pg_sys::Snapshot,
) {
    // SAFETY: by the caller's promise; the list is of states of subplans.
    unsafe {
        look_with_node(root, snapshot);
        for subplan in nodes(estate.es_subplanstates) {
            look_with_node(subplan.as_ptr().cast(), snapshot);
        }
    }
}

/// # Safety
/// As for [`look_with`].
unsafe fn look_with_node(node: *mut pg_sys::PlanState, snapshot: pg_sys::Snapshot) {
    if node.is_null() {
        return;
    }
    // SAFETY: by the caller's promise; the tag says which structure follows.
    unsafe {
        let scan = match (*node).type_ {
            NodeTag::T_IndexScanState => (*node.cast::<pg_sys::IndexScanState>()).iss_ScanDesc,
            NodeTag::T_IndexOnlyScanState => {
                (*node.cast::<pg_sys::IndexOnlyScanState>()).ioss_ScanDesc
            }
            _ => null_mut(),
        };
        if !scan.is_null() {
            (*scan).xs_snapshot = snapshot;
        }
        look_with_node((*node).lefttree, snapshot);
        look_with_node((*node).righttree, snapshot);
    }
}

/// Has the subplans of a node computed when their values are asked for.
///
/// # Safety
/// As for [`settle`].
unsafe fn expect_initial(node: &pg_sys::PlanState, estate: &pg_sys::EState) {
    // SAFETY: by the caller's promise; a subplan's parameters are numbers of the state's.
    unsafe {
        for state in nodes(node.initPlan) {
            let state = state.cast::<pg_sys::SubPlanState>();
            let Some(parameters) = (*state.as_ref().subplan).setParam.as_ref() else {
                continue;
            };
            for i in 0..parameters.length as usize {
                let number = (*parameters.elements.add(i)).int_value as usize;
                (*estate.es_param_exec_vals.add(number)).execPlan = state.as_ptr().cast();
            }
        }
    }
}

/// Of rows that had to be waited for; one that has looked at such a row again has a state of its
/// own and is not used again.
///
/// # Safety
/// As for [`settle`].
unsafe fn settle_recheck(recheck: &pg_sys::EPQState, estate: &pg_sys::EState) -> bool {
    // SAFETY: by the caller's promise; there is a slot, or none, for each entry of the range table.
    unsafe {
        if !recheck.relsubs_slot.is_null() {
            for i in 0..estate.es_range_table_size as usize {
                clear(*recheck.relsubs_slot.add(i));
            }
        }
    }
    recheck.recheckestate.is_null()
}

/// Whether the indexes that were written to are of columns alone, so that no expression of theirs
/// is kept.
///
/// # Safety
/// As for [`settle`].
unsafe fn has_plain_indexes(estate: &pg_sys::EState) -> bool {
    // SAFETY: by the caller's promise; the arrays have as many entries as there are indexes.
    unsafe {
        nodes(estate.es_opened_result_relations).all(|result| {
            let result = result.cast::<pg_sys::ResultRelInfo>().as_ref();
            (0..result.ri_NumIndices as usize).all(|i| {
                let index = &**result.ri_IndexRelationInfo.add(i);
                index.ii_Expressions.is_null()
                    && index.ii_Predicate.is_null()
                    && index.ii_ExclusionOps.is_null()
            })
        })
    }
}
