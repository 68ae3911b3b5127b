//! The values of a query's parameters `$1`, `$2` …
use std::cell::Cell;

use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::error::{catch_c, PgError};
use crate::base::function::Call;

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn OidInputFunctionCall(
            function: pg_sys::Oid,
            text: *mut std::ffi::c_char,
            parameter: pg_sys::Oid,
            typmod: i32,
        ) -> pg_sys::Datum;
        pub(crate) fn OidReceiveFunctionCall(
            function: pg_sys::Oid,
            bytes: pg_sys::StringInfo,
            parameter: pg_sys::Oid,
            typmod: i32,
        ) -> pg_sys::Datum;
        pub(crate) fn getTypeInputInfo(
            of: pg_sys::Oid,
            function: *mut pg_sys::Oid,
            parameter: *mut pg_sys::Oid,
        );
        pub(crate) fn getTypeBinaryInputInfo(
            of: pg_sys::Oid,
            function: *mut pg_sys::Oid,
            parameter: *mut pg_sys::Oid,
        );
    }
}

/// A value as a client sends it; None: NULL.
pub struct Sent {
    pub bytes: Option<Vec<u8>>,
    /// In the form of the type's receive function, else that of its input function.
    pub binary: bool,
}

/// Values with their types; they live in the memory context that they were read in.
pub struct Parameters {
    pub(super) types: Vec<pg_sys::Oid>,
    pub(crate) list: pg_sys::ParamListInfo,
    /// The plan may be kept: the time of the transaction is no constant.
    pub(super) kept: bool,
    /// A query was refused for a parameter whose value is not known.
    pub(super) missing: Cell<bool>,
}

impl Parameters {
    /// None.
    pub fn none() -> Parameters {
        Parameters {
            types: Vec::new(),
            list: std::ptr::null_mut(),
            kept: false,
            missing: Cell::new(false),
        }
    }

    /// Those of a planner's call; null when the plan is for any value.
    pub(crate) fn bound(list: pg_sys::ParamListInfo) -> Parameters {
        Parameters {
            types: Vec::new(),
            list,
            kept: true,
            missing: Cell::new(false),
        }
    }

    /// Values that a client sent, read as these types by the current role. Errors: those of the
    /// types; 22021 for a text that is not in UTF-8, 22P03 for bytes behind a value.
    pub(super) fn sent(types: Vec<pg_sys::Oid>, values: &[Sent]) -> Result<Parameters, PgError> {
        // SAFETY: the list has room for as many parameters as asked for.
        let list = unsafe { pg_sys::makeParamList(types.len() as i32) };
        for (at, (of, sent)) in types.iter().zip(values).enumerate() {
            let value = match &sent.bytes {
                None => None,
                Some(bytes) if sent.binary => Some(received(*of, bytes)?),
                Some(bytes) => Some(read(*of, bytes)?),
            };
            // SAFETY: as above; each parameter is set before it is read.
            unsafe {
                let param = (*list).params.as_mut_ptr().add(at);
                (*param).value = value.unwrap_or(pg_sys::Datum::from(0));
                (*param).isnull = value.is_none();
                (*param).pflags = pg_sys::PARAM_FLAG_CONST as u16;
                (*param).ptype = *of;
            }
        }
        Ok(Parameters {
            types,
            list,
            kept: false,
            missing: Cell::new(false),
        })
    }

    /// The `VARIADIC "any"` arguments from `first` (from 0) on. An untyped literal is text.
    pub fn variadic_from(call: &Call, first: usize) -> Parameters {
        let fcinfo = call.fcinfo();
        let (mut values, mut types, mut nulls) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        // SAFETY: call information of the running call; the out pointers are set to arrays of as
        // many elements as the count says, which is -1 for a NULL array. The list has room for as
        // many parameters as asked for.
        unsafe {
            if ((*fcinfo).nargs as usize) <= first {
                return Parameters::none();
            }
            let count = pg_sys::extract_variadic_args(
                fcinfo,
                first as i32,
                true,
                &mut values,
                &mut types,
                &mut nulls,
            );
            let count = usize::try_from(count).unwrap_or(0);
            if count == 0 {
                return Parameters::none();
            }
            let list = pg_sys::makeParamList(count as i32);
            let mut of = Vec::new();
            for at in 0..count {
                let param = (*list).params.as_mut_ptr().add(at);
                (*param).value = *values.add(at);
                (*param).isnull = *nulls.add(at);
                (*param).pflags = pg_sys::PARAM_FLAG_CONST as u16;
                (*param).ptype = *types.add(at);
                of.push(*types.add(at));
            }
            Parameters {
                types: of,
                list,
                kept: false,
                missing: Cell::new(false),
            }
        }
    }
}

/// A value from its text.
fn read(of: pg_sys::Oid, bytes: &[u8]) -> Result<pg_sys::Datum, PgError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| PgError::new(b"22021", "a parameter is not in UTF-8"))?;
    let text = c_string(text)?;
    let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: the function is the type's own, and the text is not kept.
    unsafe {
        catch_c(|| {
            raw::getTypeInputInfo(of, &mut function, &mut parameter);
            raw::OidInputFunctionCall(function, text.as_ptr().cast_mut(), parameter, -1)
        })
    }
}

/// A value from its binary form.
fn received(of: pg_sys::Oid, bytes: &[u8]) -> Result<pg_sys::Datum, PgError> {
    let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    let mut buffer = pg_sys::StringInfoData::default();
    // SAFETY: the function is the type's own; the buffer is a copy of the bytes, with a zero behind
    // them, that outlives the call.
    unsafe {
        let value = catch_c(|| {
            raw::getTypeBinaryInputInfo(of, &mut function, &mut parameter);
            pg_sys::initStringInfo(&mut buffer);
            let length = bytes.len() as i32; // a value is shorter than PostgreSQL's bound of 1 GiB
            pg_sys::appendBinaryStringInfo(&mut buffer, bytes.as_ptr().cast(), length);
            raw::OidReceiveFunctionCall(function, &mut buffer, parameter, -1)
        })?;
        match buffer.cursor == buffer.len {
            true => Ok(value),
            false => Err(PgError::new(
                b"22P03",
                "incorrect binary data format of a parameter",
            )),
        }
    }
}
