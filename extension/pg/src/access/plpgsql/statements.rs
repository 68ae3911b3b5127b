//! The statements of a PL/pgSQL function, for checks before it runs.
use std::ffi::c_char;
use std::ptr::{null_mut, NonNull};

use pgrx::pg_sys;

use crate::access::plpgsql::{compiled_for, kept, Body, Compiled, State};
use crate::base::error::PgError;
use crate::base::lists::elements;
use crate::base::subtransaction::subtransaction;
use crate::describe::analysis::describe;
use crate::describe::call::describe_call;
use crate::describe::complete_query::complete;
use crate::describe::query_level::Level;
use crate::tree::parse::{check_allowed, not_allowed};

/// A statement or expression of a body.
pub struct Statement {
    /// In the body, from 1.
    pub line: i32,
    pub found: Found,
}

/// The facts that can be told of it.
pub enum Found {
    Queries(Vec<Level>),
    /// No statement of a ledger transaction.
    Refused(PgError),
    /// It names what is not there yet, or has types that only running it gives.
    Unknown(PgError),
}

/// Everything that running the function may come to, as its first call would see it; what it
/// executes as text is not among it. The function must have arguments of known types, and be no
/// trigger's. Errors: those of its compiler. Cost: a subtransaction for each expression.
pub fn plpgsql_statements(function: pg_sys::Oid) -> Result<Vec<Statement>, PgError> {
    // SAFETY: the compiled function belongs to the language and stays while its use is counted; its
    // parts are what plpgsql.h says.
    unsafe {
        let function = compiled_for(function, null_mut(), pg_sys::InvalidOid, Compiled::ForCalls)?;
        kept::compiled(function);
        let mut body = Body::default();
        body.block((*function.as_ptr()).action);
        body.variables(function.as_ref());
        let ends = body.ends.iter().map(|line| Statement {
            line: *line,
            found: Found::Refused(not_allowed("COMMIT or ROLLBACK")),
        });
        let mut statements: Vec<Statement> = ends.collect();
        let state = State::new(function);
        for step in &body.expressions {
            let found = subtransaction(|| {
                let lists = state.analyse(step.expression);
                let queries: Vec<_> = lists.into_iter().flat_map(|l| elements(l)).collect();
                for query in &queries {
                    if let Some(record) = step.into {
                        state.shape(record, *query);
                    }
                }
                Ok(found(queries, (*step.expression.as_ptr()).query))
            });
            statements.push(Statement {
                line: step.line,
                found: found.unwrap_or_else(Found::Unknown),
            });
        }
        statements.sort_by_key(|statement| statement.line);
        Ok(statements)
    }
}

/// # Safety
/// The queries must be analysed and rewritten, and the caller's to change; `text` the one that they
/// were parsed from.
unsafe fn found(queries: Vec<NonNull<pg_sys::Query>>, text: *const c_char) -> Found {
    let mut levels = Vec::new();
    for query in queries {
        // SAFETY: by the caller's promise; a utility statement hangs on its query.
        unsafe {
            let utility = query.as_ref().utilityStmt;
            if utility.is_null() {
                complete(query.as_ptr().cast());
                levels.push(describe(query, text));
            } else if let Err(refused) = check_allowed(utility) {
                return Found::Refused(refused);
            } else if (*utility).type_ == pg_sys::NodeTag::T_CallStmt {
                levels.push(describe_call(utility.cast(), text));
            }
        }
    }
    Found::Queries(levels)
}
