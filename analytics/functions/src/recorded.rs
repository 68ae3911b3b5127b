//! Answers of PostgreSQL, recorded by `testdata/record.py`, compared with those of DataFusion.
use std::fmt::Write;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

use crate::call::{Call, Function, Types};
use crate::{register, write_text, SqlError};

fn context() -> SessionContext {
    let context = SessionContext::new();
    register(&context);
    let zone = |_: &Types| Some(DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    let timestamp = |_: &Types| Some(DataType::Timestamp(TimeUnit::Microsecond, None));
    let time = |_: &Types| Some(DataType::Time64(TimeUnit::Microsecond));
    let tests = [
        Function::new("test_date", 1..=1, |_| Some(DataType::Date32), days),
        Function::new("test_timestamp", 1..=1, timestamp, micros),
        Function::new("test_timestamptz", 1..=1, zone, micros),
        Function::new("test_time", 1..=1, time, times),
    ];
    for function in tests {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    context
}

fn days(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<Int64Type>(0)?;
    call.primitive::<Date32Type>(|row| Ok(of.get(row) as i32))
}

fn micros(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<Int64Type>(0)?;
    call.primitive::<TimestampMicrosecondType>(|row| Ok(of.get(row)))
}

fn times(call: &Call) -> Result<ArrayRef> {
    let of = call.values::<Int64Type>(0)?;
    call.primitive::<Time64MicrosecondType>(|row| Ok(of.get(row)))
}

/// The answer, in the form of the records.
async fn answer(context: &SessionContext, call: &str) -> String {
    let rows = match context.sql(&format!("SELECT {call}")).await {
        Ok(frame) => frame.collect().await,
        Err(error) => Err(error),
    };
    let mut text = "=".to_owned();
    let written = match rows.as_deref() {
        Ok([batch]) if batch.num_rows() == 1 => write_text(batch.column(0), 0, &mut text),
        Ok(_) => return "not one row".to_owned(),
        Err(error) => match SqlError::of(error) {
            Some(error) => Err(error.clone()),
            None => return error.to_string(),
        },
    };
    match written {
        Ok(true) => text,
        Ok(false) => "NULL".to_owned(),
        Err(error) => format!("ERROR {} {error}", error.sqlstate),
    }
}

/// Whether the worker may refuse an answer: it has no decimal of so many digits, no infinite
/// number, and no timestamp beyond 64 bits.
fn may_be_refused(expected: &str) -> bool {
    let digits = expected.bytes().filter(u8::is_ascii_digit).count();
    let late = expected.starts_with("=2942")
        || expected.starts_with("=92243")
        || expected.ends_with("timestamp out of range");
    let infinite = expected.contains("Infinity") || expected.contains("infinite timestamps");
    digits > 38 || infinite || late
}

async fn check(records: &str) {
    let context = context();
    let (mut wrong, mut count) = (String::new(), 0);
    for record in records.lines() {
        let (call, expected) = record.split_once('\t').expect("a call and its answer");
        let answer = answer(&context, call).await;
        let refused = answer.starts_with("ERROR 0A000") && may_be_refused(expected);
        if answer != expected && !refused {
            count += 1;
            let _ = writeln!(wrong, "{call}\n  {expected} in PostgreSQL\n  {answer} here");
        }
    }
    assert!(wrong.is_empty(), "{count} of {}\n{wrong}", records.lines().count());
}

#[tokio::test]
async fn numbers() {
    check(include_str!("../testdata/numbers.txt")).await;
}

#[tokio::test]
async fn casts() {
    check(include_str!("../testdata/casts.txt")).await;
}

#[tokio::test]
async fn texts() {
    check(include_str!("../testdata/texts.txt")).await;
}

#[tokio::test]
async fn dates() {
    check(include_str!("../testdata/dates.txt")).await;
}

#[tokio::test]
async fn floats() {
    check(include_str!("../testdata/floats.txt")).await;
}

#[tokio::test]
async fn aggregates() {
    check(include_str!("../testdata/aggregates.txt")).await;
}

#[tokio::test]
async fn letters() {
    check(include_str!("../testdata/letters.txt")).await;
}

#[tokio::test]
async fn times_between() {
    check(include_str!("../testdata/between.txt")).await;
}

#[tokio::test]
async fn spreads() {
    check(include_str!("../testdata/spreads.txt")).await;
}
