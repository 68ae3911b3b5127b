//! Constants, as PostgreSQL writes them, and what is constant.
use std::ffi::CStr;
use std::ptr::NonNull;

use chainify_dialect::query::{Expr, Typed};
use chainify_dialect::types::Type;
use chainify_dialect::Kind;
use pgrx::pg_sys;

use crate::base::error::catch_c;
use crate::base::value_settings::values_pinned;
use crate::translate::reader::{Reader, Stop};
use crate::tree::node::{children, functions, is, NodeAt};

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn getTypeOutputInfo(of: pg_sys::Oid, output: *mut pg_sys::Oid, varlena: *mut bool);
        pub(crate) fn OidOutputFunctionCall(
            function: pg_sys::Oid,
            value: pg_sys::Datum,
        ) -> *mut c_char;
        pub(crate) fn estimate_expression_value(
            root: *mut pg_sys::PlannerInfo,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub(crate) fn eval_const_expressions(
            root: *mut pg_sys::PlannerInfo,
            node: *mut pg_sys::Node,
        ) -> *mut pg_sys::Node;
        pub(crate) fn func_volatile(function: pg_sys::Oid) -> std::ffi::c_char;
        pub(crate) fn get_typlenbyvalalign(
            of: pg_sys::Oid,
            length: *mut i16,
            by_value: *mut bool,
            align: *mut c_char,
        );
    }
}

/// Functions of pg_proc.dat that depend on the time of the transaction and on TimeZone alone: now
/// and its like, casts and arithmetic of timestamptz.
const TIMES: &[u32] = &[
    1299, 2647, 2648, 1189, 1190, 2549, 1178, 1174, 2027, 2028, 2019, 1217, 1171, 6203,
];

/// Elements of a list in a query.
const ELEMENTS_MAX: usize = 20_000;

/// Whether times are read and written in UTC.
pub(super) fn zone_is_utc() -> bool {
    const ZONES: &[&CStr] = &[c"UTC", c"Etc/UTC", c"GMT", c"Etc/GMT"];
    // SAFETY: the value is a C string that is read at once, or null.
    unsafe {
        let zone = pg_sys::GetConfigOption(c"TimeZone".as_ptr(), true, false);
        !zone.is_null() && ZONES.contains(&CStr::from_ptr(zone))
    }
}

impl Reader<'_> {
    /// An expression with what is constant computed, as the planner computes it; also what depends
    /// on the time alone. Errors: those of the computation; functions of users that are not
    /// immutable, because they may read tables as of now.
    ///
    /// # Safety
    /// `node` must be an expression of an analysed query.
    pub(super) unsafe fn folded(&mut self, node: NodeAt) -> Result<NodeAt, Stop> {
        // SAFETY: by the caller's promise; the root has what the functions read of it.
        unsafe {
            let mut times_alone = !self.parameters.kept;
            self.check_functions(node, &mut times_alone)?;
            let mut global = pg_sys::PlannerGlobal {
                type_: pg_sys::NodeTag::T_PlannerGlobal,
                boundParams: self.parameters.list,
                ..Default::default()
            };
            let mut root = pg_sys::PlannerInfo {
                type_: pg_sys::NodeTag::T_PlannerInfo,
                glob: &raw mut global,
                ..Default::default()
            };
            let root = &raw mut root;
            let folded = catch_c(|| match times_alone {
                true => raw::estimate_expression_value(root, node.as_ptr()),
                false => raw::eval_const_expressions(root, node.as_ptr()),
            })?;
            Ok(NonNull::new(folded).unwrap_or(node))
        }
    }

    /// # Safety
    /// As for [`Reader::folded`].
    unsafe fn check_functions(&mut self, node: NodeAt, times_alone: &mut bool) -> Result<(), Stop> {
        // SAFETY: by the caller's promise.
        unsafe {
            pg_sys::check_stack_depth();
            self.count()?;
            if is(node, pg_sys::NodeTag::T_Query) {
                return Ok(()); // looked at on its own
            }
            for function in functions(node) {
                let volatility = raw::func_volatile(function) as u8;
                if volatility == pg_sys::PROVOLATILE_IMMUTABLE {
                    continue;
                }
                if function.to_u32() >= pg_sys::FirstNormalObjectId
                    || volatility == pg_sys::PROVOLATILE_VOLATILE
                {
                    return Err(self.refuse_function(function, node));
                }
                *times_alone &= TIMES.contains(&function.to_u32());
            }
            for child in children(node) {
                self.check_functions(child, times_alone)?;
            }
            Ok(())
        }
    }

    /// # Safety
    /// `constant` must be a Const of an analysed query.
    pub(super) unsafe fn constant(&self, constant: &pg_sys::Const) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        unsafe {
            self.value(
                constant.consttype,
                constant.consttypmod,
                constant.constvalue,
                constant.constisnull,
            )
        }
    }

    /// # Safety
    /// `value` must be of the type, unless it is NULL.
    unsafe fn value(
        &self,
        of: pg_sys::Oid,
        typmod: i32,
        value: pg_sys::Datum,
        null: bool,
    ) -> Result<Expr, Stop> {
        let typed = self.typed(of, typmod)?;
        if null {
            return Ok(Expr::Constant { typed, text: None });
        }
        // SAFETY: by the caller's promise; an interval is passed by reference.
        let text = unsafe {
            match typed.of {
                Type::Interval => {
                    let interval = &*value.cast_mut_ptr::<pg_sys::Interval>();
                    format!("{} {} {}", interval.month, interval.day, interval.time)
                }
                _ => values_pinned(|| text_of(of, value))?,
            }
        };
        Ok(Expr::Constant {
            typed,
            text: Some(text),
        })
    }

    /// The elements of a constant array.
    ///
    /// # Safety
    /// As for [`Reader::constant`].
    pub(super) unsafe fn array(&self, constant: &pg_sys::Const) -> Result<Vec<Expr>, Stop> {
        // SAFETY: by the caller's promise; the arrays of the call have as many elements as it says.
        unsafe {
            let element = pg_sys::get_element_type(constant.consttype);
            if element == pg_sys::InvalidOid || constant.constisnull {
                return Err(self.refuse(Kind::Array, "ANY of an array that is NULL", None));
            }
            let (mut length, mut by_value, mut align) = (0, false, 0);
            raw::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
            let (mut values, mut nulls, mut count) =
                (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            let array = pg_sys::pg_detoast_datum(constant.constvalue.cast_mut_ptr());
            pg_sys::deconstruct_array(
                array.cast(),
                element,
                i32::from(length),
                by_value,
                align,
                &mut values,
                &mut nulls,
                &mut count,
            );
            let count = count.max(0) as usize;
            if count > ELEMENTS_MAX {
                let what = format!("a list of more than {ELEMENTS_MAX} values");
                return Err(self.refuse(Kind::Size, &what, None));
            }
            let element = |at: usize| self.value(element, -1, *values.add(at), *nulls.add(at));
            (0..count).map(element).collect()
        }
    }

    pub(super) fn typed(&self, of: pg_sys::Oid, typmod: i32) -> Result<Typed, Stop> {
        match Type::of(of.to_u32()) {
            Some(of) => Ok(Typed { of, typmod }),
            None => Err(self.refuse(Kind::Type, &format!("the type {}", type_name(of)), None)),
        }
    }
}

/// # Safety
/// `value` must be of the type.
unsafe fn text_of(
    of: pg_sys::Oid,
    value: pg_sys::Datum,
) -> Result<String, crate::base::error::PgError> {
    // SAFETY: the output function of the type gives a C string.
    unsafe {
        catch_c(|| {
            let (mut output, mut varlena) = (pg_sys::InvalidOid, false);
            raw::getTypeOutputInfo(of, &mut output, &mut varlena);
            raw::OidOutputFunctionCall(output, value)
        })
        .map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

pub(super) fn type_name(of: pg_sys::Oid) -> String {
    // SAFETY: a catalog look-up that knows every number; a fresh C string.
    unsafe { CStr::from_ptr(pg_sys::format_type_be(of)) }
        .to_string_lossy()
        .into_owned()
}
