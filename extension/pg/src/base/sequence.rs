//! Sequences of the database.
use pgrx::pg_sys;

use crate::base::catalog;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::relation::{Lock, Relation};

/// Functions of pg_proc.dat.
const NEXTVAL: u32 = 1574;
const CURRVAL: u32 = 1575;
const LASTVAL: u32 = 2559;
const SETVAL: u32 = 1765;

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn OidFunctionCall0Coll(function: pg_sys::Oid, collation: pg_sys::Oid)
            -> pg_sys::Datum;
        pub(crate) fn OidFunctionCall1Coll(
            function: pg_sys::Oid,
            collation: pg_sys::Oid,
            arg1: pg_sys::Datum,
        ) -> pg_sys::Datum;
        pub(crate) fn OidFunctionCall3Coll(
            function: pg_sys::Oid,
            collation: pg_sys::Oid,
            arg1: pg_sys::Datum,
            arg2: pg_sys::Datum,
            arg3: pg_sys::Datum,
        ) -> pg_sys::Datum;
    }

    extern "C-unwind" {
        /// commands/sequence.h; the same in PostgreSQL 15 to 18.
        pub(crate) fn nextval_internal(sequence: pg_sys::Oid, check_permissions: bool) -> i64;
    }
}

fn of_sequence(function: u32, sequence: pg_sys::Oid) -> i64 {
    let none = pg_sys::InvalidOid;
    // SAFETY: the functions take one regclass and return an int8 by value.
    unsafe {
        catch_c(|| raw::OidFunctionCall1Coll(function.into(), none, pg_sys::Datum::from(sequence)))
            .or_raise()
            .value() as i64
    }
}

/// PostgreSQL's own nextval(); raises what it does.
pub fn nextval(sequence: pg_sys::Oid) -> i64 {
    of_sequence(NEXTVAL, sequence)
}

/// The same for an identity column, which asks for no right on its sequence.
pub fn next_identity(sequence: pg_sys::Oid) -> i64 {
    // SAFETY: the sequence is that of a column.
    unsafe { catch_c(|| raw::nextval_internal(sequence, false)).or_raise() }
}

/// Column `seqincrement` of pg_sequence.
const INCREMENT: i16 = 4;

/// By how much a sequence ascends; 1 for one that is gone.
pub fn increment(sequence: pg_sys::Oid) -> i64 {
    // SAFETY: the tuple is a row of pg_sequence, and is released after its last use. The column is
    // an int8 that is never NULL.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::SEQRELID as i32;
        let row = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(sequence));
        if row.is_null() {
            return 1;
        }
        let mut null = false;
        let increment = pg_sys::SysCacheGetAttr(cache, row, INCREMENT, &mut null).value() as i64;
        pg_sys::ReleaseSysCache(row);
        increment
    }
}

/// The last value of a sequence, and whether it was given.
pub fn position(sequence: pg_sys::Oid) -> Option<(i64, bool)> {
    let mut position = None;
    Relation::open(sequence, Lock::AccessShare).scan(|row| position = row.get(1).zip(row.get(3)));
    position
}

/// PostgreSQL's own currval(); raises what it does.
pub fn currval(sequence: pg_sys::Oid) -> i64 {
    of_sequence(CURRVAL, sequence)
}

/// PostgreSQL's own lastval(); raises what it does.
pub fn lastval() -> i64 {
    // SAFETY: the function takes nothing and returns an int8 by value.
    unsafe {
        catch_c(|| raw::OidFunctionCall0Coll(LASTVAL.into(), pg_sys::InvalidOid))
            .or_raise()
            .value() as i64
    }
}

/// PostgreSQL's own setval(), which ROLLBACK does not undo; raises what it does.
pub fn setval(sequence: pg_sys::Oid, value: i64, called: bool) {
    // SAFETY: the function takes a regclass, an int8 and a bool by value.
    unsafe {
        catch_c(|| {
            raw::OidFunctionCall3Coll(
                SETVAL.into(),
                pg_sys::InvalidOid,
                pg_sys::Datum::from(sequence),
                pg_sys::Datum::from(value),
                pg_sys::Datum::from(called),
            )
        })
        .or_raise();
    }
}

/// Raises 42501 unless the current role may use, or (`change`) set, the sequence.
pub fn check_right(sequence: pg_sys::Oid, change: bool) {
    let rights = if change {
        pg_sys::ACL_UPDATE
    } else {
        pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE
    };
    // SAFETY: a catalog look-up.
    let allowed = unsafe {
        pg_sys::pg_class_aclcheck(sequence, pg_sys::GetUserId(), rights as pg_sys::AclMode)
    };
    if allowed != pg_sys::AclResult::ACLCHECK_OK {
        PgError::new(
            b"42501",
            format!(
                "permission denied for sequence {}",
                catalog::display_name(sequence)
            ),
        )
        .raise();
    }
}
