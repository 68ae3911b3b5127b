//! Calls of our SQL functions: arguments in, one value, one record or many rows out.
use std::cell::OnceCell;
use std::ffi::CStr;
use std::marker::PhantomData;

use pgrx::pg_sys;
use pgrx::{FromDatum, IntoDatum};

pub use crate::base::cell::{cell, Cell};

use crate::base::cell::reads_as;
use crate::base::error::{OrRaise, PgError};
use crate::base::major;
use crate::base::record::{Record, RowValue};
use crate::base::relation::{Shape, Tuple};
use crate::base::version;

/// Exports a symbol and its finfo in the form that PostgreSQL calls; `$run` turns the call into one
/// of `$function`.
#[macro_export]
macro_rules! export_v1 {
    ($symbol:ident, $finfo:ident, $run:path, $function:path) => {
        #[no_mangle]
        pub extern "C" fn $finfo() -> *const pgrx::pg_sys::Pg_finfo_record {
            const V1: pgrx::pg_sys::Pg_finfo_record =
                pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &V1
        }

        #[no_mangle]
        pub unsafe extern "C-unwind" fn $symbol(
            fcinfo: pgrx::pg_sys::FunctionCallInfo,
        ) -> pgrx::pg_sys::Datum {
            // SAFETY: the whole body of a function that PostgreSQL's function manager calls.
            unsafe { $run(fcinfo, $function) }
        }
    };
}

/// Exports a safe function `fn(&mut Call) -> Answer` as a C function for
/// `AS 'MODULE_PATHNAME', 'name'`.
///
/// `sql_function!(chainify_position, pg_finfo_chainify_position, position);`
#[macro_export]
macro_rules! sql_function {
    ($symbol:ident, $finfo:ident, $function:path) => {
        $crate::export_v1!($symbol, $finfo, $crate::base::function::run, $function);
    };
}

/// A row as a value of its table's row type; `None` becomes NULL of the type that `shape` has.
pub fn row_cell(row: Option<&Tuple>, shape: &Shape) -> Cell {
    if row.is_some_and(|row| row.row_type() != shape.row_type()) {
        PgError::new(b"XX000", "a row is not of the table that it is shown as").raise();
    }
    Cell::of_type(row.map(Tuple::composite), shape.row_type())
}

/// As [`reads_as`], also for arrays of such types.
fn argument_reads_as(declared: pg_sys::Oid, wanted: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups, which give zero for a type that is no array.
    let (elements, wanted_elements) = unsafe {
        (
            pg_sys::get_element_type(declared),
            pg_sys::get_element_type(wanted),
        )
    };
    let arrays = elements != pg_sys::InvalidOid && wanted_elements != pg_sys::InvalidOid;
    reads_as(declared, wanted) || arrays && reads_as(elements, wanted_elements)
}

/// The types that a function's arguments are declared with; none for a function that is not in
/// pg_proc.
fn declared_types(function: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    if function == pg_sys::InvalidOid {
        return Vec::new();
    }
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: a catalog look-up that raises for an unknown function. It sets a fresh array of
    // `count` elements.
    unsafe {
        pg_sys::get_func_signature(function, &mut types, &mut count);
        let declared = (0..count as usize).map(|i| *types.add(i)).collect();
        pg_sys::pfree(types.cast());
        declared
    }
}

fn function_name(function: pg_sys::Oid) -> String {
    // SAFETY: a catalog look-up; null or a fresh C string.
    unsafe {
        let name = pg_sys::get_func_name(function);
        match name.is_null() {
            true => function.to_u32().to_string(),
            false => CStr::from_ptr(name).to_string_lossy().into_owned(),
        }
    }
}

fn type_name(of: pg_sys::Oid) -> String {
    // SAFETY: a catalog look-up that knows every number; a fresh C string.
    unsafe { CStr::from_ptr(pg_sys::format_type_be(of)) }
        .to_string_lossy()
        .into_owned()
}

/// The result of a function.
pub struct Answer {
    value: pg_sys::Datum,
    null: bool,
}

/// One call of a SQL function.
pub struct Call<'a> {
    fcinfo: pg_sys::FunctionCallInfo,
    /// Types of the arguments, as pg_proc has them; read when the first argument is.
    declared: OnceCell<Vec<pg_sys::Oid>>,
    call: PhantomData<&'a ()>,
}

/// Called by `sql_function!` only. Raises 55000 where the database has the objects of another
/// version.
///
/// # Safety
/// To be the whole body of an exported function, which PostgreSQL's function manager calls with
/// `fcinfo`.
#[doc(hidden)]
pub unsafe fn run(fcinfo: pg_sys::FunctionCallInfo, f: fn(&mut Call) -> Answer) -> pg_sys::Datum {
    // SAFETY: by the caller's promise; fcinfo is valid for the length of the call.
    unsafe {
        crate::base::error::enter(|| {
            version::check().or_raise();
            let answer = f(&mut Call {
                fcinfo,
                declared: OnceCell::new(),
                call: PhantomData,
            });
            (*fcinfo).isnull = answer.null;
            answer.value
        })
    }
}

impl Call<'_> {
    /// Argument `index` from 0, or None when it is NULL. Raises when the function is declared with
    /// an argument that does not read as `T`.
    pub fn arg<T: FromDatum + IntoDatum>(&self, index: usize) -> Option<T> {
        // SAFETY: index is checked against the call, and the declared type against `T`.
        unsafe {
            if index >= (*self.fcinfo).nargs as usize {
                return None;
            }
            self.check_type(index, T::type_oid());
            let arg = *(*self.fcinfo).args.as_ptr().add(index);
            T::from_datum(arg.value, arg.isnull)
        }
    }

    /// Raises when argument `index` is not declared with a type whose values read as those of
    /// `wanted`.
    pub(crate) fn check_type(&self, index: usize, wanted: pg_sys::Oid) {
        let function = self.function();
        let types = self.declared.get_or_init(|| declared_types(function));
        let declared = types.get(index).copied().unwrap_or(pg_sys::InvalidOid);
        if declared != wanted && !argument_reads_as(declared, wanted) {
            let (declared, wanted) = (type_name(declared), type_name(wanted));
            PgError::new(
                b"42P13",
                format!(
                    "argument {} of function {} has type {declared}, want {wanted}",
                    index + 1,
                    function_name(function)
                ),
            )
            .raise();
        }
    }

    /// Raises when the function is declared with a result that does not read as values of `given`.
    fn check_result(&self, given: pg_sys::Oid) {
        let function = self.function();
        if function == pg_sys::InvalidOid {
            return;
        }
        // SAFETY: a catalog look-up of the function that is called.
        let declared = unsafe { pg_sys::get_func_rettype(function) };
        if declared != given && !argument_reads_as(declared, given) {
            let (declared, given) = (type_name(declared), type_name(given));
            PgError::new(
                b"42P13",
                format!(
                    "function {} returns {declared}, want {given}",
                    function_name(function)
                ),
            )
            .raise();
        }
    }

    /// The function that is called; InvalidOid when PostgreSQL does not say.
    fn function(&self) -> pg_sys::Oid {
        // SAFETY: fcinfo is valid; PostgreSQL sets `flinfo` for a function that is called by its
        // oid.
        unsafe { (*self.fcinfo).flinfo.as_ref() }.map_or(pg_sys::InvalidOid, |info| info.fn_oid)
    }

    /// An argument that must not be NULL; `name` is for the message.
    pub fn required<T: FromDatum + IntoDatum>(&self, index: usize, name: &str) -> T {
        self.arg(index)
            .unwrap_or_else(|| PgError::new(b"22004", format!("{name} must not be null")).raise())
    }

    /// For the primitives of this module; valid for the length of the call.
    pub(crate) fn fcinfo(&self) -> pg_sys::FunctionCallInfo {
        self.fcinfo
    }

    pub fn void(&self) -> Answer {
        Answer {
            value: pg_sys::Datum::from(0),
            null: false,
        }
    }

    /// One value of the declared return type. Raises 42P13 when `T` does not read as that.
    pub fn value<T: IntoDatum>(&self, value: impl Into<Option<T>>) -> Answer {
        let datum = value.into().and_then(IntoDatum::into_datum);
        if datum.is_some() {
            self.check_result(T::type_oid());
        }
        Answer {
            null: datum.is_none(),
            value: datum.unwrap_or(pg_sys::Datum::from(0)),
        }
    }

    /// For the primitives of this module: the rows are in the result store.
    pub(crate) fn no_value(&self) -> Answer {
        Answer {
            value: pg_sys::Datum::from(0),
            null: true,
        }
    }

    /// For the primitives of this module: a value that is of the declared type.
    pub(crate) fn datum(&self, value: pg_sys::Datum) -> Answer {
        Answer { value, null: false }
    }

    /// One row of the declared composite type or OUT parameters.
    pub fn record(&self, cells: &[Cell]) -> Answer {
        let mut desc: pg_sys::TupleDesc = std::ptr::null_mut();
        // SAFETY: fcinfo is valid; the cells are checked against the descriptor before the tuple is
        // formed.
        unsafe {
            let class = pg_sys::get_call_result_type(self.fcinfo, std::ptr::null_mut(), &mut desc);
            if class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE {
                PgError::new(
                    b"0A000",
                    "function returning record called in context that cannot accept type record",
                )
                .raise();
            }
            let desc = pg_sys::BlessTupleDesc(desc);
            let (mut values, mut nulls) = columns(desc, cells);
            let tuple = pg_sys::heap_form_tuple(desc, values.as_mut_ptr(), nulls.as_mut_ptr());
            Answer {
                value: pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data),
                null: false,
            }
        }
    }

    /// Many rows: `f` gets a sink and calls it once per row. Rows are kept by PostgreSQL, on disk
    /// above `work_mem`.
    pub fn rows(&mut self, f: impl FnOnce(&mut dyn FnMut(&[Cell]))) -> Answer {
        // SAFETY: InitMaterializedSRF checks the context and sets result store and descriptor,
        // which live as long as the call.
        unsafe {
            pg_sys::InitMaterializedSRF(self.fcinfo, 0);
            let info = (*self.fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            f(&mut |cells| {
                let (mut values, mut nulls) = columns((*info).setDesc, cells);
                pg_sys::tuplestore_putvalues(
                    (*info).setResult,
                    (*info).setDesc,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
            });
        }
        Answer {
            value: pg_sys::Datum::from(0),
            null: true,
        }
    }
}

impl Call<'_> {
    /// Argument `index` from 0; None when NULL. Raises 42P13 when it is not declared `record`.
    pub fn record_arg(&self, index: usize) -> Option<Record> {
        let call = self.fcinfo();
        // SAFETY: the index is checked against the call, and the declared type; a record's datum is
        // a row with its type in its header.
        unsafe {
            if index >= (*call).nargs as usize || (*(*call).args.as_ptr().add(index)).isnull {
                return None;
            }
            self.check_type(index, pg_sys::RECORDOID);
            let datum = (*(*call).args.as_ptr().add(index)).value;
            Some(Record::of(datum))
        }
    }

    /// Returns a row of the declared type.
    pub fn row_value(&self, row: RowValue) -> Answer {
        self.datum(row.0)
    }

    /// The table whose row type argument `index` from 0 is declared with in this call, InvalidOid
    /// for another type.
    pub fn table_of_arg(&self, index: i32) -> pg_sys::Oid {
        // SAFETY: fcinfo is valid; catalog look-ups. A call without an expression has no type.
        unsafe {
            let of = pg_sys::get_fn_expr_argtype((*self.fcinfo).flinfo, index);
            match of {
                pg_sys::InvalidOid => of,
                of => pg_sys::get_typ_typrelid(of),
            }
        }
    }

    /// Many rows of the declared row type, from those of a query with its columns, in its order.
    /// Values are taken as they are: of a column with a domain the query has the type below it, and
    /// nothing is evaluated.
    pub fn rows_as_they_are(&mut self, rows: &mut crate::base::cursor::Cursor<'_>) -> Answer {
        // SAFETY: as for `rows`.
        unsafe {
            pg_sys::InitMaterializedSRF(self.fcinfo, 0);
            let info = (*self.fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let (desc, store) = ((*info).setDesc, (*info).setResult);
            let attributes = major::attributes(desc);
            while let Some(row) = rows.next_row() {
                let mut values = vec![pg_sys::Datum::from(0); attributes.len()];
                let mut nulls = vec![true; attributes.len()];
                let there = attributes
                    .iter()
                    .enumerate()
                    .filter(|(_, a)| !a.attisdropped);
                for ((at, attribute), column) in there.zip(1..) {
                    if let Some(value) = row.datum(column, attribute.atttypid) {
                        (values[at], nulls[at]) = (value, false);
                    }
                }
                pg_sys::tuplestore_putvalues(store, desc, values.as_mut_ptr(), nulls.as_mut_ptr());
            }
        }
        Answer {
            value: pg_sys::Datum::from(0),
            null: true,
        }
    }
}

/// # Safety
/// `desc` must be a valid descriptor.
unsafe fn columns(desc: pg_sys::TupleDesc, cells: &[Cell]) -> (Vec<pg_sys::Datum>, Vec<bool>) {
    // SAFETY: by the caller's promise.
    let attributes = unsafe { major::attributes(desc) };
    if attributes.len() != cells.len() {
        PgError::new(
            b"XX000",
            format!("row has {} columns, want {}", cells.len(), attributes.len()),
        )
        .raise();
    }
    for (attribute, cell) in attributes.iter().zip(cells) {
        if attribute.atttypid != cell.oid() {
            let (want, have) = (attribute.atttypid.to_u32(), cell.oid().to_u32());
            PgError::new(
                b"XX000",
                format!("column {} has type {have}, want {want}", attribute.attnum),
            )
            .raise();
        }
    }
    cells
        .iter()
        .map(Cell::datum)
        .map(|value| (value.unwrap_or(pg_sys::Datum::from(0)), value.is_none()))
        .unzip()
}
