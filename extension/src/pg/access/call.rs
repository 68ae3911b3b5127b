//! Statements that only call a function, and where the rows are that such a call may access.
use std::ffi::CStr;
use std::ptr::{null_mut, NonNull};

use chainify_sched::declared::KeyValue;
use chainify_sched::value::{encode, Value};
use pgrx::pg_sys;

use super::relation::{counted_as, facts};
use crate::pg::analysis::elements;

/// A call.
pub struct Called {
    pub function: pg_sys::Oid,
    /// Its arguments as SQL, defaults filled in; parameters are those of the statement.
    pub arguments: Vec<String>,
}

/// The call that a statement consists of; None: it is something else.
///
/// # Safety
/// `lists` must be analysed and rewritten queries.
pub(in crate::pg) unsafe fn called(lists: &[*mut pg_sys::List]) -> Option<Called> {
    // SAFETY: by the caller's promise.
    unsafe {
        let [list] = lists else { return None };
        let [query] = elements::<pg_sys::Query>(*list)[..] else {
            return None;
        };
        spelled(function(query)?)
    }
}

/// The call that a utility statement is.
///
/// # Safety
/// `utility` must be analysed.
pub(in crate::pg) unsafe fn called_by(utility: NonNull<pg_sys::Node>) -> Option<Called> {
    // SAFETY: by the caller's promise.
    unsafe { spelled(procedure(utility)?) }
}

unsafe fn spelled(call: NonNull<pg_sys::FuncExpr>) -> Option<Called> {
    // SAFETY: an analysed call. The row of pg_proc is released.
    unsafe {
        let call = call.as_ref();
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(call.funcid));
        if tuple.is_null() {
            return None;
        }
        let all = pg_sys::expand_function_arguments(call.args, false, call.funcresulttype, tuple);
        pg_sys::ReleaseSysCache(tuple);
        let spelled = |node: NonNull<pg_sys::Node>| {
            let text = pg_sys::deparse_expression(node.as_ptr(), null_mut(), false, false);
            CStr::from_ptr(text).to_string_lossy().into_owned()
        };
        Some(Called {
            function: call.funcid,
            arguments: elements(all).into_iter().map(spelled).collect(),
        })
    }
}

unsafe fn function(query: NonNull<pg_sys::Query>) -> Option<NonNull<pg_sys::FuncExpr>> {
    // SAFETY: an analysed query; tags say which structures follow.
    unsafe {
        let q = query.as_ref();
        let node: *mut pg_sys::Node = match q.commandType {
            pg_sys::CmdType::CMD_UTILITY => {
                return procedure(NonNull::new(q.utilityStmt)?);
            }
            pg_sys::CmdType::CMD_SELECT if q.rtable.is_null() => {
                let [target] = elements::<pg_sys::TargetEntry>(q.targetList)[..] else {
                    return None;
                };
                target.as_ref().expr.cast()
            }
            _ => return None,
        };
        let node = NonNull::new(node)?;
        (node.as_ref().type_ == pg_sys::NodeTag::T_FuncExpr).then(|| node.cast())
    }
}

unsafe fn procedure(utility: NonNull<pg_sys::Node>) -> Option<NonNull<pg_sys::FuncExpr>> {
    // SAFETY: an analysed utility statement, whose tag says which structure follows.
    unsafe {
        let call = utility.as_ref().type_ == pg_sys::NodeTag::T_CallStmt;
        call.then(|| NonNull::new(utility.cast::<pg_sys::CallStmt>().as_ref().funcexpr))?
    }
}

/// What values of columns, by name, say about the keys of a row.
pub fn key_values(relation: pg_sys::Oid, columns: &[String], values: &[Value]) -> Vec<KeyValue> {
    let facts = facts(relation);
    let value_of = |column: i16| {
        // SAFETY: a catalog look-up; null for a column that is gone, else a fresh C string.
        let name = unsafe {
            let name = pg_sys::get_attname(relation, column, true);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy())
        }?;
        let at = columns.iter().position(|column| *column == name)?;
        values.get(at)
    };
    let mut found = Vec::new();
    for (key, k) in (0..).zip(&facts.keys) {
        if facts.whole || !k.bounds() {
            continue;
        }
        let (mut bytes, mut known) = (Vec::new(), 0);
        for (column, class) in &k.columns {
            let (Some(class), Some(value)) = (class, value_of(*column)) else {
                break;
            };
            if !encode(*class, value, &mut bytes) {
                break;
            }
            known += 1;
        }
        if known > 0 {
            let complete = known == k.columns.len();
            found.push(KeyValue {
                key,
                bytes,
                complete,
            });
        }
    }
    found
}

/// The number under which accesses to a relation count.
pub fn counted(relation: pg_sys::Oid) -> u32 {
    counted_as(relation).to_u32()
}
