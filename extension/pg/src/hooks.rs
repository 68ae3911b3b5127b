//! Hooks of the executor, of utility statements and of DDL, as safe callbacks.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::access::plpgsql::kept;
use crate::base::error::enter;
use crate::base::lists::nodes;
use crate::base::next::Next;
use crate::ddl::targets::Rights;
use crate::describe::relation_use;
pub use crate::describe::relation_use::Access;
use crate::describe::relation_use::Asked;
use crate::session_transaction::{self, Course};

/// The change of a database object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Create,
    Alter,
    Drop,
    Truncate,
}

/// A DDL event.
#[derive(Clone, Copy, Debug)]
pub struct Ddl {
    pub change: Change,
    /// Catalog of the object, and its oid.
    pub class: pg_sys::Oid,
    pub object: pg_sys::Oid,
    /// The number of a relation's column; 0 for an object as a whole.
    pub column: i32,
    /// Of a change of inheritance: the parent.
    pub auxiliary: pg_sys::Oid,
    /// A by-product of another command (a rewritten table, an index of a constraint).
    pub internal: bool,
}

/// A utility statement about to run.
pub struct Utility<'a> {
    /// Its command tag.
    pub command: &'a str,
    pub is_truncate: bool,
    pub is_call: bool,
    pub is_lock: bool,
    /// A step of a statement that came by already.
    pub part_of_another: bool,
    /// TRUNCATE ... RESTART IDENTITY.
    pub restarts_sequences: bool,
    /// The table of an ALTER TABLE. Not every kind of it has a DDL event.
    pub alters: Option<pg_sys::Oid>,
    /// Of LOCK in a mode that keeps writers out: the tables and views named.
    pub locks: Vec<pg_sys::Oid>,
    /// The table that COPY … TO reads.
    pub copies: Option<pg_sys::Oid>,
    /// Of GRANT and REVOKE.
    pub rights: Option<Rights>,
    /// It leaves nothing behind in the transaction that a rollback of it would undo.
    pub leaves_nothing: bool,
}

/// The callbacks of the extension. Callbacks raise to refuse.
pub struct Watch {
    /// For every relation of a statement that is about to run.
    pub relation: fn(pg_sys::Oid, Access),
    /// For every utility statement.
    pub utility: fn(&Utility),
    /// For every change of an object.
    pub ddl: fn(Ddl),
    /// For every function that an expression is about to call, once per expression, whoever runs
    /// it.
    pub function: fn(pg_sys::Oid),
    /// Whether `relation` and `utility` want to be called now; asked first, because it is asked for
    /// every statement.
    pub wanted: fn() -> bool,
}

static WATCH: OnceLock<&'static Watch> = OnceLock::new();

static NEXT_UTILITY: Next<pg_sys::ProcessUtility_hook_type> = Next::new();
static NEXT_DDL: Next<pg_sys::object_access_hook_type> = Next::new();

/// Installs the hooks in front of those there already; once, while the library is loaded.
pub fn watch(watch: &'static Watch) {
    if WATCH.set(watch).is_err() {
        return;
    }
    // SAFETY: hooks are set while the postmaster loads libraries, before any backend exists.
    unsafe {
        relation_use::install(on_permissions);
        NEXT_UTILITY.install(&raw mut pg_sys::ProcessUtility_hook, on_utility);
        NEXT_DDL.install(&raw mut pg_sys::object_access_hook, on_ddl);
    }
}

/// # Safety
/// `node` must be a utility statement.
unsafe fn altered_table(node: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: the tag says which structure follows.
    unsafe {
        if (*node).type_ != pg_sys::NodeTag::T_AlterTableStmt {
            return None;
        }
        named((*node.cast::<pg_sys::AlterTableStmt>()).relation)
    }
}

/// # Safety
/// `node` must be a utility statement.
unsafe fn locked_tables(node: *mut pg_sys::Node) -> Vec<pg_sys::Oid> {
    // SAFETY: the tag says which structure follows; the list is of names.
    unsafe {
        if (*node).type_ != pg_sys::NodeTag::T_LockStmt {
            return Vec::new();
        }
        let lock = &*node.cast::<pg_sys::LockStmt>();
        let Some(list) = lock.relations.as_ref() else {
            return Vec::new();
        };
        if lock.mode <= pg_sys::RowExclusiveLock as i32 {
            return Vec::new();
        }
        std::slice::from_raw_parts(list.elements, list.length as usize)
            .iter()
            .filter_map(|cell| named(cell.ptr_value.cast()))
            .collect()
    }
}

/// The table that COPY … TO reads.
///
/// # Safety
/// `node` must be a utility statement.
unsafe fn copied_table(node: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: the tag says which structure follows; the name is from the parser.
    unsafe {
        if (*node).type_ != pg_sys::NodeTag::T_CopyStmt {
            return None;
        }
        let copy = &*node.cast::<pg_sys::CopyStmt>();
        (!copy.is_from && !copy.relation.is_null())
            .then(|| named(copy.relation))
            .flatten()
    }
}

/// Whether a statement leaves nothing behind that undoing its subtransaction would take back: not
/// objects, not notifications. The session keeps its settings.
///
/// # Safety
/// `node` must be a utility statement.
unsafe fn leaves_nothing(node: *mut pg_sys::Node) -> bool {
    use pg_sys::NodeTag::*;
    // SAFETY: the tag says which structure follows.
    unsafe {
        match (*node).type_ {
            T_DeclareCursorStmt => {
                let options = (*node.cast::<pg_sys::DeclareCursorStmt>()).options;
                options & pg_sys::CURSOR_OPT_HOLD as c_int == 0
            }
            T_TransactionStmt | T_VariableSetStmt | T_FetchStmt | T_ClosePortalStmt
            | T_PrepareStmt | T_DeallocateStmt | T_ExecuteStmt | T_ExplainStmt | T_CopyStmt
            | T_TruncateStmt | T_CallStmt | T_DoStmt | T_VariableShowStmt | T_LockStmt
            | T_ConstraintsSetStmt | T_LoadStmt | T_CheckPointStmt => true,
            _ => false,
        }
    }
}

/// The tables that COPY or TRUNCATE changes, and whether the statement may run any other.
///
/// # Safety
/// `node` must be a utility statement.
unsafe fn own_statement(node: *mut pg_sys::Node) -> session_transaction::Statement {
    use pg_sys::NodeTag::*;
    let mut statement = session_transaction::Statement::default();
    // SAFETY: the tag says which structure follows; the names are from the parser.
    unsafe {
        match (*node).type_ {
            T_CallStmt | T_DoStmt => statement.may_run_others = true,
            T_CopyStmt => {
                let copy = &*node.cast::<pg_sys::CopyStmt>();
                if copy.is_from && !copy.relation.is_null() {
                    statement.writes.extend(named(copy.relation));
                }
            }
            T_TruncateStmt => {
                let relations = (*node.cast::<pg_sys::TruncateStmt>()).relations;
                let tables = nodes(relations).filter_map(|name| named(name.cast().as_ptr()));
                statement.writes.extend(tables);
            }
            _ => (),
        }
    }
    statement
}

/// # Safety
/// `name` must be a name from the parser. It is looked up without a lock, and may be unknown.
unsafe fn named(name: *mut pg_sys::RangeVar) -> Option<pg_sys::Oid> {
    let missing_ok = pg_sys::RVROption::RVR_MISSING_OK;
    let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
    // SAFETY: by the caller's promise.
    let oid = unsafe {
        pg_sys::RangeVarGetRelidExtended(name, no_lock, missing_ok, None, std::ptr::null_mut())
    };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// # Safety
/// `asked` must be of one statement, about to run.
unsafe fn on_permissions(asked: Asked, raise: bool) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        enter(|| {
            if let Some(watch) = WATCH.get().filter(|w| (w.wanted)()) {
                for (relation, access) in asked.relations() {
                    (watch.relation)(relation, access);
                }
            }
        });
        asked.told(raise)
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn on_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    dest: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: the arguments are passed on, with a copy of a CALL that may be changed; command tags
    // are static strings.
    unsafe {
        let (mut statement, mut read_only_tree) = (statement, read_only_tree);
        let (course, replaced) = enter(|| {
            let mut replaced = std::ptr::null_mut();
            let node = (*statement).utilityStmt;
            let course = session_transaction::utility(node, context, || own_statement(node));
            if course == Course::Later {
                return (course, replaced);
            }
            if (*(*statement).utilityStmt).type_ != pg_sys::NodeTag::T_CallStmt {
                crate::run::executor_cache::forget();
            }
            if let Some(watch) = WATCH.get().filter(|w| (w.wanted)()) {
                let tag = CStr::from_ptr(pg_sys::GetCommandTagName(pg_sys::CreateCommandTag(node)));
                (watch.utility)(&Utility {
                    command: &tag.to_string_lossy(),
                    is_truncate: (*node).type_ == pg_sys::NodeTag::T_TruncateStmt,
                    is_call: (*node).type_ == pg_sys::NodeTag::T_CallStmt,
                    is_lock: (*node).type_ == pg_sys::NodeTag::T_LockStmt,
                    part_of_another: context
                        == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_SUBCOMMAND,
                    restarts_sequences: (*node).type_ == pg_sys::NodeTag::T_TruncateStmt
                        && (*node.cast::<pg_sys::TruncateStmt>()).restart_seqs,
                    alters: altered_table(node),
                    locks: locked_tables(node),
                    copies: copied_table(node),
                    rights: Rights::of(node),
                    leaves_nothing: leaves_nothing(node),
                });
                if (*node).type_ == pg_sys::NodeTag::T_CallStmt {
                    replaced = crate::run::planning::check_call(statement, text);
                }
            }
            (course, replaced)
        });
        if course == Course::Later {
            if let Some(completion) = completion.as_mut() {
                completion.commandTag = pg_sys::CreateCommandTag((*statement).utilityStmt);
                completion.nprocessed = 0;
            }
            return;
        }
        if !replaced.is_null() {
            (statement, read_only_tree) = (replaced, false);
        }
        // Called directly, not through pgrx: nothing of ours is on the stack that an ERROR could
        // skip.
        match NEXT_UTILITY.get() {
            Some(next) => next(
                statement,
                text,
                read_only_tree,
                context,
                params,
                environment,
                dest,
                completion,
            ),
            None => raw::standard_ProcessUtility(
                statement,
                text,
                read_only_tree,
                context,
                params,
                environment,
                dest,
                completion,
            ),
        }
        if course == Course::Procedure {
            enter(session_transaction::procedure_ended);
        }
    }
}

mod raw {
    use super::{c_char, pg_sys};
    c_functions! {
        pub(crate) fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            text: *const c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            environment: *mut pg_sys::QueryEnvironment,
            dest: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
    }
}

unsafe extern "C-unwind" fn on_ddl(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is null or what objectaccess.h says for this kind of access.
    unsafe {
        enter(|| {
            use pg_sys::ObjectAccessType::*;
            let (mut auxiliary, mut internal) = (pg_sys::InvalidOid, false);
            let change = match access {
                OAT_POST_CREATE => {
                    internal = arg
                        .cast::<pg_sys::ObjectAccessPostCreate>()
                        .as_ref()
                        .is_some_and(|a| a.is_internal);
                    Change::Create
                }
                OAT_POST_ALTER => {
                    if let Some(a) = arg.cast::<pg_sys::ObjectAccessPostAlter>().as_ref() {
                        (auxiliary, internal) = (a.auxiliary_id, a.is_internal);
                    }
                    Change::Alter
                }
                OAT_DROP => {
                    let flags = arg
                        .cast::<pg_sys::ObjectAccessDrop>()
                        .as_ref()
                        .map_or(0, |a| a.dropflags);
                    internal = flags & pg_sys::PERFORM_DELETION_INTERNAL as i32 != 0;
                    Change::Drop
                }
                OAT_TRUNCATE => Change::Truncate,
                OAT_FUNCTION_EXECUTE => {
                    if let Some(watch) = WATCH.get() {
                        (watch.function)(object);
                    }
                    return;
                }
                _ => return,
            };
            if change == Change::Create && class == pg_sys::ProcedureRelationId {
                kept::made(object);
            }
            if let Some(watch) = WATCH.get() {
                (watch.ddl)(Ddl {
                    change,
                    class,
                    object,
                    column: sub,
                    auxiliary,
                    internal,
                });
            }
        });
        if let Some(next) = NEXT_DDL.get() {
            next(access, class, object, sub, arg);
        }
    }
}

/// Whether an extension's script is being run; DDL is its own then.
pub fn creating_extension() -> bool {
    // SAFETY: reads a static variable.
    unsafe { pg_sys::creating_extension }
}
