//! Literals that read the clock. The parser evaluates a literal once, and a plan that a session
//! keeps contains the value: 'now' stays the time of the block in which the session planned the
//! statement.
use std::ffi::CStr;

use chainify_sqltext::{has_word, string_at};
use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::clock::at_moment;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::subtransaction::subtransaction;

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn get_type_category_preferred(
            of: pg_sys::Oid,
            category: *mut c_char,
            preferred: *mut bool,
        );
        pub(crate) fn OidInputFunctionCall(
            function: pg_sys::Oid,
            text: *mut c_char,
            argument: pg_sys::Oid,
            typmod: i32,
        ) -> pg_sys::Datum;
        pub(crate) fn get_range_subtype(range: pg_sys::Oid) -> pg_sys::Oid;
        pub(crate) fn get_multirange_range(multirange: pg_sys::Oid) -> pg_sys::Oid;
    }
    extern "C-unwind" {
        pub(crate) fn datumIsEqual(
            left: pg_sys::Datum,
            right: pg_sys::Datum,
            by_value: bool,
            length: i32,
        ) -> bool;
    }
}

/// pg_type.h: types of dates and times of day, and of texts.
const DATES: u8 = b'D';
const TEXTS: u8 = b'S';

/// Reading the clock then raises 22008.
const NO_MOMENT: i64 = i64::MIN;
/// PostgreSQL reads the clock for each time of day, and uses it for some. Moments that differ in
/// date, season and time tell these apart: 2000-01-01 00:00:00, 2012-07-02 13:37:21.123456 and
/// 2031-03-05 05:06:07.5.
const MOMENTS: [i64; 3] = [0, 394_551_441_123_456, 983_768_767_500_000];

/// Characters of a literal that a refusal shows.
const SHOWN_MAX: usize = 40;

/// The name of a constant that cannot be shown to be the same at every time; None for another.
/// `text` is the one that its query was parsed from. A stored expression says of no constant where
/// it stood.
///
/// It is shown by reading the literal again where there is no clock, or at several moments. The
/// same value comes out.
///
/// # Safety
/// `constant` must be of an analysed query.
pub(crate) unsafe fn frozen(constant: &pg_sys::Const, text: &CStr) -> Option<String> {
    let at = usize::try_from(constant.location).ok()?;
    if constant.constisnull || reads_no_clock(constant.consttype) {
        return None;
    }
    let literal = text.to_str().ok().and_then(|text| string_at(text, at));
    let same = literal.as_deref().is_some_and(|literal| {
        // SAFETY: by the caller's promise; both values are of the constant's type.
        unsafe {
            // It may call a user's code, such as a domain's condition.
            let own = only_own_functions(constant.consttype);
            if !own && !has_word(literal) {
                return true;
            }
            let same_at = |moment: i64| {
                let read = || read_again(constant, literal, moment);
                let again = if own { read() } else { subtransaction(read) };
                let (by_value, length) = (constant.constbyval, constant.constlen);
                let equal = |again| raw::datumIsEqual(again, constant.constvalue, by_value, length);
                match again {
                    Err(error) if !of_values(&error) => error.raise(),
                    again => again.is_ok_and(equal),
                }
            };
            same_at(NO_MOMENT) || MOMENTS.into_iter().all(same_at)
        }
    });
    (!same).then(|| shown(literal.as_deref(), constant.consttype))
}

/// # Safety
/// As of [`frozen`]; after an error in a user's function the caller undoes a subtransaction.
unsafe fn read_again(
    constant: &pg_sys::Const,
    literal: &str,
    moment: i64,
) -> Result<pg_sys::Datum, PgError> {
    let literal = c_string(literal)?;
    let (mut function, mut argument) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: the input function and its argument are those of the type. It reads the text and
    // leaves it.
    unsafe {
        pg_sys::getTypeInputInfo(constant.consttype, &mut function, &mut argument);
        let (text, typmod) = (literal.as_ptr().cast_mut(), constant.consttypmod);
        at_moment(moment, || {
            catch_c(|| raw::OidInputFunctionCall(function, text, argument, typmod))
        })
    }
}

/// An error that a value has, by its class: of data, or of a constraint.
fn of_values(error: &PgError) -> bool {
    ["22", "23"].contains(&&error.sqlstate.as_str()[..2])
}

fn shown(literal: Option<&str>, of: pg_sys::Oid) -> String {
    // SAFETY: a type that exists; the name is a fresh C string.
    let of = unsafe { CStr::from_ptr(pg_sys::format_type_be(of)).to_string_lossy() };
    match literal {
        Some(literal) => {
            let short: String = literal.chars().take(SHOWN_MAX).collect();
            format!("'{short}' as {of}")
        }
        None => format!("a constant of type {of}"),
    }
}

/// The types of most constants, and all whose values are texts.
fn reads_no_clock(of: pg_sys::Oid) -> bool {
    use pg_sys::*;
    let common = matches!(
        of,
        BOOLOID
            | BYTEAOID
            | INT2OID
            | INT4OID
            | INT8OID
            | TEXTOID
            | BPCHAROID
            | VARCHAROID
            | UNKNOWNOID
            | CSTRINGOID
            | NUMERICOID
            | FLOAT4OID
            | FLOAT8OID
            | INTERVALOID
            | UUIDOID
            | JSONOID
            | JSONBOID
            | XMLOID
            | BITOID
            | VARBITOID
            | TEXTARRAYOID
            | INT4ARRAYOID
            | INT8ARRAYOID
    );
    common || category(of) == TEXTS
}

/// Whether reading a literal of a type calls functions of PostgreSQL alone.
fn only_own_functions(of: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        let element = pg_sys::get_element_type(of);
        let read = if element == pg_sys::InvalidOid {
            of
        } else {
            element
        };
        read.to_u32() < pg_sys::FirstNormalObjectId
            || pg_sys::get_typtype(read) as u8 == pg_sys::TYPTYPE_ENUM
    }
}

/// Whether values of a type hold dates or times, so that the text of one may name a time by the
/// clock. Of a composite type nothing is known.
pub(crate) fn holds_time(of: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups; a range has a subtype, a multirange a range.
    unsafe {
        let of = catch_c(|| pg_sys::getBaseType(of)).or_raise();
        let element = pg_sys::get_element_type(of);
        if element != pg_sys::InvalidOid {
            return holds_time(element);
        }
        match pg_sys::get_typtype(of) as u8 {
            pg_sys::TYPTYPE_RANGE => holds_time(raw::get_range_subtype(of)),
            pg_sys::TYPTYPE_MULTIRANGE => holds_time(raw::get_multirange_range(of)),
            pg_sys::TYPTYPE_COMPOSITE => true,
            _ => category(of) == DATES,
        }
    }
}

fn category(of: pg_sys::Oid) -> u8 {
    let (mut category, mut preferred) = (0, false);
    let (category_at, preferred_at) = (&raw mut category, &raw mut preferred);
    // SAFETY: out parameters are valid for the call.
    unsafe { catch_c(|| raw::get_type_category_preferred(of, category_at, preferred_at)) }
        .or_raise();
    category as u8
}
