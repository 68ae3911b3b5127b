//! Hides the session's earlier life from PL/pgSQL functions in a ledger transaction: names of
//! cursors, and others.
//!
//! PostgreSQL numbers the cursors without a name in the session's whole life, and loops count too.
//! A cursor variable without a value gets a name here, from a count of the transaction's own.
use std::cell::RefCell;
use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use pgrx::pg_sys::PLpgSQL_getdiag_kind::*;
use pgrx::pg_sys::PLpgSQL_stmt_type::*;

use crate::base::error::{catch_c, PgError};
use crate::base::lists::elements;
use crate::base::major_plpgsql;

/// The beginning of the names that PostgreSQL gives.
const NUMBERED: &[u8] = b"<unnamed portal ";

type Running = *mut pg_sys::PLpgSQL_execstate;
type Statement = *mut pg_sys::PLpgSQL_stmt;
/// PL/pgSQL's own assignment to a variable.
type Assign = Option<
    unsafe extern "C-unwind" fn(
        Running,
        *mut pg_sys::PLpgSQL_datum,
        pg_sys::Datum,
        bool,
        pg_sys::Oid,
        i32,
    ),
>;

#[derive(Default)]
struct Cursors {
    /// Names given in the transaction.
    count: u32,
    /// The names that the transaction opened cursors under.
    opened: Vec<CString>,
    /// Loops whose cursor variable got a name: it has none again afterwards.
    loops: Vec<(Running, Statement)>,
}

thread_local! {
    static CURSORS: RefCell<Cursors> = RefCell::default();
}

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn GetPortalByName(name: *const std::ffi::c_char) -> pg_sys::Portal;
        pub(crate) fn PortalDrop(portal: pg_sys::Portal, commits: bool);
    }
}

/// A transaction begins.
pub(super) fn forget() {
    CURSORS.take();
}

/// Closes the cursors that the transaction left open: the next one of the block must not find them.
pub(super) fn close() -> Result<(), PgError> {
    for name in CURSORS.take().opened {
        // SAFETY: a C string. No loop over the cursor is under way.
        unsafe {
            catch_c(|| {
                let portal = raw::GetPortalByName(name.as_ptr());
                if !portal.is_null() {
                    raw::PortalDrop(portal, false);
                }
            })?
        }
    }
    Ok(())
}

/// A statement about to run, which must be one of those matched.
///
/// # Safety
/// As PL/pgSQL passes them.
pub(super) unsafe fn before(running: Running, statement: Statement, assign: Assign) {
    // SAFETY: by the caller's promise, the tag says which structure follows.
    unsafe {
        match (*statement).cmd_type {
            PLPGSQL_STMT_OPEN => {
                let number = (*statement.cast::<pg_sys::PLpgSQL_stmt_open>()).curvar;
                open(running, number, assign);
            }
            PLPGSQL_STMT_FORC => {
                let number = (*statement.cast::<pg_sys::PLpgSQL_stmt_forc>()).curvar;
                if open(running, number, assign) {
                    let of = (running, statement);
                    CURSORS.with_borrow_mut(|cursors| cursors.loops.push(of));
                }
            }
            PLPGSQL_STMT_FETCH => {
                let number = (*statement.cast::<pg_sys::PLpgSQL_stmt_fetch>()).curvar;
                check(name(variable(running, number)));
            }
            PLPGSQL_STMT_CLOSE => {
                let number = (*statement.cast::<pg_sys::PLpgSQL_stmt_close>()).curvar;
                check(name(variable(running, number)));
            }
            PLPGSQL_STMT_GETDIAG => refuse_context(statement.cast()),
            _ => (),
        }
    }
}

/// The end of a loop over a cursor.
///
/// # Safety
/// As PL/pgSQL passes them.
pub(super) unsafe fn after_loop(running: Running, statement: Statement, assign: Assign) {
    let named = CURSORS.with_borrow_mut(|cursors| {
        // Those above were left by errors.
        let at = cursors
            .loops
            .iter()
            .rposition(|l| *l == (running, statement));
        at.map(|at| cursors.loops.truncate(at)).is_some()
    });
    // SAFETY: by the caller's promise.
    unsafe {
        let number = (*statement.cast::<pg_sys::PLpgSQL_stmt_forc>()).curvar;
        if let (true, Some(assign)) = (named, assign) {
            let variable = variable(running, number).cast();
            let none = pg_sys::Datum::from(0);
            catch(|| assign(running, variable, none, true, pg_sys::REFCURSOROID, -1));
        }
    }
}

/// A cursor is about to be opened. Whether its variable got a name.
///
/// # Safety
/// As for [`before`]; the number must be of a variable of type refcursor.
unsafe fn open(running: Running, number: i32, assign: Assign) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let variable = variable(running, number);
        if let Some(given) = name(variable) {
            check(Some(given));
            CURSORS.with_borrow_mut(|cursors| {
                if !cursors
                    .opened
                    .iter()
                    .any(|opened| opened.as_c_str() == given)
                {
                    cursors.opened.push(given.to_owned());
                }
            });
            return false;
        }
        let count = CURSORS.with_borrow_mut(|cursors| {
            cursors.count += 1;
            cursors.count
        });
        let given = CString::new(format!("<unnamed cursor {count}>")).unwrap_or_default();
        if let Some(assign) = assign {
            let text = pg_sys::Datum::from(pg_sys::cstring_to_text(given.as_ptr()));
            catch(|| {
                assign(
                    running,
                    variable.cast(),
                    text,
                    false,
                    pg_sys::REFCURSOROID,
                    -1,
                )
            });
        }
        check(Some(&given));
        CURSORS.with_borrow_mut(|cursors| cursors.opened.push(given));
        true
    }
}

/// Runs C code that may raise, which goes on as a panic.
///
/// # Safety
/// As for `catch_c`.
unsafe fn catch(f: impl FnOnce()) {
    // SAFETY: by the caller's promise.
    if let Err(error) = unsafe { catch_c(f) } {
        error.raise();
    }
}

/// # Safety
/// As for [`open`].
unsafe fn variable(running: Running, number: i32) -> *mut pg_sys::PLpgSQL_var {
    // SAFETY: by the caller's promise.
    unsafe { (*(*running).datums.add(number as usize)).cast() }
}

/// The name that a cursor variable has; it lives in the current memory context.
///
/// # Safety
/// `variable` must be of type refcursor.
unsafe fn name<'n>(variable: *mut pg_sys::PLpgSQL_var) -> Option<&'n CStr> {
    // SAFETY: by the caller's promise its value is a text.
    unsafe {
        if (*variable).isnull {
            return None;
        }
        Some(CStr::from_ptr(pg_sys::text_to_cstring(
            (*variable).value.cast_mut_ptr(),
        )))
    }
}

/// Raises for a cursor that is not the transaction's own.
fn check(name: Option<&CStr>) {
    let Some(name) = name else {
        return;
    };
    let shown = name.to_string_lossy();
    if name.is_empty() || name.to_bytes().starts_with(NUMBERED) {
        PgError::new(
            b"CH006",
            format!("a cursor with the name \"{shown}\" is not deterministic"),
        )
        .detail("PostgreSQL gives such names, by what the session did before.")
        .hint("Give the cursor another name, or leave its variable without a value.")
        .raise();
    }
    let own = CURSORS.with_borrow(|c| c.opened.iter().any(|opened| opened.as_c_str() == name));
    // SAFETY: a C string.
    if !own && !unsafe { raw::GetPortalByName(name.as_ptr()) }.is_null() {
        // Of class 58: it is this session's fault, and never an outcome.
        PgError::new(
            b"58000",
            format!("the session has a cursor \"{shown}\" of its own"),
        )
        .raise();
    }
}

/// # Safety
/// `statement` must be GET DIAGNOSTICS.
unsafe fn refuse_context(statement: *mut pg_sys::PLpgSQL_stmt_getdiag) {
    // SAFETY: by the caller's promise, a list of items.
    unsafe {
        for item in elements::<pg_sys::PLpgSQL_diag_item>((*statement).diag_items) {
            let (name, reason) = match item.as_ref().kind {
                PLPGSQL_GETDIAG_CONTEXT => ("PG_CONTEXT", CONTEXT),
                PLPGSQL_GETDIAG_ERROR_CONTEXT => ("PG_EXCEPTION_CONTEXT", CONTEXT),
                kind if Some(kind) == major_plpgsql::GETS_ROUTINE => {
                    ("PG_ROUTINE_OID", "Object numbers are of one database.")
                }
                _ => continue,
            };
            PgError::new(b"CH006", format!("{name} is not deterministic"))
                .detail(reason)
                .hint("Use RETURNED_SQLSTATE and MESSAGE_TEXT, or pass the name of the caller as a parameter.")
                .raise();
        }
    }
}

const CONTEXT: &str =
    "It tells how the server called the function, which differs between sessions.";
