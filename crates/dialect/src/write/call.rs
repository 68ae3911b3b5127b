//! Calls of functions and operators.
use super::level::order_of_text;
use super::numeric::arithmetic;
use super::value::{quoted, Form, Value};
use super::Writer;
use crate::allowed::{rule, Comparison, Rule};
use crate::query::{Expr, Letters, Typed};
use crate::types::{numeric_modifier, Type, DIGITS_MAX};
use crate::{Kind, Refusal};

/// Fields of `extract` that are whole numbers.
const FIELDS: &[&str] = &[
    "year",
    "month",
    "day",
    "quarter",
    "decade",
    "century",
    "millennium",
    "week",
    "dow",
    "isodow",
    "doy",
    "isoyear",
    "hour",
    "minute",
];
/// Fields of the time between two timestamps.
const FIELDS_BETWEEN: &[&str] = &["day", "hour", "minute"];
/// Of these a date has none.
const FIELDS_OF_TIME: &[&str] = &["hour", "minute"];
/// Fields of `date_trunc`.
const TRUNCATED: &[&str] = &[
    "microseconds",
    "milliseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
];

/// Texts that are compared by their order need the order of bytes.
pub(super) fn check_order(value: &Value, order: Option<&str>) -> Result<(), Refusal> {
    match (value.of, order) {
        (Type::Text | Type::Bpchar, Some(collation)) => Err(order_of_text(collation)),
        _ => Ok(()),
    }
}

impl Writer {
    pub(super) fn call(
        &mut self,
        function: u32,
        shown: &str,
        args: &[Expr],
        typed: Typed,
        order: Option<&str>,
        letters: Letters,
    ) -> Result<Value, Refusal> {
        let refused = || Refusal::new(Kind::Function, shown);
        let rule = rule(function).ok_or_else(refused)?;
        let mut values = Vec::new();
        for arg in args {
            values.push(match (rule, arg) {
                (Rule::IntervalAdd { .. }, _) => self.value_or_interval(arg)?,
                (Rule::Compare(_), _) => time_between(self.value_or_interval(arg)?).ok_or_else(refused)?,
                (_, Expr::Constant { typed, text }) => self.constant(*typed, text.as_deref())?,
                _ => self.value(arg)?,
            });
        }
        let not_null = values.iter().all(|v| v.not_null);
        let written = self.of_values(rule, &values, shown, typed.of, order, letters)?;
        Ok(Value { not_null, constant: written.constant.filter(|_| rule == Rule::Same), ..written })
    }

    /// A call of written arguments. The frames of nested calls have none of it.
    fn of_values(
        &mut self,
        rule: Rule,
        values: &[Value],
        shown: &str,
        result: Type,
        order: Option<&str>,
        letters: Letters,
    ) -> Result<Value, Refusal> {
        let refused = || Refusal::new(Kind::Function, shown);
        Ok(match (rule, values) {
            (Rule::Compare(comparison), [left, right]) => compare(comparison, left, right, order)?,
            (Rule::Arithmetic(name), [left, right]) => match result {
                Type::Numeric => arithmetic(name, left, right),
                of => {
                    let (left, right) = (cast(left, of), cast(right, of));
                    Value::new(format!("pg_{name}({left}, {right})"), of)
                }
            },
            (Rule::Unary(name), [of]) => unary(name, of),
            (Rule::Same, [of]) => of.clone(),
            (Rule::Like(positive), [text, pattern]) => like(positive, text, pattern),
            (Rule::LikeInAnyCase(positive), [text, pattern]) => {
                like(positive, &in_case("lower", letters, text, shown)?, &in_case("lower", letters, pattern, shown)?)
            }
            (Rule::Case(name), [of]) => in_case(name, letters, of, shown)?,
            (Rule::Integer, [of]) => integer(of, result),
            (Rule::Float8, [of]) => float8(of),
            (Rule::ToNumeric, [of]) => {
                Value { before: Some(19), ..Value::decimal(format!("CAST({} AS DECIMAL(19,0))", of.sql), 0) }
            }
            (Rule::NumericModifier, [of, modifier]) => modified(of, modifier).ok_or_else(refused)?,
            (Rule::TextOfBpchar, [of]) => Value::new(format!("pg_bpchar_key({})", of.sql), Type::Text),
            (Rule::Concatenate, [left, right]) => {
                Value::new(format!("pg_concat({}, {})", left.sql, right.sql), Type::Text)
            }
            (Rule::LengthOfBpchar, [of]) => Value::new(format!("pg_length(pg_bpchar_key({}))", of.sql), Type::Int4),
            (Rule::Trim(name), [text]) => Value::new(format!("{name}({}, ' ')", text.sql), Type::Text),
            (Rule::Function(name) | Rule::Trim(name), values) => {
                let list: Vec<_> = values.iter().map(|v| v.sql.clone()).collect();
                Value::new(format!("{name}({})", list.join(", ")), result)
            }
            (Rule::FunctionInUtc(name), [of]) => {
                self.needs_utc(true, shown)?;
                Value::new(format!("{name}({})", of.sql), result)
            }
            (Rule::AtUtc(name), [zone, of]) => {
                check_zone(zone, shown)?;
                Value::new(format!("{name}({})", of.sql), result)
            }
            (Rule::Between, [left, right]) => {
                Value::new(format!("pg_timestamp_sub({}, {})", left.sql, right.sql), Type::Interval)
            }
            (Rule::Rounded(name), values) => rounded(name, values).ok_or_else(refused)?,
            (Rule::DateAdd(negate), [left, right]) => {
                let (date, days) = match left.of {
                    Type::Date => (left, right),
                    _ => (right, left),
                };
                let days = match negate {
                    true => format!("pg_neg({})", days.sql),
                    false => days.sql.clone(),
                };
                Value::new(format!("pg_date_add({}, {days})", date.sql), Type::Date)
            }
            (Rule::IntervalAdd { negate }, [left, right]) => interval_add(negate, left, right).ok_or_else(refused)?,
            (Rule::Extract { float, in_utc }, [field, of]) => {
                let same_everywhere = constant(field).is_some_and(|field| field == "epoch");
                self.needs_utc(in_utc && !same_everywhere, shown)?;
                extract(float, field, of).ok_or_else(|| Refusal::new(Kind::Field, format!("{shown} of this field")))?
            }
            (Rule::DateTrunc { in_utc }, [field, of, zone @ ..]) => {
                self.needs_utc(in_utc, shown)?;
                zone.iter().try_for_each(|zone| check_zone(zone, shown))?;
                let field = constant(field).filter(|f| TRUNCATED.contains(&f.as_str()));
                let field = field.ok_or_else(|| Refusal::new(Kind::Field, format!("{shown} of this field")))?;
                Value::new(format!("pg_date_trunc({}, {})", quoted(&field), of.sql), result)
            }
            _ => return Err(refused()),
        })
    }

    /// The constant of an interval is kept here, without a text: the caller writes it.
    fn value_or_interval(&mut self, arg: &Expr) -> Result<Value, Refusal> {
        match arg {
            Expr::Constant { typed, text: Some(text) } if typed.of == Type::Interval => {
                Ok(Value { not_null: true, constant: Some(Some(text.clone())), ..Value::new("", Type::Interval) })
            }
            Expr::Constant { typed, text } => self.constant(*typed, text.as_deref()),
            _ => self.value(arg),
        }
    }

    fn needs_utc(&mut self, needed: bool, shown: &str) -> Result<(), Refusal> {
        self.used_utc |= needed;
        match needed && !self.settings.utc {
            true => Err(Refusal::new(Kind::TimeZone, format!("{shown} while TimeZone is not \"UTC\""))),
            false => Ok(()),
        }
    }
}

/// The text of a constant, in small letters.
fn constant(value: &Value) -> Option<String> {
    Some(value.constant.as_ref()?.as_ref()?.to_lowercase())
}

/// A number as one of another type, which holds every value.
fn cast(value: &Value, of: Type) -> String {
    let name = of.cast_name().unwrap_or("BIGINT");
    match &value.constant {
        _ if value.of == of => value.sql.clone(),
        Some(Some(text)) if value.of.is_integer() && of.is_integer() => {
            format!("CAST({text} AS {name})")
        }
        _ => format!("CAST({} AS {name})", value.sql),
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value, order: Option<&str>) -> Result<Value, Refusal> {
    if comparison.orders() {
        check_order(left, order)?;
    }
    let operator = comparison.sql();
    let native = |l: &str, r: &str| format!("({l} {operator} {r})");
    let sql = match (left.of, right.of) {
        (l, r) if l.is_float() && r.is_float() => {
            format!("pg_float_{}({}, {})", comparison.short(), cast(left, Type::Float8), cast(right, Type::Float8))
        }
        (Type::Numeric, Type::Numeric)
            if left.form == Form::Exact || right.form == Form::Exact || !left.compares_with(right) =>
        {
            format!("(pg_num_cmp({}, {}) {operator} 0)", left.to_exact(), right.to_exact())
        }
        (Type::Bpchar, Type::Bpchar) => compare_bpchar(comparison, left, right),
        // Midnight is as good as the day, and the worker compares days without a function.
        (Type::Date, Type::Timestamp) if midnight(right).is_some() => {
            native(&left.sql, &midnight(right).unwrap_or_default())
        }
        (Type::Timestamp, Type::Date) if midnight(left).is_some() => {
            native(&midnight(left).unwrap_or_default(), &right.sql)
        }
        (Type::Date, Type::Timestamp) => native(&format!("pg_midnight({})", left.sql), &right.sql),
        (Type::Timestamp, Type::Date) => native(&left.sql, &format!("pg_midnight({})", right.sql)),
        _ => native(&left.sql, &right.sql),
    };
    Ok(Value::new(sql, Type::Bool))
}

/// The day of a constant timestamp without a time, as a date.
fn midnight(value: &Value) -> Option<String> {
    let day = value.constant.as_ref()?.as_ref()?;
    let day = day.strip_suffix(" 00:00:00")?;
    Some(format!("CAST('{day}' AS DATE)"))
}

/// Trailing blanks do not count.
fn compare_bpchar(comparison: Comparison, left: &Value, right: &Value) -> String {
    let operator = comparison.sql();
    let keys = || format!("(pg_bpchar_key({}) {operator} pg_bpchar_key({}))", left.sql, right.sql);
    if comparison.orders() {
        return keys();
    }
    // A constant beside a padded column is padded as well; one that is too long equals none.
    let padded = |constant: &Value, n: usize| {
        let text = constant.constant.as_ref()?.as_ref()?.trim_end_matches(' ');
        Some(quoted(&format!("{text:n$}")))
    };
    let (l, r) = match (left.width, right.width) {
        (Some(n), Some(m)) if n == m => (Some(left.sql.clone()), Some(right.sql.clone())),
        (Some(n), _) if right.constant.is_some() => (Some(left.sql.clone()), padded(right, n)),
        (_, Some(n)) if left.constant.is_some() => (padded(left, n), Some(right.sql.clone())),
        _ => (None, None),
    };
    match (l, r) {
        (Some(l), Some(r)) => format!("({l} {operator} {r})"),
        _ => keys(),
    }
}

fn unary(name: &str, of: &Value) -> Value {
    match of.form {
        Form::Exact if of.of == Type::Numeric => Value::exact(format!("pg_num_{name}({})", of.to_exact())),
        _ => Value { sql: format!("pg_{name}({})", of.sql), ..of.clone() },
    }
}

fn like(positive: bool, text: &Value, pattern: &Value) -> Value {
    let not = if positive { "" } else { "NOT " };
    let plain = pattern.constant.as_ref().and_then(Option::as_ref);
    let sql = match plain.is_some_and(|pattern| !pattern.contains('\\')) {
        true => format!("({} {not}LIKE {})", text.sql, pattern.sql),
        false => format!("({not}pg_like({}, {}))", text.sql, pattern.sql),
    };
    Value::new(sql, Type::Bool)
}

fn integer(of: &Value, to: Type) -> Value {
    let rank = |of: Type| match of {
        Type::Int2 => 1,
        Type::Int4 => 2,
        Type::Int8 => 3,
        _ => 9,
    };
    if of.of.is_integer() && rank(of.of) <= rank(to) {
        return Value::new(cast(of, to), to);
    }
    let name = to.cast_name().map_or("pg_int8", |name| match name {
        "SMALLINT" => "pg_int2",
        "INT" => "pg_int4",
        _ => "pg_int8",
    });
    let of = match (of.of, &of.form) {
        (Type::Numeric, Form::Exact) => format!("pg_num_round({}, CAST(0 AS INT))", of.to_exact()),
        _ => of.sql.clone(),
    };
    Value::new(format!("{name}({of})"), to)
}

fn float8(of: &Value) -> Value {
    let sql = match of.of {
        Type::Numeric => format!("pg_float8({})", of.sql),
        _ => cast(of, Type::Float8),
    };
    Value::new(sql, Type::Float8)
}

/// `numeric(p, s)`, whose modifier is a constant.
fn modified(of: &Value, modifier: &Value) -> Option<Value> {
    let modifier: i32 = constant(modifier)?.parse().ok()?;
    let (precision, scale) = numeric_modifier(modifier)?;
    let fits = precision <= DIGITS_MAX && scale <= precision;
    fits.then(|| {
        let sql = format!("pg_dec({}, {precision}, {scale})", of.sql);
        Value { before: Some(precision - scale), ..Value::decimal(sql, scale) }
    })
}

/// `round(x, n)` and its like. The number of digits has to be a constant.
fn rounded(name: &str, values: &[Value]) -> Option<Value> {
    let (of, digits) = match values {
        [of] => (of, 0),
        [of, digits] => (of, constant(digits)?.parse().ok()?),
        _ => return None,
    };
    let scale = u8::try_from(digits).ok().filter(|n| *n <= DIGITS_MAX)?;
    let whole = matches!(name, "ceil" | "floor");
    Some(match &of.form {
        Form::Exact if whole => return None,
        Form::Exact => Value::exact(format!("pg_num_{name}({}, CAST({digits} AS INT))", of.to_exact())),
        _ if whole => Value::decimal(format!("pg_{name}({})", of.sql), 0),
        // More digits than there are: the worker's number does not grow, a cast makes it.
        Form::Decimal(has) | Form::Mixed(has, _) if *has < scale => {
            Value::decimal(format!("CAST({} AS DECIMAL(38,{scale}))", of.sql), scale)
        }
        _ => Value::decimal(format!("pg_{name}({}, {digits})", of.sql), scale),
    })
}

/// Months, days and microseconds of a constant interval.
fn interval_parts(interval: &Value) -> Option<Vec<i64>> {
    let text = interval.constant.as_ref()?.as_ref()?;
    let parts: Option<Vec<i64>> = text.split(' ').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| parts.len() == 3)
}

/// A constant interval as the time that it compares as: a month has 30 days, a day 24 hours. None:
/// it is longer than any between two timestamps. Other values stay.
fn time_between(of: Value) -> Option<Value> {
    const DAY: i64 = 86_400_000_000;
    if of.of != Type::Interval || !of.sql.is_empty() {
        return Some(of);
    }
    let parts = interval_parts(&of)?;
    let days = parts[0].checked_mul(30)?.checked_add(parts[1])?;
    let micros = days.checked_mul(DAY)?.checked_add(parts[2]).filter(|micros| *micros > i64::MIN)?;
    Some(Value { sql: format!("pg_interval(CAST({micros} AS BIGINT))"), ..of })
}

/// `pg_upper`, `pg_lower`, or the same of the letters of ASCII.
fn in_case(name: &str, letters: Letters, of: &Value, shown: &str) -> Result<Value, Refusal> {
    if letters == Letters::Other {
        return Err(Refusal::new(Kind::Letters, format!("{shown} under this collation")));
    }
    let changed = |text: &str| if name == "lower" { text.to_ascii_lowercase() } else { text.to_ascii_uppercase() };
    let ascii = if letters == Letters::Ascii { "_ascii" } else { "" };
    Ok(match &of.constant {
        Some(Some(text)) if text.is_ascii() => {
            let text = changed(text);
            Value { constant: Some(Some(text.clone())), ..Value::new(quoted(&text), Type::Text) }
        }
        _ => Value::new(format!("pg_{name}{ascii}({})", of.sql), Type::Text),
    })
}

/// Refuses a time zone that is not the constant UTC.
fn check_zone(zone: &Value, shown: &str) -> Result<(), Refusal> {
    match constant(zone).is_some_and(|zone| ["utc", "etc/utc", "gmt", "etc/gmt"].contains(&zone.as_str())) {
        true => Ok(()),
        false => Err(Refusal::new(Kind::TimeZone, format!("{shown} of another zone than UTC"))),
    }
}

fn interval_add(negate: bool, left: &Value, right: &Value) -> Option<Value> {
    let (of, interval) = match right.of {
        Type::Interval => (left, right),
        _ => (right, left),
    };
    let parts = interval_parts(interval)?;
    let signed = |part: i64| if negate { part.checked_neg() } else { Some(part) };
    let (months, days, micros) = (signed(parts[0])?, signed(parts[1])?, signed(parts[2])?);
    let sql =
        format!("pg_interval_add({}, CAST({months} AS INT), CAST({days} AS INT), CAST({micros} AS BIGINT))", of.sql);
    Some(Value::new(sql, Type::Timestamp))
}

fn extract(float: bool, field: &Value, of: &Value) -> Option<Value> {
    let field = constant(field)?;
    match (field.as_str(), of.of) {
        ("epoch", _) if float => return Some(Value::new(format!("pg_epoch_float({})", of.sql), Type::Float8)),
        ("epoch", Type::Date) => return Some(Value::decimal(format!("pg_epoch({})", of.sql), 0)),
        ("epoch", _) => return Some(Value::decimal(format!("pg_epoch({})", of.sql), 6)),
        ("second", Type::Timestamp | Type::TimestampTz | Type::Interval) if !float => {
            return Some(Value::decimal(format!("pg_second({})", of.sql), 6))
        }
        (field, Type::Interval) if !FIELDS_BETWEEN.contains(&field) => return None,
        (field, Type::Date) if FIELDS_OF_TIME.contains(&field) => return None,
        (field, _) if !FIELDS.contains(&field) => return None,
        _ => (),
    }
    let sql = format!("pg_extract({}, {})", quoted(&field), of.sql);
    Some(match float {
        true => Value::new(format!("pg_float8({sql})"), Type::Float8),
        false => Value::decimal(sql, 0),
    })
}
