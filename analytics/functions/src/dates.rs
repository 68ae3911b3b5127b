//! Functions of dates and times.
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float64Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{exec_err, Result};

use crate::calendar::{self, Field, Unit, DAY};
use crate::call::{is_text, is_whole, Call, Function, Types, Values};
use crate::error::SqlError;

/// Digits of the result of `pg_extract`; a year has seven.
const FIELD_DIGITS: u8 = 10;
/// Digits of microseconds of 64 bits.
const MICROS_DIGITS: u8 = 19;
const SECOND: i64 = 1_000_000;

/// The functions of this file.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "pg_timestamp",
            1..=1,
            |t| is_day_or_time(&t.of[0]).then(timestamp_type),
            timestamp,
        ),
        Function::new(
            "pg_timestamptz",
            1..=1,
            |t| is_day_or_time(&t.of[0]).then(timestamptz_type),
            timestamp,
        ),
        Function::new("pg_midnight", 1..=1, |t| date(t, 1).map(|_| timestamp_type()), midnight),
        Function::new("pg_date", 1..=1, |t| is_time(&t.of[0]).then_some(DataType::Date32), day),
        Function::new("pg_date_add", 2..=2, |t| date(t, 1).filter(|_| is_whole(&t.of[1])), add),
        Function::new("pg_date_sub", 2..=2, |t| date(t, 2).map(|_| DataType::Int32), sub),
        Function::new("pg_interval_add", 4..=4, interval, interval_add),
        Function::new(
            "pg_interval",
            1..=1,
            |t| (t.of[0] == DataType::Int64).then(between_type),
            |call| {
                let of = call.values::<Int64Type>(0)?;
                call.primitive::<DurationMicrosecondType>(|row| Ok(of.get(row)))
            },
        ),
        Function::new(
            "pg_timestamp_sub",
            2..=2,
            |t| t.of.iter().all(is_time).then(between_type),
            time_between,
        ),
        Function::new("pg_epoch", 1..=1, epoch_type, epoch),
        Function::new(
            "pg_epoch_float",
            1..=1,
            |t| (is_day_or_time(&t.of[0]) || is_between(&t.of[0])).then_some(DataType::Float64),
            epoch_float,
        ),
        Function::new(
            "pg_second",
            1..=1,
            |t| {
                let of = is_time(&t.of[0]) || is_between(&t.of[0]);
                of.then_some(DataType::Decimal128(8, 6))
            },
            second,
        ),
        Function::new("pg_extract", 2..=2, extracted, extract),
        Function::new("pg_date_trunc", 2..=2, truncated, truncate),
    ]
}

fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn timestamptz_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

fn between_type() -> DataType {
    DataType::Duration(TimeUnit::Microsecond)
}

fn is_between(of: &DataType) -> bool {
    of == &between_type()
}

/// Of a day in whole seconds, else with microseconds.
fn epoch_type(types: &Types) -> Option<DataType> {
    let of = &types.of[0];
    let scale = if of == &DataType::Date32 { 0 } else { 6 };
    let known = is_day_or_time(of) || is_between(of);
    known.then_some(DataType::Decimal128(MICROS_DIGITS, scale))
}

fn is_day_or_time(of: &DataType) -> bool {
    of == &DataType::Date32 || is_time(of)
}

fn is_time(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// Date32, when the first arguments are of it.
fn date(types: &Types, arguments: usize) -> Option<DataType> {
    let mut dates = types.of.iter().take(arguments);
    dates.all(|of| of == &DataType::Date32).then_some(DataType::Date32)
}

fn interval(types: &Types) -> Option<DataType> {
    let (first, rest) = types.of.split_first()?;
    let result = match first {
        DataType::Date32 => timestamp_type(),
        of if is_time(of) => of.clone(),
        _ => return None,
    };
    rest.iter().all(is_whole).then_some(result)
}

fn extracted(types: &Types) -> Option<DataType> {
    let of = &types.of[1];
    let known = is_day_or_time(of) || is_between(of);
    (is_text(&types.of[0]) && known).then_some(DataType::Decimal128(FIELD_DIGITS, 0))
}

fn truncated(types: &Types) -> Option<DataType> {
    (is_text(&types.of[0]) && is_time(&types.of[1])).then(|| types.of[1].clone())
}

/// The constant field of the first argument.
fn field<T>(call: &Call, of: fn(&str) -> Option<T>) -> Result<T> {
    match call.constant_text(0)?.map(|name| (name, of(name))) {
        Some((_, Some(field))) => Ok(field),
        Some((name, None)) => exec_err!("the field \"{name}\" is not of the dialect"),
        None => exec_err!("a field has to be a constant"),
    }
}

fn timestamp(call: &Call) -> Result<ArrayRef> {
    let of = Times::new(call, 0)?;
    call.primitive::<TimestampMicrosecondType>(|row| of.timestamp(row))
}

fn midnight(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<Date32Type>(0)?;
    call.primitive::<TimestampMicrosecondType>(|row| Ok(calendar::midnight(of.get(row))))
}

fn day(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<TimestampMicrosecondType>(0)?;
    call.primitive::<Date32Type>(|row| Ok(calendar::timestamp_to_day(of.get(row))))
}

fn add(call: &Call) -> Result<ArrayRef> {
    let (of, days) = (call.values::<Date32Type>(0)?, call.integers(1)?);
    call.primitive::<Date32Type>(|row| calendar::plus_days(of.get(row), days.get_i32(row)))
}

fn sub(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.values::<Date32Type>(0)?, call.values::<Date32Type>(1)?);
    call.primitive::<Int32Type>(|row| calendar::days_between(left.get(row), right.get(row)))
}

/// Dates, or timestamps.
enum Times<'a> {
    Days(Values<'a, Date32Type>),
    Timestamps(Values<'a, TimestampMicrosecondType>),
}

impl Times<'_> {
    fn new(call: &Call, at: usize) -> Result<Times<'_>> {
        Ok(match call.type_of(at) {
            DataType::Date32 => Times::Days(call.values(at)?),
            _ => Times::Timestamps(call.values(at)?),
        })
    }

    fn timestamp(&self, row: usize) -> Result<i64, SqlError> {
        match self {
            Times::Days(days) => calendar::day_to_timestamp(days.get(row)),
            Times::Timestamps(timestamps) => Ok(timestamps.get(row)),
        }
    }

    /// The day, and the microseconds since midnight. None: it is infinite.
    fn day(&self, row: usize) -> Option<(i64, i64)> {
        match self {
            Times::Days(days) => {
                let day = days.get(row);
                (!calendar::is_infinite_day(day)).then_some((day.into(), 0))
            }
            Times::Timestamps(timestamps) => {
                let of = timestamps.get(row);
                let parts = (of.div_euclid(DAY), of.rem_euclid(DAY));
                (!calendar::is_infinite(of)).then_some(parts)
            }
        }
    }
}

fn interval_add(call: &Call) -> Result<ArrayRef> {
    let of = Times::new(call, 0)?;
    let (months, days, time) = (call.integers(1)?, call.integers(2)?, call.integers(3)?);
    call.primitive::<TimestampMicrosecondType>(|row| {
        let timestamp = of.timestamp(row)?;
        let (months, days) = (months.get_i32(row), days.get_i32(row));
        calendar::plus_interval(timestamp, months.into(), days.into(), time.get(row))
    })
}

fn time_between(call: &Call) -> Result<ArrayRef> {
    let left = call.values::<TimestampMicrosecondType>(0)?;
    let right = call.values::<TimestampMicrosecondType>(1)?;
    call.primitive::<DurationMicrosecondType>(|row| {
        calendar::time_between(left.get(row), right.get(row))
    })
}

fn infinite_field() -> SqlError {
    SqlError::unsupported("a field of an infinite date, which is infinite")
}

fn epoch(call: &Call) -> Result<ArrayRef> {
    if is_between(call.type_of(0)) {
        let of = call.values::<DurationMicrosecondType>(0)?;
        return call.primitive::<Decimal128Type>(|row| Ok(of.get(row).into()));
    }
    let of = Times::new(call, 0)?;
    call.primitive::<Decimal128Type>(|row| {
        let (day, time) = of.day(row).ok_or_else(infinite_field)?;
        Ok(match of {
            Times::Days(_) => i128::from(day) * i128::from(DAY / SECOND),
            Times::Timestamps(_) => i128::from(day) * i128::from(DAY) + i128::from(time),
        })
    })
}

/// As PostgreSQL rounds: once for a timestamp, and for the days and the time of an interval each.
fn epoch_float(call: &Call) -> Result<ArrayRef> {
    let seconds = |micros: i64| micros as f64 / SECOND as f64;
    if is_between(call.type_of(0)) {
        let of = call.values::<DurationMicrosecondType>(0)?;
        return call.primitive::<Float64Type>(|row| {
            let (days, time) = (of.get(row) / DAY, of.get(row) % DAY);
            Ok(seconds(time) + (DAY / SECOND) as f64 * days as f64)
        });
    }
    let of = Times::new(call, 0)?;
    call.primitive::<Float64Type>(|row| {
        Ok(match of.timestamp(row)? {
            i64::MAX => f64::INFINITY,
            i64::MIN => f64::NEG_INFINITY,
            micros => seconds(micros),
        })
    })
}

fn second(call: &Call) -> Result<ArrayRef> {
    if is_between(call.type_of(0)) {
        let of = call.values::<DurationMicrosecondType>(0)?;
        return call.primitive::<Decimal128Type>(|row| Ok((of.get(row) % (60 * SECOND)).into()));
    }
    let of = Times::new(call, 0)?;
    call.nullable::<Decimal128Type>(|row| {
        Ok(of.day(row).map(|(_, time)| (time % (60 * SECOND)).into()))
    })
}

/// A field of the time between two timestamps; all have its sign.
fn extract_between(call: &Call, field: Field) -> Result<ArrayRef> {
    let of = call.values::<DurationMicrosecondType>(1)?;
    call.primitive::<Decimal128Type>(|row| match field {
        Field::Day => Ok((of.get(row) / DAY).into()),
        Field::Hour | Field::Minute => Ok(field.extract(0, of.get(row) % DAY).into()),
        _ => Err(SqlError::unsupported("this field of an interval")),
    })
}

fn extract(call: &Call) -> Result<ArrayRef> {
    let field = field(call, Field::of)?;
    if is_between(call.type_of(1)) {
        return extract_between(call, field);
    }
    let of = Times::new(call, 1)?;
    call.nullable::<Decimal128Type>(|row| match of.day(row) {
        Some((day, time)) => Ok(Some(field.extract(day, time).into())),
        None if field.is_monotonic() => Err(infinite_field()),
        None => Ok(None),
    })
}

fn truncate(call: &Call) -> Result<ArrayRef> {
    let unit = field(call, Unit::of)?;
    let of = call.values::<TimestampMicrosecondType>(1)?;
    call.primitive::<TimestampMicrosecondType>(|row| unit.truncate(of.get(row)))
}
