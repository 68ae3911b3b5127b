//! The form in which the ledger stores a value.
//!
//! PostgreSQL has several forms for equal values of some types: `1.5` and `1.50`, zero and minus
//! zero, `json` with other white space. Their canonical bytes are the same (spec/formats.md), so
//! the ledger does not see a change from one form to another. The stored form is the one that
//! decoding the canonical bytes gives. Rows in which all values have it are equal in all
//! organisations (invariant X16).
use chainify_codec::decode_value;
use pgrx::pg_sys;

use crate::base::c_string::c_string;
use crate::base::cell::{datum_image_eq, Cell};
use crate::base::encode::Encoder;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::major;
use crate::base::relation::{Relation, Tuple};
use crate::base::value_settings::values_pinned;

/// The columns of a table whose values have several forms.
pub struct StoredForms(Vec<Column>);

struct Column {
    number: i16,
    /// Below all domains, whose conditions were evaluated for an equal value.
    of: pg_sys::Oid,
    typmod: i32,
    length: i16,
    by_value: bool,
    encoder: Encoder,
}

impl StoredForms {
    /// Computed columns follow from the others, and are left out. Errors: 42704 for a type that is
    /// gone.
    pub fn of(relation: &Relation) -> Result<Self, PgError> {
        // SAFETY: the descriptor belongs to the open relation.
        let attributes = unsafe { major::attributes(relation.descriptor()) };
        let wanted = attributes.iter().filter(|a| {
            !a.attisdropped && a.attgenerated == 0 && has_many_forms(a.atttypid, a.atttypmod)
        });
        let columns = wanted.map(|a| {
            let (of, typmod) = below_domains(a.atttypid, a.atttypmod);
            let encoder = Encoder::of(of)?;
            Ok(Column {
                number: a.attnum,
                of,
                typmod,
                length: a.attlen,
                by_value: a.attbyval,
                encoder,
            })
        });
        Ok(StoredForms(columns.collect::<Result<_, PgError>>()?))
    }

    /// The values of a row that are in another form, each as it is stored, by the number of its
    /// column; in the current memory context. Raises 22000 for a value without canonical bytes.
    /// Cost: linear in the bytes of the columns, each of which is written and read once.
    pub fn settled(&self, row: &Tuple) -> Vec<(i16, Cell)> {
        let changed = |column: &Column| {
            let datum = row.datum(column.number, column.of)?;
            // SAFETY: the datum is of the column's type.
            let settled = unsafe { column.settled(datum) }?;
            Some((column.number, Cell::of_type(Some(settled), column.of)))
        };
        match self.0.is_empty() {
            true => Vec::new(),
            false => values_pinned(|| self.0.iter().filter_map(changed).collect()),
        }
    }
}

/// The canonical NaN of real and double precision.
const NAN_4: u32 = 0x7fc0_0000;
const NAN_8: u64 = 0x7ff8_0000_0000_0000;

impl Column {
    /// The value as it is stored; None when this is how it is.
    ///
    /// # Safety
    /// `datum` must be of the column's type.
    unsafe fn settled(&self, datum: pg_sys::Datum) -> Option<pg_sys::Datum> {
        let settled = match self.of {
            pg_sys::FLOAT4OID => match f32::from_bits(datum.value() as u32) {
                v if v.is_nan() => pg_sys::Datum::from(NAN_4 as usize),
                0.0 => pg_sys::Datum::from(0),
                _ => return None,
            },
            pg_sys::FLOAT8OID => match f64::from_bits(datum.value() as u64) {
                v if v.is_nan() => pg_sys::Datum::from(NAN_8 as usize),
                0.0 => pg_sys::Datum::from(0),
                _ => return None,
            },
            // SAFETY: by the caller's promise.
            _ => unsafe { self.read_back(datum) }.or_raise(),
        };
        let (by_value, length) = (self.by_value, self.length.into());
        // SAFETY: both are of the column's type.
        let same = unsafe { catch_c(|| datum_image_eq(settled, datum, by_value, length)) };
        (!same.or_raise()).then_some(settled)
    }

    /// # Safety
    /// As for [`Column::settled`].
    unsafe fn read_back(&self, datum: pg_sys::Datum) -> Result<pg_sys::Datum, PgError> {
        let mut bytes = Vec::new();
        // SAFETY: by the caller's promise.
        unsafe { self.encoder.write(datum, &mut bytes) }?;
        let value = decode_value(&bytes)
            .map_err(|e| PgError::new(b"XX000", format!("canonical bytes of a value: {e}")))?;
        let text = c_string(&value.to_text())?;
        // SAFETY: the input function and its argument are those of the type; it leaves the text.
        unsafe {
            catch_c(|| {
                let (mut function, mut argument) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                pg_sys::getTypeInputInfo(self.of, &mut function, &mut argument);
                let text = text.as_ptr().cast_mut();
                pg_sys::OidInputFunctionCall(function, text, argument, self.typmod)
            })
        }
    }
}

fn below_domains(of: pg_sys::Oid, mut typmod: i32) -> (pg_sys::Oid, i32) {
    // SAFETY: a catalog look-up of a type that there is.
    let of = unsafe { catch_c(|| pg_sys::getBaseTypeAndTypmod(of, &mut typmod)) }.or_raise();
    (of, typmod)
}

/// Whether equal values of a type with this modifier may have several forms. A length or scale
/// leaves one of `numeric` and `char`. Cost: catalog look-ups of the type and its parts.
pub fn has_many_forms(of: pg_sys::Oid, typmod: i32) -> bool {
    let (of, typmod) = below_domains(of, typmod);
    match of {
        pg_sys::FLOAT4OID | pg_sys::FLOAT8OID | pg_sys::JSONOID | pg_sys::JSONBOID => return true,
        pg_sys::NUMERICOID | pg_sys::BPCHAROID => return typmod < 0,
        _ => {}
    }
    // SAFETY: catalog look-ups of a type that there is; the descriptor is a copy of our own.
    unsafe {
        pg_sys::check_stack_depth();
        let element = pg_sys::get_element_type(of);
        if element != pg_sys::InvalidOid {
            return has_many_forms(element, typmod);
        }
        match pg_sys::get_typtype(of) as u8 {
            b'r' => has_many_forms(pg_sys::get_range_subtype(of), -1),
            b'm' => has_many_forms(pg_sys::get_multirange_range(of), -1),
            b'c' => {
                let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(of, -1);
                let mut parts = major::attributes(descriptor)
                    .iter()
                    .filter(|a| !a.attisdropped);
                let many = parts.any(|a| has_many_forms(a.atttypid, a.atttypmod));
                pg_sys::FreeTupleDesc(descriptor);
                many
            }
            _ => false,
        }
    }
}
