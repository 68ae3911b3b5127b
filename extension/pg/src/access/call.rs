//! Statements that only call a function, and the places that such a call may access.
use std::ffi::CStr;
use std::ptr::{null_mut, NonNull};

use chainify_sched::declared::KeyValue;
use chainify_sched::value::{encode, Class, Value};
use chainify_sched::KeyId;
use pgrx::pg_sys;

use crate::access::relation::{counted_as, facts, Key};
use crate::base::lists::elements;

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
pub(crate) unsafe fn called(lists: &[*mut pg_sys::List]) -> Option<Called> {
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
pub(crate) unsafe fn called_by(utility: NonNull<pg_sys::Node>) -> Option<Called> {
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

/// Which columns of a query say something about the keys of the rows of a relation.
pub struct KeyColumns(Vec<KeyColumn>);

/// The first columns of a key, as far as there are such, by their class and their place in the
/// query.
struct KeyColumn {
    key: KeyId,
    columns: Vec<(Class, usize)>,
    /// These are all of the key.
    all: bool,
}

impl KeyColumns {
    /// The keys of a relation in terms of a query's columns with these names. Raises when there is
    /// no such relation.
    pub fn of(relation: pg_sys::Oid, names: &[String]) -> Self {
        let facts = facts(relation);
        let place = |column: i16| {
            // SAFETY: a catalog look-up; null for a column that is gone, else a fresh C string.
            let name = unsafe {
                let name = pg_sys::get_attname(relation, column, true);
                (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy())
            }?;
            names.iter().position(|n| *n == name)
        };
        let columns = |key: &Key| {
            let columns = key.columns.iter();
            let columns = columns.map_while(|(column, class)| Some(((*class)?, place(*column)?)));
            columns.collect::<Vec<_>>()
        };
        let keys = (0..).zip(&facts.keys);
        let keys = keys.filter(|(_, key)| !facts.whole && key.bounds());
        let keys = keys.map(|(number, key)| {
            let columns = columns(key);
            let all = columns.len() == key.columns.len();
            KeyColumn {
                key: number,
                columns,
                all,
            }
        });
        KeyColumns(keys.filter(|key| !key.columns.is_empty()).collect())
    }

    /// The contents of a row of the query.
    pub fn values(&self, row: &[Value]) -> Vec<KeyValue> {
        let value = |key: &KeyColumn| {
            let mut bytes = Vec::new();
            let encoded = |(class, at): &&(Class, usize)| {
                row.get(*at).is_some_and(|v| encode(*class, v, &mut bytes))
            };
            let known = key.columns.iter().take_while(encoded).count();
            (known > 0).then_some(KeyValue {
                key: key.key,
                complete: key.all && known == key.columns.len(),
                bytes,
            })
        };
        self.0.iter().filter_map(value).collect()
    }
}

/// The number under which accesses to a relation count.
pub fn counted(relation: pg_sys::Oid) -> u32 {
    counted_as(relation).to_u32()
}
