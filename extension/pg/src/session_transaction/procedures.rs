//! CALL and DO of a session whose procedure may COMMIT: it runs outside of any subtransaction,
//! because PostgreSQL lets no other procedure do so. The part is then the whole transaction.
//!
//! PL/pgSQL ends transactions past all utility hooks, but its plugin learns of each COMMIT before
//! it runs. The transaction is then rolled back by PostgreSQL's own means for procedures, which
//! care for cursors and snapshots. The changes are ordered, and COMMIT finds a new transaction.

use pgrx::pg_sys::{
    PLpgSQL_execstate as Execution, PLpgSQL_function as Function, PLpgSQL_plugin as Plugin,
    PLpgSQL_stmt as Statement, PLpgSQL_stmt_commit as Commit,
};
use pgrx::{pg_sys, PgMemoryContexts};

use crate::base::backend::{Part, Procedure, State, Within, BACKEND};
use crate::base::error::{enter, PgError};
use crate::base::interrupts::without_cancels;
use crate::base::{constraints, spi};
use crate::session_transaction::kept_settings;
use crate::session_transaction::state::{over, ABOVE};

fn procedure() -> &'static Procedure {
    &BACKEND.session.procedure
}

/// Whether a procedure runs that may end the session's transaction.
pub(super) fn runs() -> bool {
    procedure().runs.get()
}

/// Whether CALL or DO of the session itself, about to run, may end the transaction: the transaction
/// is its own alone.
pub(super) fn may_commit() -> bool {
    // SAFETY: variables of this process.
    unsafe {
        let pipelined = pg_sys::MyXactFlags as u32 & pg_sys::XACT_FLAGS_PIPELINING != 0;
        !pg_sys::IsTransactionBlock() && !pipelined
    }
}

/// CALL or DO begins.
pub(super) fn begin() {
    procedure().runs.set(true);
    // SAFETY: the variable is PL/pgSQL's and there for as long as the session; what it points to is
    // null or a plugin. No function of the language runs. Ours is never freed.
    unsafe {
        let plugin = variable();
        if procedure().plugin.get().is_null() {
            let ours = PgMemoryContexts::TopMemoryContext.palloc0_struct::<Plugin>();
            (*ours).func_setup = Some(on_setup);
            (*ours).func_beg = Some(on_function_begin);
            (*ours).func_end = Some(on_function_end);
            (*ours).stmt_beg = Some(on_statement_begin);
            (*ours).stmt_end = Some(on_statement_end);
            procedure().plugin.set(ours);
        }
        if *plugin != procedure().plugin.get() {
            procedure().theirs.set(*plugin);
            *plugin = procedure().plugin.get();
        }
    }
}

/// CALL or DO has ended, one way or another.
pub(super) fn end() {
    if !procedure().runs.replace(false) {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let plugin = variable();
        if *plugin == procedure().plugin.get() {
            *plugin = procedure().theirs.get();
        }
    }
}

fn variable() -> *mut *mut Plugin {
    // SAFETY: the name is copied; the variable of a name is made once, as a null pointer.
    unsafe { pg_sys::find_rendezvous_variable(c"PLpgSQL_plugin".as_ptr()).cast() }
}

fn theirs() -> Option<&'static mut Plugin> {
    // SAFETY: a plugin is there for as long as the session.
    unsafe { procedure().theirs.get().as_mut() }
}

unsafe extern "C-unwind" fn on_setup(execution: *mut Execution, function: *mut Function) {
    // SAFETY: PL/pgSQL has told our plugin its own functions; theirs is told them as well. The
    // arguments are passed on.
    unsafe {
        if let (Some(theirs), Some(ours)) = (theirs(), procedure().plugin.get().as_ref()) {
            theirs.error_callback = ours.error_callback;
            theirs.assign_expr = ours.assign_expr;
            theirs.assign_value = ours.assign_value;
            theirs.eval_datum = ours.eval_datum;
            theirs.cast_value = ours.cast_value;
            if let Some(next) = theirs.func_setup {
                next(execution, function);
            }
        }
    }
}

unsafe extern "C-unwind" fn on_function_begin(execution: *mut Execution, function: *mut Function) {
    if let Some(next) = theirs().and_then(|theirs| theirs.func_beg) {
        // SAFETY: the arguments are passed on.
        unsafe { next(execution, function) }
    }
}

unsafe extern "C-unwind" fn on_function_end(execution: *mut Execution, function: *mut Function) {
    if let Some(next) = theirs().and_then(|theirs| theirs.func_end) {
        // SAFETY: the arguments are passed on.
        unsafe { next(execution, function) }
    }
}

unsafe extern "C-unwind" fn on_statement_begin(
    execution: *mut Execution,
    statement: *mut Statement,
) {
    // SAFETY: the arguments are passed on; the kind of a statement says which structure it is.
    unsafe {
        if let Some(next) = theirs().and_then(|theirs| theirs.stmt_beg) {
            next(execution, statement);
        }
        if (*statement).cmd_type == pg_sys::PLpgSQL_stmt_type::PLPGSQL_STMT_COMMIT {
            enter(|| commit((*statement.cast::<Commit>()).chain));
        }
    }
}

unsafe extern "C-unwind" fn on_statement_end(execution: *mut Execution, statement: *mut Statement) {
    if let Some(next) = theirs().and_then(|theirs| theirs.stmt_end) {
        // SAFETY: the arguments are passed on.
        unsafe { next(execution, statement) }
    }
}

/// COMMIT of a procedure is about to run. Afterwards the transaction has nothing of the ledger: it
/// had no such changes, or it is a new one and they are applied. Raises what fails.
fn commit(chain: bool) {
    let open = |part: Part| part.within == Within::Procedure;
    // PL/pgSQL refuses COMMIT where the procedure may not.
    if !BACKEND.session.part().is_some_and(open) || !spi::may_end_transaction() {
        return;
    }
    let remaining = without_cancels(|| {
        constraints::check_at_once();
        let remaining = (ABOVE.get().take)();
        if remaining.is_none() {
            BACKEND.session.enter(State::Outside);
            over();
            return None;
        }
        spi::hold_cursors();
        let before = kept_settings::before();
        // SAFETY: the transaction is undone next.
        unsafe { kept_settings::keep(kept_settings::OF_TRANSACTION) };
        kept_settings::with_role_kept(|| spi::roll_back(chain));
        Some((remaining?, before))
    });
    if let Some((remaining, before)) = remaining {
        remaining.run().unwrap_or_else(|failed| {
            before.put_back_later();
            failed.error.raise()
        });
    }
}

/// A procedure of another language commits changes of ledger tables.
pub(super) fn refusal() -> PgError {
    PgError::new(
        b"0A000",
        "this procedure cannot COMMIT changes of ledger tables",
    )
    .detail("They are ordered first, and only PL/pgSQL says that a COMMIT comes.")
    .hint("Write the procedure in PL/pgSQL, or leave COMMIT to the session.")
}
