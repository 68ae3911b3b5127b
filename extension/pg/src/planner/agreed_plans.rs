//! Makes the plans of a block's statements a function of the statement and of the agreed
//! definitions.
//!
//! A plan decides for which rows an expression is computed, and so whether `10 / b` meets a zero.
//! In a block the planner therefore sees only facts that all organisations share (invariant X12):
//! * its settings have PostgreSQL's defaults, also inside functions that set them;
//! * every ledger table, and each of its partitions and indexes, has the same size, and there are
//!   no statistics;
//! * indexes come in the order of their definitions. An index that is no unique key is an
//!   organisation's own. It is used for queries whose conditions cannot raise an error. If their
//!   results can raise one, it returns rows in the order of the table.
//!
//! Settings are pinned for planning alone: execution keeps the memory that the operator gave it.
use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::base::above::Above;
use crate::base::error::enter;
use crate::base::lists::elements;
use crate::base::own_search_path::with_settings;
use crate::planner::agreed_order::{place, IndexKind, IndexPlace};
use crate::planner::block_settings::are_pinned;
use crate::tree::conditions::MayRaise;

/// The size that the planner takes every ledger table for. Without statistics a column has 200
/// values: two columns of a key find one row, so that such keys are looked up in their index. Rows
/// fill a page each, so that a table is read from end to end for no few rows.
const ROWS: f64 = 10_000.0;
const PAGES: u32 = 10_000;
const INDEX_PAGES: u32 = 50;
const INDEX_HEIGHT: i32 = 1;
/// Columns of a search beyond which none makes it cheaper, and what each one missing costs: a page.
const COLUMNS_MAX: i32 = 6;
const MISSING_COLUMN: f64 = 4.0;
/// No table space has this number, so that its pages cost what those of any do.
const NO_TABLESPACE: pg_sys::Oid = pg_sys::Oid::from_u32(1);

type Estimate = unsafe extern "C-unwind" fn(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loops: f64,
    startup: *mut f64,
    total: *mut f64,
    selectivity: *mut f64,
    correlation: *mut f64,
    pages: *mut f64,
);

extern "C-unwind" {
    fn btcostestimate(
        root: *mut pg_sys::PlannerInfo,
        path: *mut pg_sys::IndexPath,
        loops: f64,
        startup: *mut f64,
        total: *mut f64,
        selectivity: *mut f64,
        correlation: *mut f64,
        pages: *mut f64,
    );
}

/// A query that is being planned.
#[derive(Clone, Copy)]
struct Planned {
    query: *const pg_sys::Query,
    may_raise: MayRaise,
}

thread_local! {
    /// The innermost.
    static PLANNED: Cell<Option<Planned>> = const { Cell::new(None) };
    /// A function may keep the plan that is being made, and it is not of a block.
    static OF_SESSION: Cell<bool> = const { Cell::new(false) };
}

/// The answers of the rooms above about what all organisations have in common.
pub struct Agreed {
    /// Whether a relation is a ledger table or a partition of one.
    pub is_agreed: fn(pg_sys::Oid) -> bool,
    /// A plan over one was made outside of a block that a function may keep.
    pub planned_outside: fn(),
}

pub(crate) static ABOVE: Above<Agreed> = Above::new();

/// Runs `plan`, which plans this query. When it raises, abort processing puts settings back.
pub(super) fn planned<T>(
    query: *const pg_sys::Query,
    may_raise: MayRaise,
    plan: impl FnOnce() -> T,
) -> T {
    let outer = PLANNED.replace(Some(Planned { query, may_raise }));
    let changed = variables().into_iter().filter(|v| !v.is_as_pinned());
    let plan = with_settings(changed.map(|v| (v.name, v.text)), plan);
    PLANNED.set(outer);
    plan
}

/// Plans that a function may keep are made from now on, or not.
pub(super) fn of_session(kept: bool) {
    OF_SESSION.set(kept);
}

/// A setting of the planner.
struct Variable {
    name: &'static CStr,
    text: &'static CStr,
    value: Value,
}

enum Value {
    Flag(*const bool, bool),
    Number(*const f64, f64),
    Count(*const i32, i32),
}

impl Variable {
    fn is_as_pinned(&self) -> bool {
        // SAFETY: variables of the process, which its one thread changes.
        unsafe {
            match self.value {
                Value::Flag(at, value) => *at == value,
                Value::Number(at, value) => *at == value,
                Value::Count(at, value) => *at == value,
            }
        }
    }
}

macro_rules! variables {
    ($($kind:ident $name:literal $variable:ident = $text:literal, $value:expr;)*) => {
        [$(Variable {
            name: $name,
            text: $text,
            value: Value::$kind(&raw const pg_sys::$variable, $value),
        }),*]
    };
}

/// The settings of the planner, with PostgreSQL's defaults but for what is parallel, compiled or
/// random.
#[rustfmt::skip]
fn variables() -> [Variable; 35] {
    const ON_PARTITIONS: i32 = pg_sys::ConstraintExclusionType::CONSTRAINT_EXCLUSION_PARTITION as i32;
    variables! {
        Count c"max_parallel_workers_per_gather" max_parallel_workers_per_gather = c"0", 0;
        Flag c"jit" jit_enabled = c"off", false;
        Flag c"geqo" enable_geqo = c"off", false;
        Count c"constraint_exclusion" constraint_exclusion = c"partition", ON_PARTITIONS;
        Count c"from_collapse_limit" from_collapse_limit = c"8", 8;
        Count c"join_collapse_limit" join_collapse_limit = c"8", 8;
        Number c"cursor_tuple_fraction" cursor_tuple_fraction = c"0.1", 0.1;
        Number c"seq_page_cost" seq_page_cost = c"1", 1.0;
        Number c"random_page_cost" random_page_cost = c"4", 4.0;
        Number c"cpu_tuple_cost" cpu_tuple_cost = c"0.01", 0.01;
        Number c"cpu_index_tuple_cost" cpu_index_tuple_cost = c"0.005", 0.005;
        Number c"cpu_operator_cost" cpu_operator_cost = c"0.0025", 0.0025;
        Number c"recursive_worktable_factor" recursive_worktable_factor = c"10", 10.0;
        Count c"effective_cache_size" effective_cache_size = c"4GB", 524_288;
        Count c"work_mem" work_mem = c"4MB", 4_096;
        Number c"hash_mem_multiplier" hash_mem_multiplier = c"2", 2.0;
        Flag c"enable_partition_pruning" enable_partition_pruning = c"on", true;
        Flag c"enable_partitionwise_join" enable_partitionwise_join = c"off", false;
        Flag c"enable_partitionwise_aggregate" enable_partitionwise_aggregate = c"off", false;
        Flag c"enable_seqscan" enable_seqscan = c"on", true;
        Flag c"enable_indexscan" enable_indexscan = c"on", true;
        Flag c"enable_indexonlyscan" enable_indexonlyscan = c"on", true;
        Flag c"enable_bitmapscan" enable_bitmapscan = c"on", true;
        Flag c"enable_tidscan" enable_tidscan = c"on", true;
        Flag c"enable_sort" enable_sort = c"on", true;
        Flag c"enable_incremental_sort" enable_incremental_sort = c"on", true;
        Flag c"enable_hashagg" enable_hashagg = c"on", true;
        Flag c"enable_hashjoin" enable_hashjoin = c"on", true;
        Flag c"enable_mergejoin" enable_mergejoin = c"on", true;
        Flag c"enable_nestloop" enable_nestloop = c"on", true;
        Flag c"enable_material" enable_material = c"on", true;
        Flag c"enable_memoize" enable_memoize = c"on", true;
        Flag c"enable_gathermerge" enable_gathermerge = c"on", true;
        Flag c"enable_parallel_append" enable_parallel_append = c"on", true;
        Flag c"enable_parallel_hash" enable_parallel_hash = c"on", true;
    }
}

fn is_agreed(relation: pg_sys::Oid) -> bool {
    relation.to_u32() >= pg_sys::FirstNormalObjectId && (ABOVE.get().is_agreed)(relation)
}

/// The planner has read what it needs of a relation.
///
/// # Safety
/// The arguments must be those of `get_relation_info_hook`.
pub(crate) unsafe fn relation(
    root: *mut pg_sys::PlannerInfo,
    relation: pg_sys::Oid,
    is_parent: bool,
    info: *mut pg_sys::RelOptInfo,
) {
    if are_pinned() {
        if is_agreed(relation) {
            // SAFETY: by the caller's promise.
            unsafe { describe(root, &mut *info, is_parent) }
        }
    } else if OF_SESSION.get() && is_agreed(relation) {
        (ABOVE.get().planned_outside)();
    }
}

/// Describes a table to the planner as all organisations have it.
///
/// # Safety
/// `info` must be what the planner has just read of a table.
unsafe fn describe(
    root: *const pg_sys::PlannerInfo,
    info: &mut pg_sys::RelOptInfo,
    is_parent: bool,
) {
    info.statlist = std::ptr::null_mut();
    info.reltablespace = NO_TABLESPACE;
    // A parent has the rows of its partitions.
    if !is_parent {
        (info.pages, info.tuples, info.allvisfrac) = (PAGES, ROWS, 0.5);
    }
    // SAFETY: by the caller's promise, a list of indexes; the new one has some of the same.
    unsafe {
        let may_raise = may_raise_of(root);
        let mut indexes: Vec<(IndexPlace, *mut pg_sys::IndexOptInfo)> = Vec::new();
        for index in elements::<pg_sys::IndexOptInfo>(info.indexlist) {
            let place = place((*index.as_ptr()).indexoid);
            if place.kind != IndexKind::Own || may_raise != MayRaise::Conditions {
                describe_index(&mut *index.as_ptr(), place.kind, may_raise);
                indexes.push((place, index.as_ptr()));
            }
        }
        indexes.sort_by(|a, b| a.0.cmp(&b.0));
        info.indexlist = std::ptr::null_mut();
        for (_, index) in indexes {
            info.indexlist = pg_sys::lappend(info.indexlist, index.cast());
        }
    }
}

fn describe_index(index: &mut pg_sys::IndexOptInfo, kind: IndexKind, may_raise: MayRaise) {
    (index.pages, index.tuples) = (INDEX_PAGES, ROWS);
    index.reltablespace = NO_TABLESPACE;
    if index.tree_height >= 0 {
        index.tree_height = INDEX_HEIGHT;
    }
    // The planner looks into a hypothetical index for nothing: not for its size, nor for values.
    index.hypothetical = true;
    if may_raise == MayRaise::Results {
        index.amhasgettuple &= kind != IndexKind::Own;
    } else if index.relam == pg_sys::BTREE_AM_OID {
        let estimate = (&raw mut index.amcostestimate).cast::<Option<Estimate>>();
        // SAFETY: PostgreSQL calls it with these arguments; majors declare it with and without.
        unsafe { *estimate = Some(on_search) };
    }
}

/// The cost of a search in a B-tree. Without statistics two columns find a row as well as three do,
/// and PostgreSQL would take the first of such indexes: the one with more of them shall win.
///
/// Where the order of rows decides an error there is no such preference, as it could make an
/// organisation's own index win over a key.
unsafe extern "C-unwind" fn on_search(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loops: f64,
    startup: *mut f64,
    total: *mut f64,
    selectivity: *mut f64,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: the arguments are the planner's, and are passed on as they came.
    unsafe {
        btcostestimate(
            root,
            path,
            loops,
            startup,
            total,
            selectivity,
            correlation,
            pages,
        );
        enter(|| *total += f64::from(missing_columns(&*path)) * MISSING_COLUMN);
    }
}

/// The columns by which a search could be more exact; none where it is by a whole unique key.
///
/// # Safety
/// `path` must be the planner's.
unsafe fn missing_columns(path: &pg_sys::IndexPath) -> i32 {
    // SAFETY: by the caller's promise; a path has its index and clauses.
    unsafe {
        let index = &*path.indexinfo;
        let clauses = elements::<pg_sys::IndexClause>(path.indexclauses);
        let columns = (0..index.nkeycolumns)
            .take_while(|column| {
                let mut of = clauses.iter().map(|clause| clause.as_ref().indexcol);
                of.any(|of| i32::from(of) == *column)
            })
            .count() as i32;
        match index.unique && columns == index.nkeycolumns {
            true => 0,
            false => (COLUMNS_MAX - columns).max(0),
        }
    }
}

/// # Safety
/// `root` must be the planner's.
unsafe fn may_raise_of(mut root: *const pg_sys::PlannerInfo) -> MayRaise {
    // SAFETY: by the caller's promise; the chain ends at the query that the planner was given.
    let query = unsafe {
        while !(*root).parent_root.is_null() {
            root = (*root).parent_root;
        }
        (*root).parse.cast_const()
    };
    let planned = PLANNED.get().filter(|planned| planned.query == query);
    planned.map_or(MayRaise::Conditions, |planned| planned.may_raise)
}

/// Whether the statistics of a table's column are hidden from the planner.
///
/// # Safety
/// The arguments must be those of `get_relation_stats_hook`.
pub(crate) unsafe fn hides_column(
    table: *mut pg_sys::RangeTblEntry,
    data: *mut pg_sys::VariableStatData,
) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { are_pinned() && is_agreed((*table).relid) && without_statistics(data) }
}

/// Says that there are no statistics. Estimates of BRIN pass a structure that nobody has set.
///
/// # Safety
/// `data` must be the planner's.
unsafe fn without_statistics(data: *mut pg_sys::VariableStatData) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        (*data).statsTuple = std::ptr::null_mut();
        (*data).freefunc = None;
    }
    true
}

/// Whether those of an index's column are.
///
/// # Safety
/// The arguments must be those of `get_index_stats_hook`.
pub(crate) unsafe fn hides_index(index: pg_sys::Oid, data: *mut pg_sys::VariableStatData) -> bool {
    // SAFETY: by the caller's promise; an index that is being planned with has a table.
    unsafe {
        are_pinned() && is_agreed(pg_sys::IndexGetRelation(index, true)) && without_statistics(data)
    }
}

/// The width of a column; 0 leaves it to statistics. The relation must have it.
pub(crate) fn width(relation: pg_sys::Oid, column: pg_sys::AttrNumber) -> i32 {
    if column <= 0 || !are_pinned() || !is_agreed(relation) {
        return 0;
    }
    let (mut of, mut typmod, mut collation) = (pg_sys::InvalidOid, -1, pg_sys::InvalidOid);
    // SAFETY: out parameters are valid; a column that is not there raises.
    unsafe {
        pg_sys::get_atttypetypmodcoll(relation, column, &mut of, &mut typmod, &mut collation);
        pg_sys::get_typavgwidth(of, typmod)
    }
}
