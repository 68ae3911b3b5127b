//! `pg_num` and its like: numbers as PostgreSQL's texts.
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryBuilder};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;

use crate::call::{is_exact, is_whole, Call, Function, Types};
use crate::error::SqlError;
use crate::number::Number;

/// The functions of this file.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new("pg_num", 1..=2, number_and_digits, num),
        Function::new("pg_num_add", 2..=2, numbers, |call| of_two(call, Number::add)),
        Function::new("pg_num_sub", 2..=2, numbers, |call| of_two(call, Number::sub)),
        Function::new("pg_num_mul", 2..=2, numbers, |call| of_two(call, Number::mul)),
        Function::new("pg_num_div", 2..=2, numbers, |call| of_two(call, Number::div)),
        Function::new("pg_num_mod", 2..=2, numbers, |call| of_two(call, Number::rem)),
        Function::new("pg_num_neg", 1..=1, numbers, |call| of_one(call, |n| Ok(n.neg()))),
        Function::new("pg_num_abs", 1..=1, numbers, |call| of_one(call, |n| Ok(n.abs()))),
        Function::new("pg_num_round", 2..=2, number_and_digits, |call| cut(call, Number::round)),
        Function::new("pg_num_trunc", 2..=2, number_and_digits, |call| cut(call, Number::trunc)),
        Function::new(
            "pg_num_cmp",
            2..=2,
            |types| numbers(types).map(|_| DataType::Int32),
            compare,
        ),
        Function::new("pg_num_key", 1..=1, |types| numbers(types).map(|_| DataType::Binary), key),
    ]
}

fn numbers(types: &Types) -> Option<DataType> {
    types.of.iter().all(is_exact).then_some(DataType::Utf8View)
}

fn number_and_digits(types: &Types) -> Option<DataType> {
    let digits = types.of.get(1).is_none_or(is_whole);
    (is_exact(types.of.first()?) && digits).then_some(DataType::Utf8View)
}

fn append(number: &Number, out: &mut String) {
    // Writing to a String does not fail.
    let _ = write!(out, "{number}");
}

/// The exact number of two.
pub(crate) fn of_two(
    call: &Call,
    f: fn(&Number, &Number) -> Result<Number, SqlError>,
) -> Result<ArrayRef> {
    let (left, right) = (call.numbers(0)?, call.numbers(1)?);
    call.written(|row, out| {
        append(&f(&left.get(row)?, &right.get(row)?)?, out);
        Ok(())
    })
}

fn of_one(call: &Call, f: impl Fn(Number) -> Result<Number, SqlError>) -> Result<ArrayRef> {
    let of = call.numbers(0)?;
    call.written(|row, out| {
        append(&f(of.get(row)?)?, out);
        Ok(())
    })
}

fn cut(call: &Call, f: fn(&Number, i32) -> Result<Number, SqlError>) -> Result<ArrayRef> {
    let (of, digits) = (call.numbers(0)?, call.integers(1)?);
    call.written(|row, out| {
        append(&f(&of.get(row)?, digits.get_i32(row))?, out);
        Ok(())
    })
}

fn num(call: &Call) -> Result<ArrayRef> {
    if call.count() == 1 {
        return match call.type_of(0) {
            DataType::Decimal128(..) => crate::strings::text(call),
            _ => of_one(call, Ok),
        };
    }
    let (of, digits) = (call.numbers(0)?, call.integers(1)?);
    call.written(|row, out| {
        let (of, digits) = (of.get(row)?, digits.get_i32(row));
        let cut = of.round(digits)?;
        if cut.scale() > of.scale() || cut.compare(&of) != Ordering::Equal {
            // The text of the query is wrong.
            let message = format!("{of} does not have {digits} digits");
            return Err(SqlError::new("XX000", message));
        }
        append(&cut, out);
        Ok(())
    })
}

fn compare(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.numbers(0)?, call.numbers(1)?);
    call.primitive::<Int32Type>(|row| Ok(left.get(row)?.compare(&right.get(row)?) as i32))
}

fn key(call: &Call) -> Result<ArrayRef> {
    let of = call.numbers(0)?;
    let mut builder = BinaryBuilder::new();
    for row in call.rows() {
        match row {
            Some(row) => builder.append_value(of.get(row)?.key()),
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}
