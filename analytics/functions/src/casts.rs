//! Casts of numbers, roundings of decimals, and the order of floats.
use std::cmp::Ordering;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{internal_err, Result};

use crate::arithmetic::{integer_name, narrow};
use crate::call::{is_exact, Call, Function, Types, Values};
use crate::decimal::{self, Rounding, DIGITS_MAX};
use crate::error::SqlError;
use crate::float;

/// The functions of this file.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "pg_int2",
            1..=1,
            |types| number(types, DataType::Int16),
            integer::<Int16Type>,
        ),
        Function::new(
            "pg_int4",
            1..=1,
            |types| number(types, DataType::Int32),
            integer::<Int32Type>,
        ),
        Function::new(
            "pg_int8",
            1..=1,
            |types| number(types, DataType::Int64),
            integer::<Int64Type>,
        ),
        Function::new("pg_float8", 1..=1, |types| number(types, DataType::Float64), float8),
        Function::new("pg_dec", 3..=3, modified, dec),
        Function::new("pg_round", 1..=2, rounded, |call| round(call, Rounding::Nearest)),
        Function::new("pg_trunc", 1..=2, rounded, |call| round(call, Rounding::Truncate)),
        Function::new("pg_ceil", 1..=1, rounded, |call| round(call, Rounding::Ceiling)),
        Function::new("pg_floor", 1..=1, rounded, |call| round(call, Rounding::Floor)),
        Function::new("pg_float_eq", 2..=2, floats, |call| compare(call, Ordering::is_eq)),
        Function::new("pg_float_ne", 2..=2, floats, |call| compare(call, Ordering::is_ne)),
        Function::new("pg_float_lt", 2..=2, floats, |call| compare(call, Ordering::is_lt)),
        Function::new("pg_float_le", 2..=2, floats, |call| compare(call, Ordering::is_le)),
        Function::new("pg_float_gt", 2..=2, floats, |call| compare(call, Ordering::is_gt)),
        Function::new("pg_float_ge", 2..=2, floats, |call| compare(call, Ordering::is_ge)),
        Function::new(
            "pg_float_order",
            1..=1,
            |types| floats(types).map(|_| DataType::Int64),
            order,
        ),
        Function::new("pg_case", 1..=1, |types| types.of.first().cloned(), Call::same),
        Function::new(
            "pg_code",
            1..=1,
            |types| of(types, DataType::Boolean, DataType::Int16),
            code,
        ),
        Function::new(
            "pg_truth",
            1..=1,
            |types| of(types, DataType::Int16, DataType::Boolean),
            truth,
        ),
    ]
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}

fn of(types: &Types, of: DataType, gives: DataType) -> Option<DataType> {
    (types.of.first()? == &of).then_some(gives)
}

fn code(call: &Call) -> Result<ArrayRef> {
    let (of, at) = call.array(0);
    let of = of.as_boolean();
    call.primitive::<Int16Type>(|row| Ok(of.value(at(row)).into()))
}

fn truth(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<Int16Type>(0)?;
    call.booleans(|row| Ok(of.get(row) != 0))
}

fn number(types: &Types, gives: DataType) -> Option<DataType> {
    let of = types.of.first()?;
    (is_exact(of) || is_float(of)).then_some(gives)
}

fn floats(types: &Types) -> Option<DataType> {
    types.of.iter().all(is_float).then_some(DataType::Boolean)
}

fn modified(types: &Types) -> Option<DataType> {
    let precision = u8::try_from(types.constant(1)?).ok()?;
    let scale = i8::try_from(types.constant(2)?).ok()?;
    let fits = (1..=DIGITS_MAX).contains(&precision) && (0..=precision as i8).contains(&scale);
    (fits && is_exact(types.of.first()?)).then_some(DataType::Decimal128(precision, scale))
}

/// The number of digits has to be a constant. Rounding may carry into one more digit.
fn rounded(types: &Types) -> Option<DataType> {
    let digits = match types.of.len() {
        1 => 0,
        _ => types.constant(1)?.max(0),
    };
    let digits = u8::try_from(digits).ok().filter(|digits| *digits <= DIGITS_MAX)?;
    let DataType::Decimal128(precision, scale @ 0..) = types.of.first()? else {
        return None;
    };
    let before = precision.saturating_sub(scale.unsigned_abs()) + 1;
    Some(DataType::Decimal128((before + digits).min(DIGITS_MAX), digits as i8))
}

/// Floats of an argument.
enum Floats<'a> {
    Single(Values<'a, Float32Type>),
    Double(Values<'a, Float64Type>),
}

impl Floats<'_> {
    fn new(call: &Call, at: usize) -> Result<Floats<'_>> {
        Ok(match call.type_of(at) {
            DataType::Float32 => Floats::Single(call.values(at)?),
            _ => Floats::Double(call.values(at)?),
        })
    }

    fn get(&self, row: usize) -> f64 {
        match self {
            Floats::Single(values) => values.get(row).into(),
            Floats::Double(values) => values.get(row),
        }
    }
}

fn compare(call: &Call, holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let (left, right) = (Floats::new(call, 0)?, Floats::new(call, 1)?);
    call.booleans(|row| Ok(holds(float::compare(left.get(row), right.get(row)))))
}

fn order(call: &Call) -> Result<ArrayRef> {
    let of = Floats::new(call, 0)?;
    call.primitive::<Int64Type>(|row| Ok(float::order(of.get(row))))
}

fn integer<T: ArrowPrimitiveType>(call: &Call) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    if is_float(call.type_of(0)) {
        let of = Floats::new(call, 0)?;
        return call.primitive::<T>(|row| {
            // Half to even. A cast of Rust's would give the nearest number there is.
            let whole = of.get(row).round_ties_even();
            let fits = (-(2_f64.powi(63))..2_f64.powi(63)).contains(&whole);
            narrow::<T>(fits.then_some(whole as i64))
        });
    }
    let of = call.numbers(0)?;
    call.primitive::<T>(|row| {
        let whole = of.get(row)?.to_decimal(0);
        let whole = whole.ok_or_else(|| SqlError::out_of_range(integer_name(&T::DATA_TYPE)))?;
        narrow::<T>(i64::try_from(whole).ok())
    })
}

fn float8(call: &Call) -> Result<ArrayRef> {
    if is_float(call.type_of(0)) {
        let of = Floats::new(call, 0)?;
        return call.primitive::<Float64Type>(|row| Ok(of.get(row)));
    }
    let of = call.numbers(0)?;
    call.primitive::<Float64Type>(|row| of.get(row)?.to_f64())
}

fn dec(call: &Call) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = call.result else {
        return internal_err!("pg_dec gives {}", call.result);
    };
    let scale = scale.unsigned_abs();
    let checked = |of: Option<i128>| {
        let overflow = || SqlError::new("22003", "numeric field overflow");
        of.and_then(|of| decimal::in_digits(of, precision)).ok_or_else(overflow)
    };
    match call.type_of(0) {
        DataType::Decimal128(_, from) => {
            let (from, of) = (from.unsigned_abs(), call.values::<Decimal128Type>(0)?);
            call.primitive::<Decimal128Type>(|row| {
                checked(decimal::rescale(of.get(row), from, scale, Rounding::Nearest))
            })
        }
        _ => {
            let of = call.numbers(0)?;
            call.primitive::<Decimal128Type>(|row| checked(of.get(row)?.to_decimal(scale.into())))
        }
    }
}

fn round(call: &Call, rounding: Rounding) -> Result<ArrayRef> {
    let (&DataType::Decimal128(_, from), &DataType::Decimal128(_, to)) =
        (call.type_of(0), &call.result)
    else {
        return internal_err!("rounding of {}", call.type_of(0));
    };
    let (from, to) = (from.unsigned_abs(), to.unsigned_abs());
    let of = call.values::<Decimal128Type>(0)?;
    let digits = match call.count() {
        2 => call.integers(1)?.get_i32(0),
        _ => 0,
    };
    // Zeros before the point: as many digits are dropped, and put back as zeros.
    let zeros = u8::try_from(digits.saturating_neg().max(0)).unwrap_or(u8::MAX);
    call.primitive::<Decimal128Type>(|row| {
        let of = of.get(row);
        let rounded = match zeros {
            0 => decimal::rescale(of, from, to, rounding),
            _ if from.saturating_add(zeros) > DIGITS_MAX => Some(0),
            _ => decimal::rescale(of, from + zeros, 0, rounding)
                .and_then(|of| of.checked_mul(decimal::ten_to(zeros.into())?)),
        };
        decimal::checked(rounded)
    })
}
