//! Whether the records of a PL/pgSQL function have the same columns in every call.
//!
//! A record has the columns of the row that was assigned last. A statement that names a column is
//! planned, at its first run, with the column's type of that time. It fails later when the column
//! has another type.
use std::ffi::CStr;
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::PLpgSQL_datum_type::PLPGSQL_DTYPE_REC;
use pgrx::pg_sys::PLpgSQL_trigtype::PLPGSQL_DML_TRIGGER;

use crate::access::plpgsql::{Body, Rows, State};
use crate::base::lists::elements;
use crate::base::major;
use crate::base::subtransaction::subtransaction;

/// Whether the columns of a record may differ from call to call. Then the function's kept plans
/// depend on its first call. Also returns all expressions of the function.
///
/// # Safety
/// `function` must be one that PL/pgSQL compiled, alive.
pub(crate) unsafe fn may_differ(
    function: NonNull<pg_sys::PLpgSQL_function>,
) -> (bool, Vec<NonNull<pg_sys::PLpgSQL_expr>>) {
    // SAFETY: by the caller's promise, its parts are what plpgsql.h says.
    unsafe {
        let f = function.as_ref();
        let mut body = Body::default();
        body.block(f.action);
        body.variables(f);
        let datums = std::slice::from_raw_parts(f.datums, f.ndatums as usize);
        let records = datums
            .iter()
            .filter(|datum| (***datum).dtype == PLPGSQL_DTYPE_REC)
            .map(|datum| &*datum.cast::<pg_sys::PLpgSQL_rec>())
            .filter(|record| record.rectypeid == pg_sys::RECORDOID);
        let mut differ = false;
        for record in records {
            differ = differ || differs(function, &body, record);
        }
        let expressions = body.expressions.iter().map(|step| step.expression);
        (differ, expressions.collect())
    }
}

/// # Safety
/// The body and the record must be of the function, which is alive.
unsafe fn differs(
    function: NonNull<pg_sys::PLpgSQL_function>,
    body: &Body,
    record: &pg_sys::PLpgSQL_rec,
) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let f = function.as_ref();
        let of_trigger = f.fn_is_trigger == PLPGSQL_DML_TRIGGER
            && [f.new_varno, f.old_varno].contains(&record.dno);
        let is_argument = f.fn_argvarnos[..f.fn_nargs as usize].contains(&record.dno);
        let assigned = body.rows.get(&record.dno).map_or(&[][..], |rows| rows);
        if of_trigger {
            return !assigned.is_empty() || body.calls;
        }
        if is_argument || body.calls || !record.default_val.is_null() {
            return true;
        }
        let mut queries = Vec::new();
        for rows in assigned {
            let query = match rows {
                Rows::Query(query) => Some(*query),
                Rows::Cursor(number) => {
                    let cursor = *f.datums.add(*number as usize);
                    let cursor = &*cursor.cast::<pg_sys::PLpgSQL_var>();
                    NonNull::new(cursor.cursor_explicit_expr)
                }
                Rows::Any => None,
            };
            let Some(query) = query else {
                return true;
            };
            let text = CStr::from_ptr(query.as_ref().query);
            if !queries.iter().any(|(known, _)| *known == text) {
                queries.push((text, query));
            }
        }
        queries.len() > 1 && !have_same_columns(function, queries.iter().map(|(_, query)| *query))
    }
}

/// False also where it cannot be told.
///
/// # Safety
/// The queries must be of the function, which is alive.
unsafe fn have_same_columns(
    function: NonNull<pg_sys::PLpgSQL_function>,
    queries: impl Iterator<Item = NonNull<pg_sys::PLpgSQL_expr>>,
) -> bool {
    let columns = subtransaction(|| {
        // SAFETY: by the caller's promise.
        unsafe {
            let state = State::new(function);
            let columns: Vec<_> = queries.map(|query| columns(&state, query)).collect();
            Ok(columns)
        }
    });
    let columns = columns.unwrap_or_default();
    columns
        .first()
        .is_some_and(|first| first.is_some() && columns.iter().all(|other| other == first))
}

/// Names and types of the columns that a query gives.
///
/// # Safety
/// The query must be of the function of `state`.
unsafe fn columns(state: &State, query: NonNull<pg_sys::PLpgSQL_expr>) -> Option<Vec<Column>> {
    // SAFETY: by the caller's promise; a query's lists are of target entries.
    unsafe {
        let lists = state.analyse(query);
        let query = *elements::<pg_sys::Query>(*lists.last()?).last()?;
        let targets = match query.as_ref().returningList.is_null() {
            true => query.as_ref().targetList,
            false => query.as_ref().returningList,
        };
        let descriptor = pg_sys::ExecCleanTypeFromTL(targets);
        let columns = major::attributes(descriptor).iter().map(|column| Column {
            name: column.attname.data,
            types: [column.atttypid, column.attcollation],
            typmod: column.atttypmod,
        });
        Some(columns.collect())
    }
}

#[derive(PartialEq)]
struct Column {
    name: [std::ffi::c_char; pg_sys::NAMEDATALEN as usize],
    types: [pg_sys::Oid; 2],
    typmod: i32,
}
