//! PL/pgSQL's plugin interface, which reports functions and statements, and the work on PL/pgSQL's
//! state at the beginning and end of a ledger transaction.
use std::cell::UnsafeCell;
use std::ptr::{null_mut, NonNull};
use std::sync::OnceLock;

use pgrx::pg_sys;
use pgrx::pg_sys::PLpgSQL_stmt_type::*;

use crate::access::plpgsql::records::may_differ;
use crate::access::plpgsql::{kept, validated};
use crate::base::error::{attempt, enter, PgError};
use crate::base::subtransaction::subtransaction;
use crate::run::crossed;
use crate::run::cursors;

type Running = *mut pg_sys::PLpgSQL_execstate;
type Function = *mut pg_sys::PLpgSQL_function;
type Statement = *mut pg_sys::PLpgSQL_stmt;

struct Plugin(UnsafeCell<pg_sys::PLpgSQL_plugin>);

// SAFETY: a backend has one thread, and the language alone writes to it.
unsafe impl Sync for Plugin {}

static PLUGIN: Plugin = Plugin(UnsafeCell::new(pg_sys::PLpgSQL_plugin {
    func_setup: Some(on_setup),
    func_beg: Some(on_begin),
    func_end: Some(on_end),
    stmt_beg: Some(on_statement),
    stmt_end: Some(on_statement_end),
    error_callback: None,
    assign_expr: None,
    assign_value: None,
    eval_datum: None,
    cast_value: None,
}));

/// The variable that the language looks at, and what was in it before.
struct Place {
    at: *mut *mut pg_sys::PLpgSQL_plugin,
    next: Option<NonNull<pg_sys::PLpgSQL_plugin>>,
}

// SAFETY: as above; set while the library is loaded.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

static PLACE: OnceLock<Place> = OnceLock::new();

/// Starts watching, in front of who does so already; once, while the library is loaded.
pub(crate) fn install() {
    // SAFETY: the variable stays where it is; each session has a copy of it.
    unsafe {
        let at = pg_sys::find_rendezvous_variable(c"PLpgSQL_plugin".as_ptr());
        let at = at.cast::<*mut pg_sys::PLpgSQL_plugin>();
        let next = NonNull::new(*at);
        if PLACE.set(Place { at, next }).is_ok() {
            *at = PLUGIN.0.get();
        }
    }
}

/// To be called before [`transaction`], where functions may be compiled.
pub fn forget_functions() {
    kept::forget(validated);
}

/// Runs `f`, a transaction of the ledger or an attempt at it, in a subtransaction that an Err
/// undoes. Cursors that it leaves open are closed.
pub fn transaction<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    let _watching = Watching::start();
    cursors::forget();
    crossed::forget();
    let result = kept::inside(|| attempt(f).and_then(|result| result));
    if must_run_again() {
        return Err(kept_by_another());
    }
    if let Some(refusal) = crossed::refusal() {
        return Err(refusal);
    }
    let result = result?;
    cursors::close()?;
    Ok(result)
}

/// Runs `f`, a transaction within one, in a subtransaction of its own. An error of it is nothing
/// that a function caught.
pub fn within<T>(f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
    let result = subtransaction(|| transaction(f));
    crossed::forget();
    result
}

/// Whether the attempt met a function that an earlier transaction had compiled under other names.
/// It counts as not run, whatever came of it, and the next one does not find the function.
pub fn must_run_again() -> bool {
    kept::all_go()
}

fn kept_by_another() -> PgError {
    PgError::new(
        b"55000",
        "a function is compiled under another search_path or by another role",
    )
}

/// Makes ours the one that is called: others that were loaded later have no part in a transaction
/// of the ledger.
struct Watching(*mut pg_sys::PLpgSQL_plugin);

impl Watching {
    fn start() -> Watching {
        let Some(place) = PLACE.get() else {
            return Watching(null_mut());
        };
        // SAFETY: the variable is the process's.
        Watching(unsafe { place.at.replace(PLUGIN.0.get()) })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(place) = PLACE.get() {
            // SAFETY: as above.
            unsafe { *place.at = self.0 };
        }
    }
}

/// Calls the watcher behind ours.
macro_rules! go_on {
    ($callback:ident, $running:expr, $of:expr) => {
        if let Some(next) = PLACE.get().and_then(|place| place.next) {
            if let Some(callback) = next.as_ref().$callback {
                callback($running, $of);
            }
        }
    };
}

unsafe extern "C-unwind" fn on_setup(running: Running, function: Function) {
    // SAFETY: called by the language, with a function about to run.
    unsafe {
        enter(|| {
            let fits = |function| kept::used(function, may_differ);
            if !NonNull::new(function).is_none_or(fits) {
                kept_by_another().raise();
            }
        });
        if let Some(mut next) = PLACE.get().and_then(|place| place.next) {
            let (ours, next) = (&*PLUGIN.0.get(), next.as_mut());
            next.error_callback = ours.error_callback;
            next.assign_expr = ours.assign_expr;
            next.assign_value = ours.assign_value;
            next.eval_datum = ours.eval_datum;
            next.cast_value = ours.cast_value;
        }
        go_on!(func_setup, running, function);
    }
}

unsafe extern "C-unwind" fn on_begin(running: Running, function: Function) {
    // SAFETY: the arguments are passed on.
    unsafe { go_on!(func_beg, running, function) }
}

unsafe extern "C-unwind" fn on_end(running: Running, function: Function) {
    // SAFETY: the arguments are passed on.
    unsafe { go_on!(func_end, running, function) }
}

unsafe extern "C-unwind" fn on_statement(running: Running, statement: Statement) {
    // SAFETY: called by the language, with a statement about to run; the tag says which structure
    // follows.
    unsafe {
        let watched = matches!(
            (*statement).cmd_type,
            PLPGSQL_STMT_OPEN
                | PLPGSQL_STMT_FORC
                | PLPGSQL_STMT_FETCH
                | PLPGSQL_STMT_CLOSE
                | PLPGSQL_STMT_GETDIAG
        );
        if watched && kept::is_inside() {
            enter(|| {
                let assign = (*PLUGIN.0.get()).assign_value;
                cursors::before(running, statement, assign)
            });
        }
        go_on!(stmt_beg, running, statement);
    }
}

unsafe extern "C-unwind" fn on_statement_end(running: Running, statement: Statement) {
    // SAFETY: as above.
    unsafe {
        if (*statement).cmd_type == PLPGSQL_STMT_FORC && kept::is_inside() {
            enter(|| {
                let assign = (*PLUGIN.0.get()).assign_value;
                cursors::after_loop(running, statement, assign)
            });
        }
        go_on!(stmt_end, running, statement);
    }
}
