//! Encodes datums as the values of spec/formats.md. The encoder is compiled once for each column.
use chainify_codec::value::{self, Bound};
use chainify_codec::{RowWriter, Tag, ValueError};
use pgrx::pg_sys;

use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::function::Call;
use crate::base::major;
use crate::base::relation::{Relation, Tuple};
use crate::base::value_settings::values_pinned;

/// 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
const EPOCH_DAYS: i64 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS * 86_400_000_000;

/// How values of one type are written.
pub(super) enum Encoder {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric(Output),
    Text,
    Name,
    Bpchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Uuid,
    Json,
    Jsonb(Output),
    Array(Box<Element>),
    Composite(Composite),
    Enum(Output),
    Interval,
    Net(Output),
    Range(Box<RangeOf>),
    Multirange(Box<RangeOf>),
    Other { name: String, output: Output },
}

/// The output function of a type.
#[derive(Clone, Copy)]
pub(super) struct Output(pg_sys::Oid);

pub(super) struct Element {
    oid: pg_sys::Oid,
    length: i16,
    by_value: bool,
    align: i8,
    encoder: Encoder,
}

pub(super) struct Composite {
    oid: pg_sys::Oid,
    /// Live attributes: position from 0, encoder.
    fields: Vec<(usize, Encoder)>,
}

pub(super) struct RangeOf {
    /// The range type (of a multirange: that of its parts).
    oid: pg_sys::Oid,
    encoder: Encoder,
}

/// Writes rows of one table, or one of its partitions, in the ledger's column order.
pub struct RowEncoder {
    /// Ascending by ordinal.
    columns: Vec<EncodedColumn>,
    /// Some values are written as the texts of output functions that settings decide about.
    by_settings: bool,
}

struct EncodedColumn {
    number: i16,
    ordinal: u16,
    key: bool,
    type_oid: pg_sys::Oid,
    encoder: Encoder,
}

/// A column of the ledger: its ordinal, its name, whether it is of the primary key.
#[derive(Clone, Debug)]
pub struct LedgerColumn {
    pub ordinal: u16,
    pub name: String,
    pub key: bool,
}

impl RowEncoder {
    /// Columns are found by name, so that partitions with another physical order encode the same.
    pub fn new(relation: &Relation, columns: &[LedgerColumn]) -> Result<Self, PgError> {
        let physical = relation.columns();
        let mut encoded = Vec::with_capacity(columns.len());
        for column in columns {
            let Some(found) = physical.iter().find(|c| c.name == column.name) else {
                return Err(PgError::new(
                    b"42703",
                    format!("column \"{}\" of a ledger table is missing", column.name),
                ));
            };
            let encoder = Encoder::of(found.type_oid)?;
            let LedgerColumn { ordinal, key, .. } = *column;
            encoded.push(EncodedColumn {
                number: found.number,
                ordinal,
                key,
                type_oid: found.type_oid,
                encoder,
            });
        }
        encoded.sort_by_key(|c| c.ordinal);
        let by_settings = encoded.iter().any(|c| c.encoder.is_by_settings());
        Ok(RowEncoder {
            columns: encoded,
            by_settings,
        })
    }

    /// Physical number of the column with this ordinal.
    pub fn number_of(&self, ordinal: u16) -> Option<i16> {
        let column = self.columns.iter().find(|c| c.ordinal == ordinal)?;
        Some(column.number)
    }

    /// Appends the whole row.
    pub fn row(&self, tuple: &Tuple, out: &mut Vec<u8>) {
        self.write(|_| true, tuple, out)
    }

    /// Appends, as u16, the ordinals of the columns whose value is a minus zero: the ledger has it
    /// as zero, and PostgreSQL shows its sign.
    pub fn minus_zeros(&self, tuple: &Tuple, out: &mut Vec<u8>) {
        for column in &self.columns {
            let sign = match column.encoder {
                Encoder::Float4 => 1 << 31,
                Encoder::Float8 => 1 << 63,
                _ => continue,
            };
            let datum = tuple.datum(column.number, column.type_oid);
            // A float4 fills the lower half of its datum.
            if datum.is_some_and(|datum| datum.value() & (sign | (sign - 1)) == sign) {
                out.extend_from_slice(&column.ordinal.to_be_bytes());
            }
        }
    }

    /// Appends the row of the primary key's columns alone.
    pub fn key(&self, tuple: &Tuple, out: &mut Vec<u8>) {
        self.write(|column| column.key, tuple, out)
    }

    /// The session's settings, and those of a function that changes the row, have no say.
    fn write(&self, wanted: fn(&EncodedColumn) -> bool, tuple: &Tuple, out: &mut Vec<u8>) {
        let columns = self.columns.iter().filter(|column| wanted(column));
        match self.by_settings {
            true => values_pinned(|| write(columns, tuple, out)),
            false => write(columns, tuple, out),
        }
    }
}

/// Argument `index` of a call, of whatever type, as encoding 1 has it; None when it is NULL. The
/// session's settings have no say.
pub fn encoded_argument(call: &Call, index: usize) -> Option<Vec<u8>> {
    let call = call.fcinfo();
    // SAFETY: the index is checked against the call, and the argument is of the type that the
    // calling expression has.
    unsafe {
        if index >= (*call).nargs as usize || (*(*call).args.as_ptr().add(index)).isnull {
            return None;
        }
        let encoder =
            Encoder::of(pg_sys::get_fn_expr_argtype((*call).flinfo, index as i32)).or_raise();
        let datum = (*(*call).args.as_ptr().add(index)).value;
        let mut out = Vec::new();
        values_pinned(|| encoder.write(datum, &mut out)).or_raise();
        Some(out)
    }
}

fn write<'a>(columns: impl Iterator<Item = &'a EncodedColumn>, tuple: &Tuple, out: &mut Vec<u8>) {
    let mut row = RowWriter::append(out);
    for column in columns {
        if let Some(datum) = tuple.datum(column.number, column.type_oid) {
            // SAFETY: the datum is of the type the encoder was compiled for.
            row.column(column.ordinal, |out| unsafe {
                column.encoder.write(datum, out)
            })
            .or_raise();
        }
    }
    row.finish();
}

impl From<ValueError> for PgError {
    fn from(error: ValueError) -> Self {
        PgError::new(
            b"22000",
            format!("value has no encoding on the ledger: {error}"),
        )
    }
}

pub(super) type Written = Result<(), PgError>;

impl Encoder {
    pub(super) fn of(oid: pg_sys::Oid) -> Result<Encoder, PgError> {
        // SAFETY: catalog look-ups of a type; they raise for a type that does not exist.
        unsafe {
            pg_sys::check_stack_depth();
            let oid = pg_sys::getBaseType(oid);
            if let Some(known) = Self::built_in(oid) {
                return Ok(known);
            }
            let element = pg_sys::get_element_type(oid);
            if element != pg_sys::InvalidOid {
                return Ok(Encoder::Array(Box::new(Element::new(element)?)));
            }
            Ok(match pg_sys::get_typtype(oid) as u8 {
                b'e' => Encoder::Enum(Output::of(oid)),
                b'c' => Encoder::Composite(Composite::new(oid)?),
                b'r' => Encoder::Range(Box::new(RangeOf::new(oid)?)),
                b'm' => {
                    Encoder::Multirange(Box::new(RangeOf::new(pg_sys::get_multirange_range(oid))?))
                }
                _ => {
                    let name = type_name(oid);
                    match name.rsplit('.').next() {
                        Some("citext") => Encoder::Text,
                        _ => Encoder::Other {
                            name,
                            output: Output::of(oid),
                        },
                    }
                }
            })
        }
    }

    fn built_in(oid: pg_sys::Oid) -> Option<Encoder> {
        Some(match oid {
            pg_sys::BOOLOID => Encoder::Bool,
            pg_sys::INT2OID => Encoder::Int2,
            pg_sys::INT4OID => Encoder::Int4,
            pg_sys::INT8OID => Encoder::Int8,
            pg_sys::FLOAT4OID => Encoder::Float4,
            pg_sys::FLOAT8OID => Encoder::Float8,
            pg_sys::NUMERICOID => Encoder::Numeric(Output::of(oid)),
            pg_sys::TEXTOID | pg_sys::VARCHAROID => Encoder::Text,
            pg_sys::NAMEOID => Encoder::Name,
            pg_sys::BPCHAROID => Encoder::Bpchar,
            pg_sys::BYTEAOID => Encoder::Bytea,
            pg_sys::DATEOID => Encoder::Date,
            pg_sys::TIMEOID => Encoder::Time,
            pg_sys::TIMESTAMPOID => Encoder::Timestamp,
            pg_sys::TIMESTAMPTZOID => Encoder::Timestamptz,
            pg_sys::UUIDOID => Encoder::Uuid,
            pg_sys::JSONOID => Encoder::Json,
            pg_sys::JSONBOID => Encoder::Jsonb(Output::of(oid)),
            pg_sys::INTERVALOID => Encoder::Interval,
            pg_sys::INETOID | pg_sys::CIDROID | pg_sys::MACADDROID | pg_sys::MACADDR8OID => {
                Encoder::Net(Output::of(oid))
            }
            _ => return None,
        })
    }

    fn is_by_settings(&self) -> bool {
        match self {
            Encoder::Array(element) => element.encoder.is_by_settings(),
            Encoder::Composite(of) => of.fields.iter().any(|(_, field)| field.is_by_settings()),
            Encoder::Range(range) | Encoder::Multirange(range) => range.encoder.is_by_settings(),
            Encoder::Other { .. } => true,
            _ => false,
        }
    }

    fn tag(&self) -> Tag {
        match self {
            Encoder::Bool => Tag::Bool,
            Encoder::Int2 | Encoder::Int4 | Encoder::Int8 => Tag::Int,
            Encoder::Float4 | Encoder::Float8 => Tag::Float,
            Encoder::Numeric(_) => Tag::Numeric,
            Encoder::Text | Encoder::Name | Encoder::Bpchar => Tag::Text,
            Encoder::Bytea => Tag::Bytea,
            Encoder::Date => Tag::Date,
            Encoder::Time => Tag::Time,
            Encoder::Timestamp => Tag::Timestamp,
            Encoder::Timestamptz => Tag::TimestampTz,
            Encoder::Uuid => Tag::Uuid,
            Encoder::Json | Encoder::Jsonb(_) => Tag::Json,
            Encoder::Array(_) => Tag::Array,
            Encoder::Composite(_) => Tag::Composite,
            Encoder::Enum(_) => Tag::Enum,
            Encoder::Interval => Tag::Interval,
            Encoder::Net(_) => Tag::Net,
            Encoder::Range(_) | Encoder::Multirange(_) => Tag::Range,
            Encoder::Other { .. } => Tag::Other,
        }
    }

    /// # Safety
    /// `datum` must be a value, not NULL, of the type this was compiled for.
    pub(super) unsafe fn write(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) -> Written {
        // SAFETY: each arm reads the datum as its type's C representation, by the caller's promise.
        unsafe {
            match self {
                Encoder::Bool => value::bool(out, datum.value() & 0xff != 0),
                Encoder::Int2 => value::int(out, (datum.value() as i16).into()),
                Encoder::Int4 => value::int(out, (datum.value() as i32).into()),
                Encoder::Int8 => value::int(out, datum.value() as i64),
                Encoder::Float4 => value::float(out, f32::from_bits(datum.value() as u32).into()),
                Encoder::Float8 => value::float(out, f64::from_bits(datum.value() as u64)),
                Encoder::Numeric(output) => {
                    output.with(datum, |text| Ok(value::numeric(out, text)?))?
                }
                Encoder::Text => with_text(datum, |text| value::text(out, text)),
                Encoder::Name => value::text(
                    out,
                    &crate::base::relation::name_text(&*datum.cast_mut_ptr()),
                ),
                Encoder::Bpchar => with_text(datum, |text| value::char(out, text)),
                Encoder::Bytea => with_bytes(datum, |bytes| value::bytea(out, bytes)),
                Encoder::Date => value::date(out, days(datum.value() as i32)),
                Encoder::Time => value::time(out, datum.value() as i64),
                Encoder::Timestamp => value::timestamp(out, micros(datum.value() as i64)?),
                Encoder::Timestamptz => value::timestamptz(out, micros(datum.value() as i64)?),
                Encoder::Uuid => value::uuid(out, &*datum.cast_mut_ptr::<[u8; 16]>()),
                Encoder::Json => with_text(datum, |text| value::json(out, text))?,
                Encoder::Jsonb(output) => output.with(datum, |text| Ok(value::json(out, text)?))?,
                Encoder::Array(element) => element.write(datum, out)?,
                Encoder::Composite(composite) => composite.write(datum, out)?,
                Encoder::Enum(output) => output.with(datum, |label| {
                    value::enum_label(out, label);
                    Ok(())
                })?,
                Encoder::Interval => {
                    let i = &*datum.cast_mut_ptr::<pg_sys::Interval>();
                    value::interval(out, i.month, i.day, i.time);
                }
                Encoder::Net(output) => output.with(datum, |text| {
                    value::net(out, text);
                    Ok(())
                })?,
                Encoder::Range(range) => range.write(datum, out)?,
                Encoder::Multirange(range) => range.write_many(datum, out)?,
                Encoder::Other { name, output } => {
                    output.with(datum, |text| Ok(value::other(out, name, text)?))?
                }
            }
        }
        Ok(())
    }
}

/// Days since 1970, from PostgreSQL's since 2000.
pub fn days(date: i32) -> i64 {
    match date {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        days => i64::from(days) + EPOCH_DAYS,
    }
}

/// Microseconds since 1970, from PostgreSQL's since 2000. The last 30 years before PostgreSQL's
/// limit do not fit.
pub fn micros(timestamp: i64) -> Result<i64, PgError> {
    match timestamp {
        i64::MIN | i64::MAX => Ok(timestamp),
        t => t
            .checked_add(EPOCH_MICROS)
            .filter(|t| *t != i64::MAX)
            .ok_or_else(|| PgError::new(b"22008", "timestamp out of range for the ledger")),
    }
}

/// Schema-qualified, except for the types of PostgreSQL itself.
fn type_name(oid: pg_sys::Oid) -> String {
    // SAFETY: FORMAT_TYPE_FORCE_QUALIFY; the result is a fresh C string.
    let name = unsafe {
        let name = pg_sys::format_type_extended(oid, -1, pg_sys::FORMAT_TYPE_FORCE_QUALIFY as _);
        std::ffi::CStr::from_ptr(name)
            .to_string_lossy()
            .into_owned()
    };
    name.strip_prefix("pg_catalog.")
        .map(str::to_owned)
        .unwrap_or(name)
}

/// # Safety
/// `datum` must be a varlena.
unsafe fn with_bytes<T>(datum: pg_sys::Datum, f: impl FnOnce(&[u8]) -> T) -> T {
    // SAFETY: detoasting gives a plain or short varlena; it outlives `f` (the row, or the current
    // memory context).
    unsafe {
        let plain = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        f(pgrx::varlena::varlena_to_byte_slice(plain))
    }
}

/// # Safety
/// `datum` must be a varlena of the text family.
unsafe fn with_text<T>(datum: pg_sys::Datum, f: impl FnOnce(&str) -> T) -> T {
    // SAFETY: by the caller's promise.
    unsafe {
        with_bytes(datum, |bytes| match std::str::from_utf8(bytes) {
            Ok(text) => f(text),
            Err(_) => PgError::new(b"22021", "text on the ledger must be valid UTF-8").raise(),
        })
    }
}

impl Output {
    pub(super) fn of(oid: pg_sys::Oid) -> Output {
        let (mut function, mut varlena) = (pg_sys::InvalidOid, false);
        // SAFETY: out parameters are valid; raises for an unknown type.
        unsafe { pg_sys::getTypeOutputInfo(oid, &mut function, &mut varlena) };
        Output(function)
    }

    /// # Safety
    /// `datum` must be of the output function's type.
    pub(super) unsafe fn with(
        &self,
        datum: pg_sys::Datum,
        f: impl FnOnce(&str) -> Written,
    ) -> Written {
        // SAFETY: by the caller's promise; the text lives in the current memory context.
        unsafe {
            let text = pg_sys::OidOutputFunctionCall(self.0, datum);
            let result = match std::ffi::CStr::from_ptr(text).to_str() {
                Ok(text) => f(text),
                Err(_) => Err(PgError::new(
                    b"22021",
                    "text on the ledger must be valid UTF-8",
                )),
            };
            pg_sys::pfree(text.cast());
            result
        }
    }
}

impl Element {
    fn new(oid: pg_sys::Oid) -> Result<Self, PgError> {
        let (mut length, mut by_value, mut align) = (0, false, 0);
        // SAFETY: out parameters are valid.
        unsafe { pg_sys::get_typlenbyvalalign(oid, &mut length, &mut by_value, &mut align) };
        Ok(Element {
            oid,
            length,
            by_value,
            align,
            encoder: Encoder::of(oid)?,
        })
    }

    /// # Safety
    /// `datum` must be an array of this element type.
    unsafe fn write(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) -> Written {
        // SAFETY: a detoasted array has its dimensions and bounds right behind its header;
        // deconstruct_array fills `count` values and nulls.
        unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let dimensions = (*array).ndim as usize;
            let bounds = std::slice::from_raw_parts(array.add(1).cast::<i32>(), 2 * dimensions);
            let shape: Vec<_> = (0..dimensions)
                .map(|i| (bounds[i] as u32, bounds[dimensions + i]))
                .collect();
            let (mut values, mut nulls, mut count) =
                (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                array,
                self.oid,
                self.length.into(),
                self.by_value,
                self.align,
                &mut values,
                &mut nulls,
                &mut count,
            );
            value::array(out, self.encoder.tag(), &shape, |elements| {
                for i in 0..count as usize {
                    if *nulls.add(i) {
                        elements.null();
                    } else {
                        elements.value(|out| self.encoder.write(*values.add(i), out))?;
                    }
                }
                Ok(())
            })
        }
    }
}

impl Composite {
    fn new(oid: pg_sys::Oid) -> Result<Self, PgError> {
        // SAFETY: the descriptor is reference-counted and released below.
        unsafe {
            let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(oid, -1);
            let attributes = major::attributes(descriptor);
            let live = attributes
                .iter()
                .enumerate()
                .filter(|(_, a)| !a.attisdropped);
            let fields = live
                .map(|(at, a)| Ok((at, Encoder::of(a.atttypid)?)))
                .collect::<Result<_, PgError>>();
            pg_sys::FreeTupleDesc(descriptor);
            Ok(Composite {
                oid,
                fields: fields?,
            })
        }
    }

    /// # Safety
    /// `datum` must be a composite of this type.
    unsafe fn write(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) -> Written {
        // SAFETY: a detoasted composite is a tuple with its header; the vectors have room for all
        // attributes.
        unsafe {
            let header = pg_sys::pg_detoast_datum(datum.cast_mut_ptr())
                .cast::<pg_sys::HeapTupleHeaderData>();
            let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(self.oid, -1);
            let natts = (*descriptor).natts as usize;
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varlena::varsize(header.cast()) as u32,
                t_data: header,
                ..Default::default()
            };
            let mut values = vec![pg_sys::Datum::from(0); natts];
            let mut nulls = vec![true; natts];
            pg_sys::heap_deform_tuple(
                &mut tuple,
                descriptor,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            let result = value::composite(out, self.fields.len() as u16, |fields| {
                for (ordinal, (at, encoder)) in (1u16..).zip(&self.fields) {
                    if *at < natts && !nulls[*at] {
                        fields.field(ordinal, |out| encoder.write(values[*at], out))?;
                    }
                }
                Ok(())
            });
            pg_sys::FreeTupleDesc(descriptor);
            result
        }
    }
}

extern "C-unwind" {
    fn multirange_get_bounds(
        range_type: *mut pg_sys::TypeCacheEntry,
        multirange: *const Multirange,
        index: u32,
        lower: *mut pg_sys::RangeBound,
        upper: *mut pg_sys::RangeBound,
    );
}

/// Head of `MultirangeType` (multirangetypes.h).
#[repr(C)]
struct Multirange {
    length: i32,
    type_oid: pg_sys::Oid,
    ranges: u32,
}

impl RangeOf {
    fn new(oid: pg_sys::Oid) -> Result<Self, PgError> {
        // SAFETY: look-up of a range type's subtype.
        let subtype = unsafe { pg_sys::get_range_subtype(oid) };
        Ok(RangeOf {
            oid,
            encoder: Encoder::of(subtype)?,
        })
    }

    fn type_cache(&self) -> *mut pg_sys::TypeCacheEntry {
        // SAFETY: entries of the type cache live as long as the backend.
        unsafe { pg_sys::lookup_type_cache(self.oid, pg_sys::TYPECACHE_RANGE_INFO as i32) }
    }

    /// # Safety
    /// The bound must be of this range type.
    unsafe fn bound<'a>(
        &'a self,
        bound: &pg_sys::RangeBound,
    ) -> Bound<impl FnOnce(&mut Vec<u8>) -> Written + 'a> {
        let datum = bound.val;
        // SAFETY: a finite bound holds a value of the subtype.
        let write = move |out: &mut Vec<u8>| unsafe { self.encoder.write(datum, out) };
        match (bound.infinite, bound.inclusive) {
            (true, _) => Bound::Infinite,
            (false, true) => Bound::Inclusive(write),
            (false, false) => Bound::Exclusive(write),
        }
    }

    /// # Safety
    /// `datum` must be a range of this type.
    unsafe fn write(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) -> Written {
        let (mut lower, mut upper, mut empty) = (
            pg_sys::RangeBound::default(),
            pg_sys::RangeBound::default(),
            false,
        );
        // SAFETY: by the caller's promise; out parameters are valid.
        unsafe {
            let range = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::RangeType>();
            pg_sys::range_deserialize(self.type_cache(), range, &mut lower, &mut upper, &mut empty);
            if empty {
                value::empty_range(out);
                return Ok(());
            }
            value::range(out, self.bound(&lower), self.bound(&upper))
        }
    }

    /// # Safety
    /// `datum` must be a multirange over this range type.
    unsafe fn write_many(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) -> Written {
        // SAFETY: by the caller's promise; the head says how many ranges there are.
        unsafe {
            let multirange = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<Multirange>();
            let types = self.type_cache();
            value::multirange(out, |ranges| {
                for i in 0..(*multirange).ranges {
                    let (mut lower, mut upper) =
                        (pg_sys::RangeBound::default(), pg_sys::RangeBound::default());
                    catch_c(|| {
                        multirange_get_bounds(types, multirange, i, &mut lower, &mut upper)
                    })?;
                    ranges.range(self.bound(&lower), self.bound(&upper))?;
                }
                Ok(())
            })
        }
    }
}
