//! A utility statement in the words of the rooms above.
use std::ffi::{c_int, CStr};

use pgrx::pg_sys;

use crate::base::lists::nodes;
use crate::ddl::targets::Rights;
use crate::session_transaction::Statement;

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

impl<'a> Utility<'a> {
    /// # Safety
    /// `node` must be a utility statement in this context.
    pub(super) unsafe fn of(
        node: *mut pg_sys::Node,
        command: &'a str,
        context: pg_sys::ProcessUtilityContext::Type,
    ) -> Self {
        use pg_sys::NodeTag::{T_CallStmt, T_LockStmt, T_TruncateStmt};
        // SAFETY: by the caller's promise; the tag says which structure follows.
        unsafe {
            let tag = (*node).type_;
            Utility {
                command,
                is_truncate: tag == T_TruncateStmt,
                is_call: tag == T_CallStmt,
                is_lock: tag == T_LockStmt,
                part_of_another: context
                    == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_SUBCOMMAND,
                restarts_sequences: tag == T_TruncateStmt
                    && (*node.cast::<pg_sys::TruncateStmt>()).restart_seqs,
                alters: altered_table(node),
                locks: locked_tables(node),
                copies: copied_table(node),
                rights: Rights::of(node),
                leaves_nothing: leaves_nothing(node),
            }
        }
    }
}

/// Its command tag.
///
/// # Safety
/// `node` must be a utility statement.
pub(super) unsafe fn command_of(node: *mut pg_sys::Node) -> &'static CStr {
    // SAFETY: by the caller's promise; command tags are static strings.
    unsafe { CStr::from_ptr(pg_sys::GetCommandTagName(pg_sys::CreateCommandTag(node))) }
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
pub(super) unsafe fn own_statement(node: *mut pg_sys::Node) -> Statement {
    use pg_sys::NodeTag::*;
    let mut statement = Statement::default();
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
