//! Aggregates and window functions.
use super::expression::guarded;
use super::level::{order_key, sorted};
use super::numeric::mixed_value;
use super::value::{quoted, Form, Value};
use super::{check_key, Writer};
use crate::allowed::{rule, Rule};
use crate::query::{Expr, Order, Query, Window};
use crate::types::Type;
use crate::{Kind, Refusal};

/// The text around the arguments of a call.
struct Call<'a> {
    distinct: &'a str,
    /// FILTER and OVER.
    behind: String,
}

impl Call<'_> {
    fn of(&self, name: &str, argument: &str) -> String {
        format!("{name}({}{argument}){}", self.distinct, self.behind)
    }
}

impl Writer {
    pub(super) fn aggregate(&mut self, expr: &Expr, function: u32) -> Result<Value, Refusal> {
        let Expr::Aggregate { shown, args, distinct, sorted, filter, order, window, .. } = expr else {
            return Err(Refusal::new(Kind::Aggregate, "an aggregate of this form"));
        };
        let refused = || Refusal::new(Kind::Function, shown.as_str());
        let rule = rule(function).ok_or_else(refused)?;
        let filter = filter.as_ref().map(|f| self.condition(f)).transpose()?;
        let (mut values, mut keys) = (Vec::new(), Vec::new());
        for arg in args {
            values.push(self.of_filtered(arg, filter.as_deref())?);
        }
        for (key, order) in sorted {
            keys.push((self.of_filtered(key, filter.as_deref())?, order));
        }
        if !keys.is_empty() && !matches!(rule, Rule::Joined | Rule::Percentile(_)) {
            return Err(Refusal::new(Kind::Aggregate, format!("{shown} with ORDER BY")));
        }
        self.level().aggregates |= window.is_none();
        let mut behind = filter.map_or(String::new(), |f| format!(" FILTER (WHERE {f})"));
        if let Some(window) = window {
            let text = self.level().windows.get(*window).cloned();
            behind += &format!(" OVER ({})", text.ok_or_else(refused)?);
        }
        let no_distinct = || match distinct {
            true => Err(Refusal::new(Kind::Aggregate, format!("{shown} with DISTINCT"))),
            false => Ok(()),
        };
        let call = Call { distinct: if *distinct { "DISTINCT " } else { "" }, behind };
        match (rule, values.as_slice()) {
            (Rule::CountAll, []) => {
                no_distinct()?;
                Ok(Value::new(call.of("count", "*"), Type::Int8))
            }
            (Rule::Rank(name), []) if window.is_some() => {
                let sql = format!("CAST({} AS BIGINT)", call.of(name, ""));
                Ok(Value::new(sql, Type::Int8))
            }
            (Rule::Offset(name), [of]) if window.is_some() => Ok(offset(&call, name, of, 1)),
            (Rule::Offset(name), [of, _]) if window.is_some() => {
                let rows = args.last().and_then(rows_away);
                let construct = || format!("{shown} by this number of rows");
                Ok(offset(&call, name, of, rows.ok_or_else(|| Refusal::new(Kind::Frame, construct()))?))
            }
            (Rule::Count, [of]) => {
                let key = match distinct {
                    true => key_of(of)?,
                    false => of.sql.clone(),
                };
                Ok(Value::new(call.of("count", &key), Type::Int8))
            }
            (Rule::Sum, [of]) => {
                no_distinct()?;
                sum(&call, of, window.is_some())
            }
            (Rule::Average, [of]) => {
                no_distinct()?;
                Ok(Value::exact(match (of.of, &of.form) {
                    (Type::Numeric, Form::Decimal(_)) => call.of("pg_avg", &of.sql),
                    (Type::Numeric, _) => call.of("pg_num_avg", &of.to_exact()),
                    _ => call.of("pg_avg", &of.sql),
                }))
            }
            (Rule::Joined, [of, between]) => joined(&call, of, between, &keys)
                .ok_or_else(|| Refusal::new(Kind::Ordered, format!("{shown} of this form")))?,
            (Rule::Percentile(name), [part]) => {
                no_distinct()?;
                percentile(&call, name, part, &keys)
                    .ok_or_else(|| Refusal::new(Kind::Ordered, format!("{shown} of this form")))
            }
            (Rule::Spread(name), [of]) => {
                no_distinct()?;
                Ok(Value::exact(match of.form {
                    Form::Mixed(..) if of.of == Type::Numeric => call.of(&format!("pg_{name}"), &of.to_exact()),
                    _ => call.of(&format!("pg_{name}"), &of.sql),
                }))
            }
            (Rule::Extreme(name), [of]) => {
                // The same with and without DISTINCT.
                let call = Call { distinct: "", ..call };
                extreme(&call, name, of, order.as_deref())
            }
            (Rule::OfBool(name), [of]) => {
                no_distinct()?;
                Ok(Value::new(call.of(name, &of.sql), Type::Bool))
            }
            _ => Err(refused()),
        }
    }

    /// An argument of an aggregate with or without FILTER.
    fn of_filtered(&mut self, arg: &Expr, filter: Option<&str>) -> Result<Value, Refusal> {
        let value = self.value(arg)?;
        Ok(match (filter, arg) {
            (None, _) | (_, Expr::Column { .. } | Expr::Constant { .. }) => value,
            (Some(filter), _) => where_filtered(value, filter),
        })
    }

    pub(super) fn window(&mut self, query: &Query, window: &Window) -> Result<String, Refusal> {
        let mut text = String::new();
        let target = |at: &usize| {
            let target = query.targets.get(*at);
            target.ok_or_else(|| Refusal::new(Kind::Frame, "a window of this form"))
        };
        let mut keys = Vec::new();
        for at in &window.partition {
            let value = self.value(&target(at)?.expr)?;
            check_key(&value, "PARTITION BY")?;
            keys.push(value.sql);
        }
        if !keys.is_empty() {
            text += &format!("PARTITION BY {} ", keys.join(", "));
        }
        let mut orders = Vec::new();
        for order in &window.order {
            let value = self.value(&target(&order.target)?.expr)?;
            orders.push(sorted(&value, order)?);
        }
        if !orders.is_empty() {
            text += &format!("ORDER BY {} ", orders.join(", "));
        }
        Ok((text + window.frame).trim_end().to_owned())
    }
}

/// The argument of an aggregate with FILTER, which the worker evaluates for all rows. NULL is its
/// value for those that the filter leaves out.
fn where_filtered(of: Value, filter: &str) -> Value {
    let guarded =
        guarded(std::slice::from_ref(&of), of.of, |parts| format!("(CASE WHEN {filter} THEN {} END)", parts[0]));
    Value { not_null: false, ..guarded }
}

/// An expression that is equal for equal values.
fn key_of(of: &Value) -> Result<String, Refusal> {
    match (of.of, &of.form) {
        (Type::Bpchar, _) if of.width.is_none() => Ok(format!("pg_bpchar_key({})", of.sql)),
        (Type::Numeric, Form::Exact) => order_key(of, None),
        (Type::Numeric, _) => Ok(of.sql.clone()),
        _ => check_key(of, "count(DISTINCT)").map(|()| of.sql.clone()),
    }
}

fn sum(call: &Call, of: &Value, window: bool) -> Result<Value, Refusal> {
    let sql = call.of("pg_sum", &of.sql);
    Ok(match (of.of, &of.form) {
        (Type::Int2 | Type::Int4, _) => Value::new(sql, Type::Int8),
        (Type::Int8, _) => Value::decimal(sql, 0),
        (Type::Numeric, Form::Decimal(scale)) => Value::decimal(sql, *scale),
        (Type::Numeric, Form::Exact) => Value::exact(call.of("pg_num_sum", &of.to_exact())),
        (Type::Numeric, Form::Mixed(..)) if window => Value::exact(call.of("pg_num_sum", &of.to_exact())),
        // PostgreSQL shows as many digits as the number with the most.
        (Type::Numeric, Form::Mixed(scale, digits)) => {
            let shown = format!("CASE WHEN {} IS NOT NULL THEN {digits} END", of.sql);
            mixed_value(sql, *scale, call.of("max", &shown))
        }
        _ => return Err(Refusal::new(Kind::Function, "sum of this type")),
    })
}

/// `string_agg` in an order, with a constant between. None: it has no order, or another form.
fn joined(call: &Call, of: &Value, between: &Value, keys: &[(Value, &Order)]) -> Option<Result<Value, Refusal>> {
    let between = between.constant.as_ref()?.as_ref()?;
    let by_itself = keys.len() == 1 && keys.iter().all(|(key, _)| key.sql == of.sql);
    if keys.is_empty() || of.is_null() || (!call.distinct.is_empty() && !by_itself) {
        return None;
    }
    let keys: Result<Vec<_>, Refusal> = keys.iter().map(|(key, order)| sorted(key, order)).collect();
    let written = |keys: Vec<String>| {
        let sql = match call.distinct.is_empty() || of.constant.is_none() {
            true => {
                let arguments = format!("{}, {} ORDER BY {}", of.sql, quoted(between), keys.join(", "));
                call.of("string_agg", &arguments)
            }
            // DISTINCT leaves one of a constant. A worker need not take an order by a constant.
            false => format!("max({}){}", of.sql, call.behind),
        };
        Value::new(sql, Type::Text)
    };
    Some(keys.map(written))
}

/// A percentile at a constant part of the rows. Of a type that shows equal values as one.
fn percentile(call: &Call, name: &str, part: &Value, keys: &[(Value, &Order)]) -> Option<Value> {
    let [(of, order)] = keys else { return None };
    let within = part.constant.as_ref()?.as_ref()?.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
    let shown_alike = match (of.of, &of.form) {
        (Type::Numeric, form) => matches!(form, Form::Decimal(_)),
        (Type::Bool | Type::Text | Type::Bpchar | Type::Uuid | Type::Bytea, _) => false,
        _ => true,
    };
    let arguments = format!("{}, {}, {}", of.sql, part.sql, if order.descending { "TRUE" } else { "FALSE" });
    (within && shown_alike && !of.is_null()).then(|| Value {
        sql: call.of(&format!("pg_{name}"), &arguments),
        not_null: false,
        constant: None,
        ..of.clone()
    })
}

/// The constant number of rows of `lag` or `lead`; None for one below 0, which means the other way.
fn rows_away(rows: &Expr) -> Option<u32> {
    match rows {
        Expr::Constant { text: Some(text), .. } => text.parse().ok(),
        _ => None,
    }
}

fn offset(call: &Call, name: &str, of: &Value, rows: u32) -> Value {
    match (of.of, &of.form) {
        (Type::Numeric, Form::Mixed(..) | Form::Exact) => {
            Value::exact(call.of(name, &format!("{}, {rows}", of.to_exact())))
        }
        _ => Value {
            sql: call.of(name, &format!("{}, {rows}", of.sql)),
            width: None,
            not_null: false,
            constant: None,
            ..of.clone()
        },
    }
}

fn extreme(call: &Call, name: &str, of: &Value, order: Option<&str>) -> Result<Value, Refusal> {
    super::call::check_order(of, order)?;
    Ok(match (of.of, &of.form) {
        (Type::Numeric, Form::Mixed(..) | Form::Exact) => {
            Value::exact(call.of(&format!("pg_num_{name}"), &of.to_exact()))
        }
        _ => Value { sql: call.of(name, &of.sql), width: None, not_null: false, constant: None, ..of.clone() },
    })
}
