//! Returns rows whose values come as texts from SQL functions.
use std::ffi::CString;

use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::function::{Answer, Call};
use crate::base::major;
use crate::base::memory::Context;

mod raw {
    use super::pg_sys;
    use std::ffi::c_char;
    c_functions! {
        pub(crate) fn InputFunctionCall(
            function: *mut pg_sys::FmgrInfo,
            text: *mut c_char,
            argument: pg_sys::Oid,
            typmod: i32,
        ) -> pg_sys::Datum;
        pub(crate) fn OidFunctionCall1Coll(
            function: pg_sys::Oid,
            collation: pg_sys::Oid,
            argument: pg_sys::Datum,
        ) -> pg_sys::Datum;
    }
}

/// A column of the rows.
#[derive(Clone)]
pub struct TextColumn {
    pub name: String,
    pub of: pg_sys::Oid,
    pub typmod: i32,
}

/// A row of an answer.
pub struct TextRow<'r> {
    /// None is NULL.
    pub fields: &'r [Option<&'r str>],
    /// The same row as the contents of a DataRow message.
    pub message: &'r [u8],
}

/// Takes a row.
pub type Sink<'s> = &'s mut dyn FnMut(&TextRow) -> Result<(), PgError>;

/// row_to_json(record), jsonb_in(cstring) and textout(text) of pg_proc.dat.
const ROW_TO_JSON: pg_sys::Oid = pg_sys::Oid::from_u32(3155);
const JSONB_IN: pg_sys::Oid = pg_sys::Oid::from_u32(3806);
const TEXT_OUT: pg_sys::Oid = pg_sys::Oid::from_u32(47);

/// Reads texts as values by the input functions of their types.
pub(crate) struct TextReader {
    columns: Vec<(pg_sys::FmgrInfo, pg_sys::Oid)>,
}

impl TextReader {
    /// Lives no longer than the current memory context.
    pub fn new(types: impl Iterator<Item = pg_sys::Oid>) -> TextReader {
        let reader = |of| {
            let (mut function, mut argument) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            let mut info = pg_sys::FmgrInfo::default();
            // SAFETY: catalog look-ups of a type that there is; what is allocated belongs to the
            // current memory context.
            unsafe {
                pg_sys::getTypeInputInfo(of, &mut function, &mut argument);
                pg_sys::fmgr_info(function, &mut info);
            }
            (info, argument)
        };
        TextReader {
            columns: types.map(reader).collect(),
        }
    }

    /// Errors: 08P01 for a row of another length.
    pub fn check(&self, fields: &[Option<&str>]) -> Result<(), PgError> {
        if fields.len() == self.columns.len() {
            return Ok(());
        }
        let (has, wants) = (fields.len(), self.columns.len());
        let message = format!("a row of the answer has {has} columns, want {wants}");
        Err(PgError::new(b"08P01", message))
    }

    /// The values of a row, in the current memory context, and which are NULL. Errors: those of
    /// the input functions; 08P01 for a row of another length.
    pub fn read(
        &mut self,
        fields: &[Option<&str>],
    ) -> Result<(Vec<pg_sys::Datum>, Vec<bool>), PgError> {
        self.check(fields)?;
        let mut values = vec![pg_sys::Datum::from(0); fields.len()];
        for (at, (field, (function, argument))) in fields.iter().zip(&mut self.columns).enumerate()
        {
            let Some(field) = field else { continue };
            let text = c_string(field)?;
            // SAFETY: the function reads the text and leaves it.
            values[at] = unsafe {
                catch_c(|| {
                    raw::InputFunctionCall(function, text.as_ptr().cast_mut(), *argument, -1)
                })?
            };
        }
        Ok((values, fields.iter().map(Option::is_none).collect()))
    }
}

impl Call<'_> {
    /// Returns rows for the call's column definition list, `AS t (a integer, …)`, which must have
    /// the types of `columns`. `f` gets the sink. Raises 42804 for other types.
    pub fn text_rows(
        &mut self,
        columns: &[TextColumn],
        f: impl FnOnce(Sink) -> Result<(), PgError>,
    ) -> Answer {
        let fcinfo = self.fcinfo();
        // SAFETY: InitMaterializedSRF checks the context and sets result store and descriptor,
        // which live as long as the call.
        unsafe {
            pg_sys::InitMaterializedSRF(fcinfo, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let (store, descriptor) = ((*info).setResult, (*info).setDesc);
            check_list(descriptor, columns).or_raise();
            let mut reader = TextReader::new(columns.iter().map(|column| column.of));
            let context = Context::child(c"chainify row");
            f(&mut |row| {
                let put = context.enter(|| {
                    let (mut values, mut nulls) = reader.read(row.fields)?;
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    pg_sys::tuplestore_putvalues(store, descriptor, values, nulls);
                    Ok(())
                });
                context.reset();
                put
            })
            .or_raise();
        }
        self.no_value()
    }

    /// The same rows, each as a jsonb object.
    pub fn json_rows(
        &mut self,
        columns: &[TextColumn],
        f: impl FnOnce(Sink) -> Result<(), PgError>,
    ) -> Answer {
        let fcinfo = self.fcinfo();
        // SAFETY: as above; the row has the descriptor that it is formed with, and the functions
        // take and give what they are called with.
        unsafe {
            pg_sys::InitMaterializedSRF(fcinfo, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let (store, descriptor) = ((*info).setResult, (*info).setDesc);
            let of_row = row_type(columns);
            let mut reader = TextReader::new(columns.iter().map(|column| column.of));
            let context = Context::child(c"chainify row");
            f(&mut |row| {
                let put = context.enter(|| {
                    let (mut values, mut nulls) = reader.read(row.fields)?;
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    let none = pg_sys::InvalidOid;
                    let mut object = catch_c(|| {
                        let tuple = pg_sys::heap_form_tuple(of_row, values, nulls);
                        let row = pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data);
                        let json = raw::OidFunctionCall1Coll(ROW_TO_JSON, none, row);
                        let text = raw::OidFunctionCall1Coll(TEXT_OUT, none, json);
                        raw::OidFunctionCall1Coll(JSONB_IN, none, text)
                    })?;
                    pg_sys::tuplestore_putvalues(store, descriptor, &mut object, &mut false);
                    Ok(())
                });
                context.reset();
                put
            })
            .or_raise();
        }
        self.no_value()
    }
}

/// # Safety
/// `descriptor` must be valid.
unsafe fn check_list(descriptor: pg_sys::TupleDesc, columns: &[TextColumn]) -> Result<(), PgError> {
    // SAFETY: by the caller's promise.
    let list = unsafe { major::attributes(descriptor) };
    let wrong = |message: String| {
        let columns: Vec<_> = columns.iter().zip(1..).map(definition).collect();
        Err(PgError::new(b"42804", message).hint(format!(
            "Write the call as FROM chainify.query_at(…) AS t ({}).",
            columns.join(", ")
        )))
    };
    if list.len() != columns.len() {
        let (has, wants) = (columns.len(), list.len());
        return wrong(format!(
            "the query returns {has} columns, the list has {wants}"
        ));
    }
    for (at, (listed, column)) in list.iter().zip(columns).enumerate() {
        if listed.atttypid != column.of {
            let (is, said) = (type_name(column.of, -1), type_name(listed.atttypid, -1));
            let place = at + 1;
            return wrong(format!(
                "column {place} of the query is of type {is}, the list has {said}"
            ));
        }
    }
    Ok(())
}

/// A column for a column definition list.
fn definition((column, place): (&TextColumn, i32)) -> String {
    let usable = !column.name.is_empty() && column.name != "?column?";
    let name = match usable {
        true => crate::base::relation::quoted(&column.name),
        false => format!("c{place}"),
    };
    format!("{name} {}", type_name(column.of, -1))
}

fn type_name(of: pg_sys::Oid, typmod: i32) -> String {
    // SAFETY: a catalog look-up that knows every number; a fresh C string.
    unsafe { std::ffi::CStr::from_ptr(pg_sys::format_type_with_typemod(of, typmod)) }
        .to_string_lossy()
        .into_owned()
}

/// A type of rows with these columns, for this session.
fn row_type(columns: &[TextColumn]) -> pg_sys::TupleDesc {
    // SAFETY: a fresh descriptor of as many columns as are set; names are copied.
    unsafe {
        let descriptor = pg_sys::CreateTemplateTupleDesc(columns.len() as i32);
        for (column, place) in columns.iter().zip(1..) {
            let name = CString::new(column.name.replace('\0', "")).unwrap_or_default();
            let (of, typmod) = (column.of, column.typmod);
            pg_sys::TupleDescInitEntry(descriptor, place, name.as_ptr(), of, typmod, 0);
        }
        pg_sys::BlessTupleDesc(descriptor)
    }
}
