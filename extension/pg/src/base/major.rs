//! The differences between PostgreSQL 15 to 18, one function for each difference; those of
//! rights are in `relation_use.rs`, those of walkers in `tree_walkers.rs`, those of PL/pgSQL in
//! `major_plpgsql.rs`. The extension is made
//! and shipped for 15, and tested for 15, 17 and 18 (`make test-majors`). For 16 it is compiled
//! alone. The feature `pg17up` is set for 17 and later majors.
//!
//! Not everything that a major changes keeps this from compiling. To be looked at for a new one:
//! * kinds of expressions: `is_known_node` of `tree_walkers.rs` refuses what nobody has looked at;
//! * fields of `Query`, and kinds of range table entries, that hold expressions or conditions:
//!   `analysis.rs`, `access/mod.rs`;
//! * statements and parts of ALTER TABLE are refused unless listed (`parse::check_allowed`,
//!   `ddl/kinds.rs`), but not new clauses of CREATE TABLE and its like: `ddl/deploy_statements.rs`;
//! * built-in functions whose results follow from more than their arguments, though they are
//!   immutable, and aggregates that depend on the order of rows: `functions.rs` and
//!   `determinism.rs` in `crates/rules`;
//! * facts that the states of [`resettable_plans`](crate::run::resettable_plans) remember from
//!   one execution to the next (a plan with another node is not kept);
//! * settings that change results or plans: [`PINNED`];
//! * declarations in plain `extern` blocks (see `c.rs`), structures with `repr(C)`, and numbers of
//!   columns in `catalog.rs`.
//!
//! Between majors the result of an expression may differ, and so may the wording of messages, which
//! a function can look at.
use std::ffi::{c_char, c_int, CStr};
use std::ptr::null_mut;

use pgrx::pg_sys;

#[cfg(not(feature = "pg15"))]
use crate::base::lists::nodes;

/// The setting that has plans run in parallel, for tests of PostgreSQL itself.
#[cfg(feature = "pg15")]
pub(crate) const FORCES_PARALLEL: &CStr = c"force_parallel_mode";
#[cfg(not(feature = "pg15"))]
pub(crate) const FORCES_PARALLEL: &CStr = c"debug_parallel_query";

/// The column of `pg_database` with the locale of a provider other than libc.
#[cfg(not(feature = "pg17up"))]
pub(crate) use pg_sys::Anum_pg_database_daticulocale as LOCALE_OF_OTHER_PROVIDERS;
#[cfg(feature = "pg17up")]
pub(crate) use pg_sys::Anum_pg_database_datlocale as LOCALE_OF_OTHER_PROVIDERS;

/// Settings of the sessions of worker processes that not all majors have.
pub(crate) const OF_SESSIONS: &[(&CStr, &CStr)] = &[
    #[cfg(feature = "pg17up")]
    (c"transaction_timeout", c"0"),
];

/// Settings of newer majors, as `block_settings.rs` has those of 15.
pub(crate) const PINNED: &[(&CStr, &CStr)] = &[
    #[cfg(not(feature = "pg15"))]
    (c"enable_presorted_aggregate", c"on"),
    #[cfg(feature = "pg17up")]
    (c"enable_group_by_reordering", c"on"),
    #[cfg(feature = "pg17up")]
    (c"event_triggers", c"on"),
    #[cfg(feature = "pg17up")]
    (c"transaction_timeout", c"0"),
    #[cfg(feature = "pg18")]
    (c"enable_distinct_reordering", c"on"),
    #[cfg(feature = "pg18")]
    (c"enable_self_join_elimination", c"on"),
];

#[cfg(feature = "pg15")]
mod raw {
    use super::{c_char, pg_sys};
    c_functions! {
        pub(crate) fn flatten_join_alias_vars(
            query: *mut pg_sys::Query,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub(crate) fn parseTypeString(
            text: *const c_char,
            oid: *mut pg_sys::Oid,
            typmod: *mut i32,
            missing_ok: bool,
        );
        pub(crate) fn pg_proc_aclcheck(
            function: pg_sys::Oid,
            role: pg_sys::Oid,
            mode: pg_sys::AclMode,
        ) -> pg_sys::AclResult::Type;
        pub(crate) fn ExecInsertIndexTuples(
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
        pub(crate) fn flatten_join_alias_vars(
            planner: *mut pg_sys::PlannerInfo,
            query: *mut pg_sys::Query,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub(crate) fn parseTypeString(
            text: *const c_char,
            oid: *mut pg_sys::Oid,
            typmod: *mut i32,
            errors: *mut pg_sys::Node,
        ) -> bool;
        pub(crate) fn object_aclcheck(
            class: pg_sys::Oid,
            object: pg_sys::Oid,
            role: pg_sys::Oid,
            mode: pg_sys::AclMode,
        ) -> pg_sys::AclResult::Type;
        pub(crate) fn ExecInsertIndexTuples(
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

#[cfg(feature = "pg18")]
mod raw18 {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn contain_vars_returning_old_or_new(node: *mut pg_sys::Node) -> bool;
        pub(crate) fn standard_ExecutorRun(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
        );
    }
}

#[cfg(not(feature = "pg18"))]
mod raw17 {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn standard_ExecutorRun(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
            once: bool,
        );
    }
}

/// All settings, as guc.c has them.
pub(crate) fn all_settings() -> Vec<*mut pg_sys::config_generic> {
    // SAFETY: the array has that many settings, none of which is ever freed.
    unsafe {
        #[cfg(feature = "pg15")]
        let (first, count) = (pg_sys::get_guc_variables(), pg_sys::GetNumConfigOptions());
        #[cfg(not(feature = "pg15"))]
        let (first, count) = {
            let mut count = 0;
            (pg_sys::get_guc_variables(&raw mut count), count)
        };
        std::slice::from_raw_parts(first, count as usize).to_vec()
    }
}

/// An expression with columns of joins replaced by those of what is joined. Since 16 the planner's
/// state can be given as well.
///
/// # Safety
/// `node` must be an expression of `query`, which no planner has touched. To be called where an
/// ERROR may be raised.
#[inline]
pub(crate) unsafe fn flatten_join_alias_vars(
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
pub(crate) unsafe fn parse_type(text: *const c_char, oid: *mut pg_sys::Oid, typmod: *mut i32) {
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
pub(crate) unsafe fn may_execute(function: pg_sys::Oid, role: pg_sys::Oid) -> bool {
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
pub(crate) unsafe fn insert_into_indexes(
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
pub(crate) fn count_anew(estate: &mut pg_sys::EState) {
    estate.es_processed = 0;
    #[cfg(not(feature = "pg15"))]
    {
        estate.es_total_processed = 0;
    }
}

/// The number of a relation's file. 16 calls it so.
pub(crate) fn file_of(relation: &pg_sys::RelationData) -> pg_sys::Oid {
    #[cfg(feature = "pg15")]
    return relation.rd_node.relNode;
    #[cfg(not(feature = "pg15"))]
    return relation.rd_locator.relNumber;
}

/// A session's place in the process array, and its local transaction, 0 for none. 17 keeps the two
/// together.
pub(crate) fn place_of(process: &pg_sys::PGPROC) -> (usize, u32) {
    #[cfg(not(feature = "pg17up"))]
    return (process.pgprocno as usize, process.lxid);
    #[cfg(feature = "pg17up")]
    return (process.vxid.procNumber as usize, process.vxid.lxid);
}

/// A session's number among those that are sent signals.
pub(crate) fn backend_of(process: &pg_sys::PGPROC) -> i32 {
    #[cfg(not(feature = "pg17up"))]
    return process.backendId;
    #[cfg(feature = "pg17up")]
    return process.vxid.procNumber;
}

/// The status of a session, by its number in the list of them, from 1. Since 16 there is another
/// function that takes other numbers.
///
/// # Safety
/// The result is valid until the list is cleared. To be called where an ERROR may be raised.
pub(crate) unsafe fn status_of(number: i32) -> *mut pg_sys::LocalPgBackendStatus {
    // SAFETY: null for a number that there is not.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pgstat_fetch_stat_local_beentry(number);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::pgstat_get_local_beentry_by_index(number);
    }
}

/// The role whose rights count for an entry of a query's range table; invalid: the current one.
///
/// # Safety
/// Query and entry must belong together, and be valid.
pub(crate) unsafe fn checked_as(
    query: &pg_sys::Query,
    entry: &pg_sys::RangeTblEntry,
) -> pg_sys::Oid {
    #[cfg(feature = "pg15")]
    {
        let _ = query;
        entry.checkAsUser
    }
    #[cfg(not(feature = "pg15"))]
    // SAFETY: by the caller's promise, the list has as many elements as the entries point to.
    unsafe {
        let at = (entry.perminfoindex as usize).checked_sub(1);
        let info = at.and_then(|at| nodes(query.rteperminfos).nth(at));
        info.map_or(pg_sys::InvalidOid, |info| {
            info.cast::<pg_sys::RTEPermissionInfo>()
                .as_ref()
                .checkAsUser
        })
    }
}

/// The join that MERGE matches rows by. Until 16 it is the condition of the join tree.
#[inline]
pub(crate) fn merge_condition(query: &pg_sys::Query) -> *mut pg_sys::Node {
    #[cfg(not(feature = "pg17up"))]
    let (_, condition) = (query, null_mut());
    #[cfg(feature = "pg17up")]
    let condition = query.mergeJoinCondition;
    condition
}

/// As below: until 16 there is none.
#[cfg(not(feature = "pg17up"))]
#[inline]
pub(crate) unsafe fn unknown_clause(_: &pg_sys::Query) -> Option<&'static str> {
    None
}

/// A clause of a query that 15 does not have, and about which the descriptions of queries would be
/// wrong.
///
/// # Safety
/// `query` must be an analysed query.
#[cfg(feature = "pg17up")]
pub(crate) unsafe fn unknown_clause(query: &pg_sys::Query) -> Option<&'static str> {
    use pg_sys::MergeMatchKind::MERGE_WHEN_NOT_MATCHED_BY_SOURCE;
    // SAFETY: a list of MergeAction.
    let mut actions = unsafe { crate::base::lists::nodes(query.mergeActionList) };
    // SAFETY: as above.
    let by_source = actions.any(|action| unsafe {
        action.cast::<pg_sys::MergeAction>().as_ref().matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE
    });
    if by_source {
        return Some("MERGE ... WHEN NOT MATCHED BY SOURCE");
    }
    // SAFETY: an expression of the query.
    #[cfg(feature = "pg18")]
    if unsafe { raw18::contain_vars_returning_old_or_new(query.returningList.cast()) } {
        return Some("OLD or NEW in RETURNING");
    }
    let merge = query.commandType == pg_sys::CmdType::CMD_MERGE;
    (merge && !query.returningList.is_null()).then_some("MERGE ... RETURNING")
}

/// Whether a column is given a STORAGE where it is made.
pub(crate) fn sets_storage(column: &pg_sys::ColumnDef) -> bool {
    #[cfg(feature = "pg15")]
    let (_, set) = (column, false);
    #[cfg(not(feature = "pg15"))]
    let set = !column.storage_name.is_null();
    set
}

/// Columns of `pg_constraint` between the kind and the table. 18 has one more.
pub(crate) const CONSTRAINT_FLAGS: usize = 3 + cfg!(feature = "pg18") as usize;

/// A clause of a constraint, as parsed, that 15 does not have.
pub(crate) fn unknown_constraint(c: &pg_sys::Constraint) -> Option<&'static str> {
    #[cfg(not(feature = "pg18"))]
    let (_, clause) = (c, None);
    #[cfg(feature = "pg18")]
    use pg_sys::ConstrType::*;
    #[cfg(feature = "pg18")]
    let clause = match c.contype {
        CONSTR_GENERATED if c.generated_kind as u8 != pg_sys::ATTRIBUTE_GENERATED_STORED => {
            Some("a VIRTUAL column")
        }
        CONSTR_PRIMARY | CONSTR_UNIQUE if c.without_overlaps => Some("WITHOUT OVERLAPS"),
        CONSTR_FOREIGN if c.fk_with_period || c.pk_with_period => Some("PERIOD"),
        CONSTR_CHECK | CONSTR_FOREIGN if !c.is_enforced => Some("NOT ENFORCED"),
        CONSTR_ATTR_NOT_ENFORCED => Some("NOT ENFORCED"),
        CONSTR_ATTR_ENFORCED => Some("ENFORCED"),
        CONSTR_NOTNULL if !c.keys.is_null() => Some("NOT NULL as a constraint of the table"),
        CONSTR_NOTNULL if c.is_no_inherit => Some("NOT NULL ... NO INHERIT"),
        _ => None,
    };
    clause
}

/// The number that the next object of a catalog gets. 17 gave the variable another name.
pub(crate) fn next_number() -> u32 {
    // SAFETY: a word in shared memory, set up before any session starts; others may write it at any
    // moment.
    unsafe {
        #[cfg(not(feature = "pg17up"))]
        let variables = pg_sys::ShmemVariableCache;
        #[cfg(feature = "pg17up")]
        let variables = pg_sys::TransamVariables;
        (&raw const (*variables).nextOid).read_volatile().to_u32()
    }
}

/// Whether the session holds the lock in this mode; 17 can be asked for stronger ones as well.
///
/// # Safety
/// To be called in a transaction.
pub(crate) unsafe fn holds_lock(tag: &pg_sys::LOCKTAG, mode: c_int) -> bool {
    // SAFETY: looks into a table of this process.
    unsafe {
        #[cfg(not(feature = "pg17up"))]
        return pg_sys::LockHeldByMe(tag, mode);
        #[cfg(feature = "pg17up")]
        return pg_sys::LockHeldByMe(tag, mode, false);
    }
}

extern "C-unwind" {
    // libpq.h, which pgrx does not read.
    fn pq_startmsgread();
    fn pq_endmsgread();
    fn pq_peekbyte() -> c_int;
    #[cfg(not(feature = "pg17up"))]
    fn pq_buffer_has_data() -> bool;
    #[cfg(feature = "pg17up")]
    fn pq_buffer_remaining_data() -> isize;
}

/// Whether the client's next message is here already, and is Sync. Must be called between two
/// messages of the client.
pub(crate) fn next_message_is_sync() -> bool {
    // SAFETY: no message is being read. A byte that is here is looked at without waiting.
    unsafe {
        #[cfg(not(feature = "pg17up"))]
        let here = pq_buffer_has_data();
        #[cfg(feature = "pg17up")]
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
pub(crate) fn idle_session_timeout() -> c_int {
    8 + c_int::from(cfg!(feature = "pg17up"))
}

/// Puts entries for OLD and NEW before those of a view's query. Until 15 it has them.
///
/// # Safety
/// `query` must be a copy of the view's query.
pub(crate) unsafe fn name_old_and_new(query: *mut pg_sys::Query, view: pg_sys::Oid) {
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

/// The columns of a descriptor, dropped ones too. 18 keeps them behind a short form of each.
///
/// # Safety
/// `descriptor` must be valid, and outlive the result.
pub(crate) unsafe fn attributes<'d>(
    descriptor: pg_sys::TupleDesc,
) -> &'d [pg_sys::FormData_pg_attribute] {
    // SAFETY: by the caller's promise, with natts columns.
    unsafe {
        let count = (*descriptor).natts as usize;
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_slice(count);
        #[cfg(feature = "pg18")]
        {
            let short = (&raw const (*descriptor).compact_attrs).cast::<pg_sys::CompactAttribute>();
            std::slice::from_raw_parts(short.add(count).cast(), count)
        }
    }
}

/// Begins a scan of an index with its table, or without one for bitmaps. 18 can count what it does.
///
/// # Safety
/// Both must be open, and the snapshot registered. To be called where an ERROR may be raised.
pub(crate) unsafe fn begin_index_scan(
    table: Option<pg_sys::Relation>,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    keys: c_int,
) -> pg_sys::IndexScanDesc {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return match table {
            Some(table) => pg_sys::index_beginscan(table, index, snapshot, keys, 0),
            None => pg_sys::index_beginscan_bitmap(index, snapshot, keys),
        };
        #[cfg(feature = "pg18")]
        return match table {
            Some(table) => pg_sys::index_beginscan(table, index, snapshot, null_mut(), keys, 0),
            None => pg_sys::index_beginscan_bitmap(index, snapshot, null_mut(), keys),
        };
    }
}

/// Sets the handler of a signal. 18 gives the function of servers another name.
///
/// # Safety
/// The handler must be one that may run at any moment.
pub(crate) unsafe fn on_signal(signal: c_int, handler: pg_sys::pqsigfunc) {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(signal, handler);
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(signal, handler);
    }
}

/// Runs a portal to its end. Until 17 the caller said that it runs once.
///
/// # Safety
/// The portal must have started, and the receiver be its own. To be called where an ERROR may be
/// raised.
pub(crate) unsafe fn run_portal(
    portal: pg_sys::Portal,
    receiver: *mut pg_sys::DestReceiver,
    completion: &mut pg_sys::QueryCompletion,
) {
    let all = std::ffi::c_long::MAX;
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::PortalRun(portal, all, true, true, receiver, receiver, completion);
        #[cfg(feature = "pg18")]
        pg_sys::PortalRun(portal, all, true, receiver, receiver, completion);
    }
}

/// The arguments of `ExecutorRun`. Until 17 the caller says whether it runs the query once.
pub(crate) struct Run {
    pub(crate) query: *mut pg_sys::QueryDesc,
    pub(crate) direction: pg_sys::ScanDirection::Type,
    pub(crate) count: u64,
    #[cfg(not(feature = "pg18"))]
    pub(crate) once: bool,
}

impl Run {
    /// Of a query that goes on from where it is, until its receiver wants no more rows.
    pub(crate) fn on(query: *mut pg_sys::QueryDesc) -> Run {
        Run {
            query,
            direction: pg_sys::ScanDirection::ForwardScanDirection,
            count: 0,
            #[cfg(not(feature = "pg18"))]
            once: false,
        }
    }

    /// Runs the query by the next hook, or as PostgreSQL does.
    ///
    /// # Safety
    /// The arguments must be those of a hook; nothing to drop may be on the stack.
    pub(crate) unsafe fn go_on(self, next: pg_sys::ExecutorRun_hook_type) {
        // SAFETY: by the caller's promise.
        unsafe {
            #[cfg(not(feature = "pg18"))]
            match next {
                Some(next) => next(self.query, self.direction, self.count, self.once),
                None => {
                    raw17::standard_ExecutorRun(self.query, self.direction, self.count, self.once)
                }
            }
            #[cfg(feature = "pg18")]
            match next {
                Some(next) => next(self.query, self.direction, self.count),
                None => raw18::standard_ExecutorRun(self.query, self.direction, self.count),
            }
        }
    }
}

/// Declares an `ExecutorRun_hook` that passes its arguments to a function as a [`Run`].
macro_rules! executor_run_hook {
    ($hook:ident, $on_run:path) => {
        #[cfg(not(feature = "pg18"))]
        unsafe extern "C-unwind" fn $hook(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
            once: bool,
        ) {
            // SAFETY: the arguments are passed on.
            unsafe {
                $on_run($crate::base::major::Run {
                    query,
                    direction,
                    count,
                    once,
                })
            }
        }

        #[cfg(feature = "pg18")]
        unsafe extern "C-unwind" fn $hook(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
        ) {
            // SAFETY: the arguments are passed on.
            unsafe {
                $on_run($crate::base::major::Run {
                    query,
                    direction,
                    count,
                })
            }
        }
    };
}
pub(crate) use executor_run_hook;

/// Whether texts are ordered by their bytes under a collation. 18 has no function that says so.
///
/// # Safety
/// To be called where an ERROR may be raised.
pub(crate) unsafe fn orders_by_bytes(collation: pg_sys::Oid) -> bool {
    #[cfg(not(feature = "pg18"))]
    extern "C-unwind" {
        // pg_locale.h, which pgrx does not read.
        fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    }
    #[cfg(feature = "pg18")]
    extern "C-unwind" {
        // pg_locale.h, which pgrx does not read.
        fn pg_newlocale_from_collation(collation: pg_sys::Oid) -> *const Locale;
    }
    /// The first fields of `pg_locale_struct`.
    #[cfg(feature = "pg18")]
    #[repr(C)]
    struct Locale {
        _provider: c_char,
        _deterministic: bool,
        collate_is_c: bool,
    }
    // SAFETY: by the caller's promise; the result is kept for the life of the session.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return lc_collate_is_c(collation);
        #[cfg(feature = "pg18")]
        return (*pg_newlocale_from_collation(collation)).collate_is_c;
    }
}
