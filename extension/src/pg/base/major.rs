//! The differences between PostgreSQL 15, 16 and 17, one function for each difference; those of
//! rights are in `relation_use.rs`, those of walkers in `tree_walkers.rs`. The extension is made
//! and shipped for 15, and tested for 15 and 17 (`make test-majors`). For 16 it is compiled alone.
//!
//! Not everything that a major changes keeps this from compiling. To be looked at for a new one:
//! * kinds of expressions: [`is_known_node`] refuses what nobody has looked at;
//! * fields of `Query`, and kinds of range table entries, that hold expressions or conditions:
//!   `analysis.rs`, `access/mod.rs`;
//! * statements and parts of ALTER TABLE are refused unless listed (`parse::check_allowed`,
//!   `ddl/kinds.rs`), but not new clauses of CREATE TABLE and its like: `ddl/deploy_statements.rs`;
//! * built-in functions whose results follow from more than their arguments, though they are
//!   immutable, and aggregates that depend on the order of rows: `functions.rs` and
//!   `determinism.rs` in `crates/rules`;
//! * what the states of [`resettable_plans`](crate::pg::run::resettable_plans) remember from one
//!   execution to the next (a plan with another node is not kept);
//! * settings that change results or plans: [`PINNED`];
//! * declarations in plain `extern` blocks (see `c.rs`), structures with `repr(C)`, and numbers of
//!   columns in `catalog.rs`.
//!
//! Between majors the result of an expression may differ, and so may the wording of messages, which
//! a function can look at.
use std::ffi::{c_char, c_int, CStr};
use std::ptr::null_mut;

use pgrx::pg_sys;

/// The setting that has plans run in parallel, for tests of PostgreSQL itself.
#[cfg(feature = "pg15")]
pub(in crate::pg) const FORCES_PARALLEL: &CStr = c"force_parallel_mode";
#[cfg(not(feature = "pg15"))]
pub(in crate::pg) const FORCES_PARALLEL: &CStr = c"debug_parallel_query";

/// Settings of newer majors, as `block_settings.rs` has those of 15.
pub(in crate::pg) const PINNED: &[(&CStr, &CStr)] = &[
    #[cfg(not(feature = "pg15"))]
    (c"enable_presorted_aggregate", c"on"),
    #[cfg(feature = "pg17")]
    (c"enable_group_by_reordering", c"on"),
    #[cfg(feature = "pg17")]
    (c"event_triggers", c"on"),
    #[cfg(feature = "pg17")]
    (c"transaction_timeout", c"0"),
];

#[cfg(feature = "pg15")]
mod raw {
    use super::{c_char, pg_sys};
    c_functions! {
        pub fn flatten_join_alias_vars(
            query: *mut pg_sys::Query,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub fn parseTypeString(
            text: *const c_char,
            oid: *mut pg_sys::Oid,
            typmod: *mut i32,
            missing_ok: bool,
        );
        pub fn pg_proc_aclcheck(
            function: pg_sys::Oid,
            role: pg_sys::Oid,
            mode: pg_sys::AclMode,
        ) -> pg_sys::AclResult::Type;
        pub fn ExecInsertIndexTuples(
            result: *mut pg_sys::ResultRelInfo,
            slot: *mut pg_sys::TupleTableSlot,
            estate: *mut pg_sys::EState,
            update: bool,
            no_duplicate_error: bool,
            conflict: *mut bool,
            arbiters: *mut pg_sys::List,
        ) -> *mut pg_sys::List;
    }
}

#[cfg(not(feature = "pg15"))]
mod raw {
    use super::{c_char, pg_sys};
    c_functions! {
        pub fn flatten_join_alias_vars(
            planner: *mut pg_sys::PlannerInfo,
            query: *mut pg_sys::Query,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub fn parseTypeString(
            text: *const c_char,
            oid: *mut pg_sys::Oid,
            typmod: *mut i32,
            errors: *mut pg_sys::Node,
        ) -> bool;
        pub fn object_aclcheck(
            class: pg_sys::Oid,
            object: pg_sys::Oid,
            role: pg_sys::Oid,
            mode: pg_sys::AclMode,
        ) -> pg_sys::AclResult::Type;
        pub fn ExecInsertIndexTuples(
            result: *mut pg_sys::ResultRelInfo,
            slot: *mut pg_sys::TupleTableSlot,
            estate: *mut pg_sys::EState,
            update: bool,
            no_duplicate_error: bool,
            conflict: *mut bool,
            arbiters: *mut pg_sys::List,
            summarizing_only: bool,
        ) -> *mut pg_sys::List;
    }
}

/// An expression with columns of joins replaced by those of what is joined. Since 16 the planner's
/// state can be given as well.
///
/// # Safety
/// `node` must be an expression of `query`, which no planner has touched. To be called where an
/// ERROR may be raised.
#[inline]
pub(in crate::pg) unsafe fn flatten_join_alias_vars(
    query: *mut pg_sys::Query,
    node: *mut pg_sys::Node,
) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(feature = "pg15")]
        return raw::flatten_join_alias_vars(query, node);
        #[cfg(not(feature = "pg15"))]
        return raw::flatten_join_alias_vars(null_mut(), query, node);
    }
}

/// Reads a type's name. Raises for what is none; since 16 a caller could have that reported.
///
/// # Safety
/// `text` must be a C string, the others valid. To be called where an ERROR may be raised.
pub(in crate::pg) unsafe fn parse_type(
    text: *const c_char,
    oid: *mut pg_sys::Oid,
    typmod: *mut i32,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(feature = "pg15")]
        raw::parseTypeString(text, oid, typmod, false);
        #[cfg(not(feature = "pg15"))]
        raw::parseTypeString(text, oid, typmod, null_mut());
    }
}

/// Whether a role may call a function. 16 has one check of rights for all kinds of objects.
///
/// # Safety
/// A transaction must be in progress. To be called where an ERROR may be raised.
#[inline]
pub(in crate::pg) unsafe fn may_execute(function: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    let mode = pg_sys::ACL_EXECUTE as pg_sys::AclMode;
    // SAFETY: a catalog look-up, by the caller's promise.
    let checked = unsafe {
        #[cfg(feature = "pg15")]
        let checked = raw::pg_proc_aclcheck(function, role, mode);
        #[cfg(not(feature = "pg15"))]
        let checked = raw::object_aclcheck(pg_sys::ProcedureRelationId, function, role, mode);
        checked
    };
    checked == pg_sys::AclResult::ACLCHECK_OK
}

/// Tells the open indexes of a table of a row just stored. Since 16 an update may tell those that
/// summarise pages alone.
///
/// # Safety
/// All must be of one table. To be called where an ERROR may be raised.
#[inline]
pub(in crate::pg) unsafe fn insert_into_indexes(
    result: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) {
    let (flag, none) = (null_mut(), null_mut());
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(feature = "pg15")]
        raw::ExecInsertIndexTuples(result, slot, estate, false, false, flag, none);
        #[cfg(not(feature = "pg15"))]
        raw::ExecInsertIndexTuples(result, slot, estate, false, false, flag, none, false);
    }
}

/// A state counts rows anew. 16 also counts those of all executions of a state, which 15 takes to
/// be one.
#[inline]
pub(in crate::pg) fn count_anew(estate: &mut pg_sys::EState) {
    estate.es_processed = 0;
    #[cfg(not(feature = "pg15"))]
    {
        estate.es_total_processed = 0;
    }
}

/// The number of a relation's file. 16 calls it so.
pub(in crate::pg) fn file_of(relation: &pg_sys::RelationData) -> pg_sys::Oid {
    #[cfg(feature = "pg15")]
    return relation.rd_node.relNode;
    #[cfg(not(feature = "pg15"))]
    return relation.rd_locator.relNumber;
}

/// A session's place in the process array, and its local transaction, 0 for none. 17 keeps the two
/// together.
pub(in crate::pg) fn place_of(process: &pg_sys::PGPROC) -> (usize, u32) {
    #[cfg(not(feature = "pg17"))]
    return (process.pgprocno as usize, process.lxid);
    #[cfg(feature = "pg17")]
    return (process.vxid.procNumber as usize, process.vxid.lxid);
}

/// A session's number among those that are sent signals.
pub(in crate::pg) fn backend_of(process: &pg_sys::PGPROC) -> i32 {
    #[cfg(not(feature = "pg17"))]
    return process.backendId;
    #[cfg(feature = "pg17")]
    return process.vxid.procNumber;
}

/// The status of a session, by its number in the list of them, from 1. Since 16 there is another
/// function that takes other numbers.
///
/// # Safety
/// The result is valid until the list is cleared. To be called where an ERROR may be raised.
pub(in crate::pg) unsafe fn status_of(number: i32) -> *mut pg_sys::LocalPgBackendStatus {
    // SAFETY: null for a number that there is not.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pgstat_fetch_stat_local_beentry(number);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::pgstat_get_local_beentry_by_index(number);
    }
}

/// The name of the database's own collation. 17 has another column for what is none of the
/// system's.
pub(in crate::pg) fn default_collation() -> String {
    #[cfg(not(feature = "pg17"))]
    use pg_sys::Anum_pg_database_daticulocale as OTHERS;
    #[cfg(feature = "pg17")]
    use pg_sys::Anum_pg_database_datlocale as OTHERS;
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
    // SAFETY: the row of the database that this session is in; it is copied from before it is
    // released.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(pg_sys::MyDatabaseId));
        if row.is_null() {
            return String::new();
        }
        let provider =
            (*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_database>()).datlocprovider;
        let column = match provider as u8 {
            b'c' => pg_sys::Anum_pg_database_datcollate,
            _ => OTHERS,
        };
        let mut null = false;
        let value = pg_sys::SysCacheGetAttr(cache, row, column as i16, &raw mut null);
        let name = match null {
            true => String::new(),
            false => text(pg_sys::text_to_cstring(value.cast_mut_ptr())),
        };
        pg_sys::ReleaseSysCache(row);
        match provider as u8 {
            b'i' => format!("icu {name}"), // whose C, if it has one, is not by bytes
            _ => name,
        }
    }
}

/// # Safety
/// `name` must be null or a C string.
unsafe fn text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}

/// The join that MERGE matches rows by. Until 16 it is the condition of the join tree.
#[cfg(not(feature = "pg17"))]
#[inline]
pub(in crate::pg) fn merge_condition(_: &pg_sys::Query) -> *mut pg_sys::Node {
    null_mut()
}

/// The join that MERGE matches rows by. Until 16 it is the condition of the join tree.
#[cfg(feature = "pg17")]
pub(in crate::pg) fn merge_condition(query: &pg_sys::Query) -> *mut pg_sys::Node {
    query.mergeJoinCondition
}

/// A clause of a query that 15 does not have, and about which the descriptions of queries would be
/// wrong.
///
/// # Safety
/// `query` must be an analysed query.
#[cfg(not(feature = "pg17"))]
#[inline]
pub(in crate::pg) unsafe fn unknown_clause(_: &pg_sys::Query) -> Option<&'static str> {
    None
}

/// A clause of a query that 15 does not have, and about which the descriptions of queries would be
/// wrong.
///
/// # Safety
/// `query` must be an analysed query.
#[cfg(feature = "pg17")]
pub(in crate::pg) unsafe fn unknown_clause(query: &pg_sys::Query) -> Option<&'static str> {
    use pg_sys::MergeMatchKind::MERGE_WHEN_NOT_MATCHED_BY_SOURCE;
    // SAFETY: a list of MergeAction.
    let mut actions = unsafe { crate::pg::base::lists::nodes(query.mergeActionList) };
    // SAFETY: as above.
    let by_source = actions.any(|action| unsafe {
        action.cast::<pg_sys::MergeAction>().as_ref().matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE
    });
    if by_source {
        return Some("MERGE ... WHEN NOT MATCHED BY SOURCE");
    }
    let merge = query.commandType == pg_sys::CmdType::CMD_MERGE;
    (merge && !query.returningList.is_null()).then_some("MERGE ... RETURNING")
}

/// Whether a node of an analysed query is of a kind that 15 has; there the walkers raise for any
/// other. What 16 and 17 brought (SQL/JSON, merge_action()) computes without calling a function
/// that could be looked at.
#[cfg(feature = "pg15")]
#[inline]
pub(in crate::pg) fn is_known_node(_: pg_sys::NodeTag) -> bool {
    true
}

/// Whether a node of an analysed query is of a kind that 15 has; there the walkers raise for any
/// other. What 16 and 17 brought (SQL/JSON, merge_action()) computes without calling a function
/// that could be looked at.
#[cfg(not(feature = "pg15"))]
pub(in crate::pg) fn is_known_node(tag: pg_sys::NodeTag) -> bool {
    use pg_sys::NodeTag::*;
    let value = matches!(
        tag,
        T_Var
            | T_Const
            | T_Param
            | T_CaseTestExpr
            | T_CoerceToDomainValue
            | T_SQLValueFunction
            | T_SetToDefault
            | T_CurrentOfExpr
            | T_NextValueExpr
    );
    let expression = matches!(
        tag,
        T_Aggref
            | T_GroupingFunc
            | T_WindowFunc
            | T_SubscriptingRef
            | T_FuncExpr
            | T_NamedArgExpr
            | T_OpExpr
            | T_DistinctExpr
            | T_NullIfExpr
            | T_ScalarArrayOpExpr
            | T_BoolExpr
            | T_SubLink
            | T_FieldSelect
            | T_FieldStore
            | T_RelabelType
            | T_CoerceViaIO
            | T_ArrayCoerceExpr
            | T_ConvertRowtypeExpr
            | T_CollateExpr
            | T_CaseExpr
            | T_ArrayExpr
            | T_RowExpr
            | T_RowCompareExpr
            | T_CoalesceExpr
            | T_MinMaxExpr
            | T_XmlExpr
            | T_NullTest
            | T_BooleanTest
            | T_CoerceToDomain
    );
    let part = matches!(
        tag,
        T_List
            | T_Query
            | T_TargetEntry
            | T_FromExpr
            | T_JoinExpr
            | T_RangeTblRef
            | T_RangeTblFunction
            | T_TableFunc
            | T_TableSampleClause
            | T_CommonTableExpr
            | T_CTESearchClause
            | T_CTECycleClause
            | T_SetOperationStmt
            | T_SortGroupClause
            | T_WindowClause
            | T_OnConflictExpr
            | T_InferenceElem
            | T_MergeAction
            | T_WithCheckOption
    );
    value || expression || part
}

/// Whether a column is given a STORAGE where it is made.
#[cfg(feature = "pg15")]
#[inline]
pub(in crate::pg) fn sets_storage(_: &pg_sys::ColumnDef) -> bool {
    false
}

/// Whether a column is given a STORAGE where it is made.
#[cfg(not(feature = "pg15"))]
pub(in crate::pg) fn sets_storage(column: &pg_sys::ColumnDef) -> bool {
    !column.storage_name.is_null()
}

/// The number that the next object of a catalog gets. 17 gave the variable another name.
pub(in crate::pg) fn next_number() -> u32 {
    // SAFETY: a word in shared memory, set up before any session starts; others may write it at any
    // moment.
    unsafe {
        #[cfg(not(feature = "pg17"))]
        let variables = pg_sys::ShmemVariableCache;
        #[cfg(feature = "pg17")]
        let variables = pg_sys::TransamVariables;
        (&raw const (*variables).nextOid).read_volatile().to_u32()
    }
}

/// Whether the session holds the lock in this mode; 17 can be asked for stronger ones as well.
///
/// # Safety
/// To be called in a transaction.
pub(in crate::pg) unsafe fn holds_lock(tag: &pg_sys::LOCKTAG, mode: c_int) -> bool {
    // SAFETY: looks into a table of this process.
    unsafe {
        #[cfg(not(feature = "pg17"))]
        return pg_sys::LockHeldByMe(tag, mode);
        #[cfg(feature = "pg17")]
        return pg_sys::LockHeldByMe(tag, mode, false);
    }
}

extern "C-unwind" {
    // libpq.h, which pgrx does not read.
    fn pq_startmsgread();
    fn pq_endmsgread();
    fn pq_peekbyte() -> c_int;
    #[cfg(not(feature = "pg17"))]
    fn pq_buffer_has_data() -> bool;
    #[cfg(feature = "pg17")]
    fn pq_buffer_remaining_data() -> isize;
}

/// Whether the client's next message is here already, and is Sync. Must be called between two
/// messages of the client.
pub(in crate::pg) fn next_message_is_sync() -> bool {
    // SAFETY: no message is being read. A byte that is here is looked at without waiting.
    unsafe {
        #[cfg(not(feature = "pg17"))]
        let here = pq_buffer_has_data();
        #[cfg(feature = "pg17")]
        let here = pq_buffer_remaining_data() > 0;
        if !here {
            return false;
        }
        pq_startmsgread();
        let byte = pq_peekbyte();
        pq_endmsgread();
        byte == c_int::from(b'S')
    }
}

/// `IDLE_SESSION_TIMEOUT` of timeout.h; 17 has another timeout before it.
pub(in crate::pg) fn idle_session_timeout() -> c_int {
    8 + c_int::from(cfg!(feature = "pg17"))
}

/// Puts entries for OLD and NEW before those of a view's query. Until 15 it has them.
///
/// # Safety
/// `query` must be a copy of the view's query.
pub(in crate::pg) unsafe fn name_old_and_new(query: *mut pg_sys::Query, view: pg_sys::Oid) {
    #[cfg(feature = "pg15")]
    let _ = (query, view);
    // SAFETY: by the caller's promise; the numbers of entries in the query follow.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        pg_sys::OffsetVarNodes(query.cast(), 2, 0);
        for name in [c"new", c"old"] {
            let entry: *mut pg_sys::RangeTblEntry =
                pg_sys::palloc0(size_of::<pg_sys::RangeTblEntry>()).cast();
            (*entry).type_ = pg_sys::NodeTag::T_RangeTblEntry;
            (*entry).rtekind = pg_sys::RTEKind::RTE_RELATION;
            (*entry).relid = view;
            (*entry).relkind = pg_sys::RELKIND_VIEW as c_char;
            (*entry).rellockmode = pg_sys::AccessShareLock as c_int;
            (*entry).alias = pg_sys::makeAlias(name.as_ptr(), null_mut());
            (*entry).eref = (*entry).alias;
            (*query).rtable = pg_sys::lcons(entry.cast(), (*query).rtable);
        }
    }
}
