//! `pg_add` and its like: of two integers, floats or decimals.
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{internal_err, Result};

use crate::call::{is_whole, Call, Function, Types};
use crate::decimal::{self, DIGITS_MAX};
use crate::error::SqlError;
use crate::float;

/// The functions of this file.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "pg_add",
            2..=2,
            |types| same_or_decimal(types, decimal::Operation::Add),
            add,
        ),
        Function::new(
            "pg_sub",
            2..=2,
            |types| same_or_decimal(types, decimal::Operation::Sub),
            sub,
        ),
        Function::new(
            "pg_mul",
            2..=2,
            |types| same_or_decimal(types, decimal::Operation::Mul),
            mul,
        ),
        Function::new("pg_div", 2..=2, quotient, div),
        Function::new("pg_mod", 2..=2, remainder, rem),
        Function::new("pg_neg", 1..=1, same, neg),
        Function::new("pg_abs", 1..=1, same, abs),
    ]
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}

/// Two integers or floats of one type.
fn same(types: &Types) -> Option<DataType> {
    let first = types.of.first()?;
    let decimal = matches!(first, DataType::Decimal128(..)) && types.of.len() == 1;
    let one = types.of.iter().all(|of| of == first);
    (one && (is_whole(first) || is_float(first) || decimal)).then(|| first.clone())
}

/// Precision and scale of a decimal.
fn digits(of: &DataType) -> Option<(u8, u8)> {
    match of {
        DataType::Decimal128(precision, scale @ 0..) => Some((*precision, scale.unsigned_abs())),
        _ => None,
    }
}

fn decimals_of(types: &Types) -> Option<((u8, u8), (u8, u8))> {
    match types.of.as_slice() {
        [left, right] => Some((digits(left)?, digits(right)?)),
        _ => None,
    }
}

fn same_or_decimal(types: &Types, operation: decimal::Operation) -> Option<DataType> {
    let Some((left, right)) = decimals_of(types) else {
        return same(types);
    };
    let scale = operation.scale(left.1, right.1);
    let precision = operation.digits(left, right).clamp(1, DIGITS_MAX);
    (scale <= DIGITS_MAX).then_some(DataType::Decimal128(precision, scale as i8))
}

fn quotient(types: &Types) -> Option<DataType> {
    decimals_of(types).map(|_| DataType::Utf8View).or_else(|| same(types))
}

fn remainder(types: &Types) -> Option<DataType> {
    let float = types.of.iter().any(is_float);
    same_or_decimal(types, decimal::Operation::Rem).filter(|_| !float)
}

fn add(call: &Call) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Float32 => float32(call, float::Operation::Add, |l, r| l + r),
        DataType::Float64 => float64(call, float::Operation::Add, |l, r| l + r),
        DataType::Decimal128(..) => decimals(call, decimal::Operation::Add),
        _ => integers(call, |l, r| Ok(l.checked_add(r))),
    }
}

fn sub(call: &Call) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Float32 => float32(call, float::Operation::Sub, |l, r| l - r),
        DataType::Float64 => float64(call, float::Operation::Sub, |l, r| l - r),
        DataType::Decimal128(..) => decimals(call, decimal::Operation::Sub),
        _ => integers(call, |l, r| Ok(l.checked_sub(r))),
    }
}

fn mul(call: &Call) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Float32 => float32(call, float::Operation::Mul, |l, r| l * r),
        DataType::Float64 => float64(call, float::Operation::Mul, |l, r| l * r),
        DataType::Decimal128(..) => decimals(call, decimal::Operation::Mul),
        _ => integers(call, |l, r| Ok(l.checked_mul(r))),
    }
}

fn div(call: &Call) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Float32 => float32(call, float::Operation::Div, |l, r| l / r),
        DataType::Float64 => float64(call, float::Operation::Div, |l, r| l / r),
        DataType::Decimal128(..) => crate::exact::of_two(call, crate::number::Number::div),
        _ => integers(call, |l, r| not_zero(r).map(|r| l.checked_div(r))),
    }
}

fn rem(call: &Call) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Decimal128(..) => decimals(call, decimal::Operation::Rem),
        // The smallest number and -1 have no quotient, and the rest 0.
        _ => integers(call, |l, r| not_zero(r).map(|r| Some(l.wrapping_rem(r)))),
    }
}

fn neg(call: &Call) -> Result<ArrayRef> {
    of_one(call, i64::checked_neg, |x| -x, |x| -x)
}

fn abs(call: &Call) -> Result<ArrayRef> {
    of_one(call, i64::checked_abs, f64::abs, i128::abs)
}

fn not_zero(of: i64) -> Result<i64, SqlError> {
    match of {
        0 => Err(SqlError::division_by_zero()),
        _ => Ok(of),
    }
}

/// PostgreSQL's name of an integer type.
pub(crate) fn integer_name(of: &DataType) -> &'static str {
    match of {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        _ => "bigint",
    }
}

/// The number as one of type `T`, or 22003.
pub(crate) fn narrow<T: ArrowPrimitiveType>(of: Option<i64>) -> Result<T::Native, SqlError>
where
    T::Native: TryFrom<i64>,
{
    let narrow = of.and_then(|of| T::Native::try_from(of).ok());
    narrow.ok_or_else(|| SqlError::out_of_range(integer_name(&T::DATA_TYPE)))
}

type OfIntegers = fn(i64, i64) -> Result<Option<i64>, SqlError>;

fn integers(call: &Call, f: OfIntegers) -> Result<ArrayRef> {
    match call.type_of(0) {
        DataType::Int16 => integers_of::<Int16Type>(call, f),
        DataType::Int32 => integers_of::<Int32Type>(call, f),
        DataType::Int64 => integers_of::<Int64Type>(call, f),
        of => internal_err!("arithmetic of {of}"),
    }
}

fn integers_of<T: ArrowPrimitiveType>(call: &Call, f: OfIntegers) -> Result<ArrayRef>
where
    T::Native: Into<i64> + TryFrom<i64>,
{
    let (left, right) = (call.values::<T>(0)?, call.values::<T>(1)?);
    call.primitive::<T>(|row| narrow::<T>(f(left.get(row).into(), right.get(row).into())?))
}

fn float32(
    call: &Call,
    operation: float::Operation,
    f: impl Fn(f32, f32) -> f32,
) -> Result<ArrayRef> {
    let (left, right) = (call.values::<Float32Type>(0)?, call.values::<Float32Type>(1)?);
    call.primitive::<Float32Type>(|row| {
        let (l, r) = (left.get(row), right.get(row));
        float::checked(operation, l, r, f(l, r))
    })
}

fn float64(
    call: &Call,
    operation: float::Operation,
    f: impl Fn(f64, f64) -> f64,
) -> Result<ArrayRef> {
    let (left, right) = (call.values::<Float64Type>(0)?, call.values::<Float64Type>(1)?);
    call.primitive::<Float64Type>(|row| {
        let (l, r) = (left.get(row), right.get(row));
        float::checked(operation, l, r, f(l, r))
    })
}

fn decimals(call: &Call, operation: decimal::Operation) -> Result<ArrayRef> {
    let digits = |at: usize| digits(call.type_of(at)).unwrap_or_default();
    let Some(operation) = operation.of_types(digits(0), digits(1)) else {
        return Err(SqlError::too_many_digits().into());
    };
    if let Some(result) = small_decimals(call, &operation)? {
        return Ok(result);
    }
    let (left, right) = (call.values::<Decimal128Type>(0)?, call.values::<Decimal128Type>(1)?);
    call.primitive::<Decimal128Type>(|row| operation.apply(left.get(row), right.get(row)))
}

/// The result where nothing can overflow: by the types, or, of a product, because all factors have
/// at most 64 bits, as nearly all have. None: a factor has more, or it is another operation.
fn small_decimals(call: &Call, operation: &decimal::Scaled) -> Result<Option<ArrayRef>> {
    if let Some((left_factor, right_factor)) = operation.sum_of() {
        let sum = |l: i128, r: i128| {
            l.wrapping_mul(left_factor).wrapping_add(r.wrapping_mul(right_factor))
        };
        return call.of_two::<Decimal128Type>(sum).map(Some);
    }
    if !operation.is_product() {
        return Ok(None);
    }
    let mut small = true;
    let products = call.of_two::<Decimal128Type>(|l, r| {
        let (left, right) = (l as i64, r as i64);
        small &= i128::from(left) == l && i128::from(right) == r;
        i128::from(left) * i128::from(right)
    })?;
    Ok(small.then_some(products))
}

fn of_one(
    call: &Call,
    of_integer: fn(i64) -> Option<i64>,
    of_float: fn(f64) -> f64,
    of_decimal: fn(i128) -> i128,
) -> Result<ArrayRef> {
    fn whole<T: ArrowPrimitiveType>(call: &Call, f: fn(i64) -> Option<i64>) -> Result<ArrayRef>
    where
        T::Native: Into<i64> + TryFrom<i64>,
    {
        let of = call.values::<T>(0)?;
        call.primitive::<T>(|row| narrow::<T>(f(of.get(row).into())))
    }
    match call.type_of(0) {
        DataType::Int16 => whole::<Int16Type>(call, of_integer),
        DataType::Int32 => whole::<Int32Type>(call, of_integer),
        DataType::Int64 => whole::<Int64Type>(call, of_integer),
        DataType::Float32 => {
            let of = call.values::<Float32Type>(0)?;
            // Neither operation rounds.
            call.primitive::<Float32Type>(|row| Ok(of_float(of.get(row).into()) as f32))
        }
        DataType::Float64 => {
            let of = call.values::<Float64Type>(0)?;
            call.primitive::<Float64Type>(|row| Ok(of_float(of.get(row))))
        }
        _ => {
            let of = call.values::<Decimal128Type>(0)?;
            call.primitive::<Decimal128Type>(|row| Ok(of_decimal(of.get(row))))
        }
    }
}
