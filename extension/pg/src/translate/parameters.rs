//! The values of a query's parameters `$1`, `$2` …
use std::cell::Cell;

use pgrx::pg_sys;

use crate::base::function::Call;

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
