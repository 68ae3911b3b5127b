//! Compiled PL/pgSQL functions that the session keeps, and which of them a transaction of the
//! ledger must not find.
//!
//! A compiled function holds the types that its text named, and plans of its statements. PostgreSQL
//! keeps it until the function's row changes. This file forgets a function, so that its next call
//! compiles it, in the cases where a new session could compile it differently:
//! * definitions changed since it was compiled, or since its statements were planned;
//! * an ordinary statement called it, with the session's own settings;
//! * the columns of its records may differ from call to call;
//! * it was compiled under another search_path, or by a role that may name other schemas.
//!
//! The ledger's own functions stay. They pin their search_path and name nothing that a DEPLOY
//! transaction makes, so that they are planned once in a session.
//!
//! States of simple expressions are kept until the block ends. A state was made for one role, whose
//! EXECUTE rights on the called functions were checked then. Another role gets a new state.
//!
//! Invariant X13: at the beginning of a transaction, a kept function behaves like a newly compiled
//! one.
//!
//! PostgreSQL never frees the structure of a function, only the memory to which it points. To
//! forget a function, this file removes the transaction id of its catalog row from the structure:
//! then PostgreSQL takes it for out of date.
use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::CStr;
use std::hash::{Hash, Hasher};
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::base::catalog::{generation, schema_name, schema_of_object, FUNCTIONS};
use crate::base::major_plpgsql;
use crate::base::relation::{Lock, Relation, Scratch};
use crate::base::subtransaction::subtransaction;
use crate::tree::node::{children, functions, NodeAt};

type Function = NonNull<pg_sys::PLpgSQL_function>;
type Look = unsafe fn(Function) -> (bool, Vec<NonNull<pg_sys::PLpgSQL_expr>>);

/// The environment in which a function is compiled and planned: everything that decides which
/// object a name means.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Environment {
    /// A hash of the search_path.
    path: u64,
    /// A hash of the schemas that the role may name.
    schemas: u64,
}

struct Known {
    /// The row that it was compiled from.
    row: (u32, u64),
    /// None: outside of a transaction of the ledger.
    environment: Option<Environment>,
    /// The number of the transaction that called it first.
    transaction: u64,
    /// The role that called it last.
    role: pg_sys::Oid,
    expressions: Vec<Expression>,
    /// To be forgotten before the next transaction.
    goes: bool,
    /// One of the ledger's own functions: its text means the same in any session and transaction.
    /// It is never forgotten.
    own: bool,
}

struct Expression {
    at: NonNull<pg_sys::PLpgSQL_expr>,
    /// Whether it calls functions that PostgreSQL does not have itself; None: it is not known yet.
    calls: Option<bool>,
}

#[derive(Default)]
struct Kept {
    known: HashMap<Function, Known>,
    /// Functions to be forgotten, each once.
    go: Vec<Function>,
    /// All functions are to be forgotten.
    all_go: bool,
    generation: u64,
    /// Counts transactions and attempts at one.
    transaction: u64,
    /// Functions created since the last transaction; CREATE FUNCTION compiled them to check them.
    made: Vec<pg_sys::Oid>,
    schemas: HashMap<pg_sys::Oid, u64>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    /// A transaction of the ledger runs.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether a transaction of the ledger runs.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Runs `f`, a transaction of the ledger or an attempt at it. Functions that it must not find were
/// forgotten ([`forget`]).
pub(crate) fn inside<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(true));
    f()
}

/// Notes that a function was created. CREATE FUNCTION may have compiled it, and no call reports
/// that.
pub(crate) fn made(function: pg_sys::Oid) {
    KEPT.with_borrow_mut(|kept| kept.made.push(function));
}

/// Forgets the functions that the next ledger transaction must not find. `compiled` returns a
/// function as CREATE FUNCTION compiled it.
pub(crate) fn forget(compiled: fn(pg_sys::Oid) -> Option<Function>) {
    let generation = generation();
    let mut made = KEPT.with_borrow_mut(|kept| std::mem::take(&mut kept.made));
    made.sort_unstable_by_key(|function| function.to_u32());
    made.dedup();
    for function in made {
        // A function that cannot be compiled is not kept.
        if let Ok(Some(function)) = subtransaction(|| Ok(compiled(function))) {
            KEPT.with_borrow_mut(|kept| kept.go.push(function));
        }
    }
    KEPT.with_borrow_mut(|kept| {
        kept.transaction += 1;
        if kept.generation != generation || kept.all_go {
            (kept.generation, kept.all_go) = (generation, false);
            kept.schemas.clear();
            let Kept { known, go, .. } = kept;
            go.retain(|function| !known.contains_key(function));
            let others = known.iter().filter(|(_, known)| !known.own);
            go.extend(others.map(|(function, _)| function));
        }
        let Kept { known, go, .. } = kept;
        // SAFETY: structures of functions are never freed. A function in use belongs to a statement
        // around this transaction: forgetting it would leak its memory.
        go.retain(|function| unsafe {
            if *major_plpgsql::uses_of(function.as_ptr()) > 0 {
                known.entry(*function).and_modify(|known| known.goes = true);
                return true;
            }
            *major_plpgsql::row_of(function.as_ptr()).0 = pg_sys::InvalidTransactionId;
            known.remove(function);
            false
        });
    });
}

/// Whether a function is the ledger's own. Each of those pins its search_path, and nobody else
/// makes functions in its schema.
///
/// # Safety
/// As for [`used`].
unsafe fn is_own(function: Function) -> bool {
    // SAFETY: by the caller's promise.
    let oid = unsafe { function.as_ref() }.fn_oid;
    let schema = schema_of_object(FUNCTIONS, oid).and_then(schema_name);
    schema.as_deref() == Some("chainify_ledger")
}

/// The row of `pg_proc` that a function was compiled from.
///
/// # Safety
/// As for [`used`].
unsafe fn row_of(function: Function) -> (u32, u64) {
    // SAFETY: by the caller's promise.
    let (transaction, place) = unsafe { major_plpgsql::row_of(function.as_ptr()) };
    let block = u64::from(place.ip_blkid.bi_hi) << 32 | u64::from(place.ip_blkid.bi_lo) << 16;
    (transaction.into_inner(), block | u64::from(place.ip_posid))
}

/// Notes that a function was compiled for analysis. It is forgotten later, unless it was kept
/// already.
///
/// # Safety
/// As for [`used`].
pub(super) unsafe fn compiled(function: Function) {
    // SAFETY: by the caller's promise.
    let row = unsafe { row_of(function) };
    let is_known = |kept: &Kept| kept.known.get(&function).is_some_and(|k| k.row == row);
    if !KEPT.with_borrow(is_known) {
        know(function, row, None, true, false, Vec::new());
    }
}

/// Notes that a function is called. False: an earlier transaction kept it in another environment,
/// and this transaction has to run again, after [`forget`]. `look` is called once for a compiled
/// function. It returns whether the kept plans depend on the first call, and the function's
/// expressions.
///
/// # Safety
/// `function` must be one that PL/pgSQL compiled, alive, and `look` made for such.
pub(crate) unsafe fn used(function: Function, look: Look) -> bool {
    // SAFETY: by the caller's promise.
    let row = unsafe { row_of(function) };
    // SAFETY: reads a variable.
    let role = unsafe { pg_sys::GetUserId() };
    let environment = is_inside().then(|| environment(role));
    let known = KEPT.with_borrow_mut(|kept| {
        let Kept { known, go, .. } = kept;
        let known = known.get_mut(&function).filter(|known| known.row == row)?;
        if known.role != role {
            known.role = role;
            // SAFETY: expressions live as long as the function that was compiled from the row.
            known
                .expressions
                .iter_mut()
                .for_each(|e| unsafe { e.start_anew() });
        }
        if known.own || known.goes || known.environment == environment {
            return Some(true);
        }
        let fits = environment.is_none() || known.transaction == kept.transaction;
        known.goes = fits;
        if fits {
            go.push(function);
        }
        kept.all_go |= !fits;
        Some(fits)
    });
    if let Some(fits) = known {
        return fits;
    }
    // SAFETY: by the caller's promise.
    let (differs, expressions) = unsafe { look(function) };
    let expression = |at| Expression { at, calls: None };
    let expressions = expressions.into_iter().map(expression).collect();
    // SAFETY: by the caller's promise.
    let own = !differs && unsafe { is_own(function) };
    let goes = !own && (environment.is_none() || differs);
    know(function, row, environment, goes, own, expressions);
    true
}

impl Expression {
    /// # Safety
    /// The function must be alive.
    unsafe fn start_anew(&mut self) {
        // SAFETY: by the caller's promise. A state that is not in use may be made anew; the old one
        // goes with the block.
        unsafe {
            let expression = self.at.as_mut();
            let Some(simple) = NonNull::new(expression.expr_simple_expr) else {
                return;
            };
            let calls = *self.calls.get_or_insert_with(|| calls(simple.cast()));
            if calls && !expression.expr_simple_in_use {
                expression.expr_simple_lxid = 0;
            }
        }
    }
}

/// # Safety
/// `node` must be an expression.
unsafe fn calls(node: NodeAt) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let own = |function: &pg_sys::Oid| function.to_u32() >= pg_sys::FirstNormalObjectId;
        functions(node).iter().any(own) || children(node).into_iter().any(|node| calls(node))
    }
}

fn know(
    function: Function,
    row: (u32, u64),
    environment: Option<Environment>,
    goes: bool,
    own: bool,
    expressions: Vec<Expression>,
) {
    // SAFETY: reads a variable.
    let role = unsafe { pg_sys::GetUserId() };
    KEPT.with_borrow_mut(|kept| {
        let known = Known {
            row,
            environment,
            transaction: kept.transaction,
            role,
            expressions,
            goes,
            own,
        };
        let before = kept.known.insert(function, known);
        if goes && !before.is_some_and(|before| before.goes) {
            kept.go.push(function);
        }
    });
}

/// Whether a function of another environment was met since [`forget`]. The transaction then has to
/// run again.
pub(crate) fn all_go() -> bool {
    KEPT.with_borrow(|kept| kept.all_go)
}

fn environment(role: pg_sys::Oid) -> Environment {
    // SAFETY: reads a variable, which is a C string.
    let path = unsafe { CStr::from_ptr(pg_sys::namespace_search_path) };
    let known = KEPT.with_borrow(|kept| kept.schemas.get(&role).copied());
    let schemas = known.unwrap_or_else(|| {
        let schemas = schemas_of(role);
        KEPT.with_borrow_mut(|kept| kept.schemas.insert(role, schemas));
        schemas
    });
    Environment {
        path: hash(path),
        schemas,
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A hash of the schemas that a role may name.
fn schemas_of(role: pg_sys::Oid) -> u64 {
    let table = Relation::open(pg_sys::NamespaceRelationId, Lock::AccessShare);
    let mut scratch = Scratch::default();
    let mut schemas = Vec::new();
    // SAFETY: each tuple is read before the next one; null stands for a snapshot of the catalog.
    unsafe {
        let none = std::ptr::null_mut();
        let scan = pg_sys::systable_beginscan(
            table.raw(),
            pg_sys::InvalidOid,
            false,
            none,
            0,
            none.cast(),
        );
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let schema = scratch
                .deform(tuple, table.descriptor())
                .get::<pg_sys::Oid>(pg_sys::Anum_pg_namespace_oid as i16);
            schemas.extend(schema.filter(|schema| major_plpgsql::may_name(*schema, role)));
        }
        pg_sys::systable_endscan(scan);
    }
    schemas.sort_unstable_by_key(|schema| schema.to_u32());
    hash(schemas)
}
