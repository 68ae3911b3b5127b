//! The types of the variables of a PL/pgSQL function. A value goes into a variable, and out of it
//! as a result, without an expression that a query would show.
use std::ptr::null_mut;

use pgrx::pg_sys;
use pgrx::pg_sys::PLpgSQL_datum_type::*;

use crate::access::plpgsql::{compiled_for, kept, Compiled};
use crate::base::error::PgError;
use crate::base::subtransaction::subtransaction;
use crate::describe::type_parts::parts;

/// The name of a type of a variable, or within one, whose values are numbers of objects of one
/// database. Errors: those of the compiler. Cost: the function is compiled, as for its first call.
pub fn object_identifier(function: pg_sys::Oid) -> Result<Option<&'static str>, PgError> {
    // SAFETY: the function stays compiled while nothing is called; a datum's tag says which
    // structure it is.
    unsafe {
        let compile = |wanted| {
            subtransaction(|| compiled_for(function, null_mut(), pg_sys::InvalidOid, wanted))
        };
        // Where arguments get their types from the call, any will do.
        let compiled = compile(Compiled::ForCalls).or_else(|_| compile(Compiled::ToLookAt))?;
        kept::compiled(compiled);
        let f = compiled.as_ref();
        let mut found = None;
        for i in 0..f.ndatums as usize {
            let datum = *f.datums.add(i);
            let of = match (*datum).dtype {
                PLPGSQL_DTYPE_VAR => (*(*datum.cast::<pg_sys::PLpgSQL_var>()).datatype).typoid,
                PLPGSQL_DTYPE_REC => (*datum.cast::<pg_sys::PLpgSQL_rec>()).rectypeid,
                _ => continue,
            };
            found = found.or_else(|| parts(of, -1)?.object_identifier);
        }
        Ok(found)
    }
}
