//! Numbers of type numeric: the digits behind the point that PostgreSQL shows.
use super::value::{Form, Value};
use crate::types::Type;

/// Digits behind the point up to which a product stays a number of the worker's.
const PRODUCT_SCALE_MAX: u8 = 30;

/// One value of several alternatives, which `write` puts together. Of numbers with different digits
/// it is called again for the digits.
pub(super) fn unify(values: &[Value], of: Type, write: impl Fn(&[String]) -> String) -> Value {
    let known: Vec<&Value> = values.iter().filter(|v| !v.is_null()).collect();
    let not_null = values.iter().all(|v| v.not_null);
    let plain = || values.iter().map(|v| v.sql.clone()).collect::<Vec<_>>();
    let of = known.first().map_or(of, |v| v.of);
    let result = |sql: String, form: Form| Value {
        form,
        not_null,
        width: known.first().and_then(|first| first.width).filter(|n| known.iter().all(|v| v.width == Some(*n))),
        ..Value::new(sql, of)
    };
    if of != Type::Numeric {
        return result(write(&plain()), Form::Decimal(0));
    }
    if known.iter().any(|v| v.form == Form::Exact) {
        let texts: Vec<_> = values.iter().map(Value::to_exact).collect();
        return result(write(&texts), Form::Exact);
    }
    let scale = known.iter().map(|v| v.scale()).max().unwrap_or(0);
    let scaled: Vec<_> = values.iter().map(|v| v.to_scale(scale)).collect();
    let same = known.iter().all(|v| v.form == Form::Decimal(scale));
    if same {
        return result(write(&scaled), Form::Decimal(scale));
    }
    let digits: Vec<_> = values.iter().map(Value::digits).collect();
    let digits = write(&digits);
    result(write(&scaled), Form::Mixed(scale, digits))
}

/// `pg_<name>` of two numbers.
pub(super) fn arithmetic(name: &str, left: &Value, right: &Value) -> Value {
    let exact = || Value::exact(format!("pg_num_{name}({}, {})", left.to_exact(), right.to_exact()));
    let (Form::Decimal(_) | Form::Mixed(..), Form::Decimal(_) | Form::Mixed(..)) = (&left.form, &right.form) else {
        return exact();
    };
    let sql = format!("pg_{name}({}, {})", left.sql, right.sql);
    let mixed = matches!(left.form, Form::Mixed(..)) || matches!(right.form, Form::Mixed(..));
    let (l, r) = (left.scale(), right.scale());
    let (dl, dr) = (left.digits(), right.digits());
    match name {
        "div" | "mod" if mixed => exact(),
        "div" => Value::exact(sql),
        "mul" if u16::from(l) + u16::from(r) > u16::from(PRODUCT_SCALE_MAX) => exact(),
        "mul" if mixed => mixed_value(sql, l + r, format!("({dl} + {dr})")),
        "mul" => Value::decimal(sql, l + r),
        _ if mixed => mixed_value(sql, l.max(r), format!("greatest({dl}, {dr})")),
        _ => Value::decimal(sql, l.max(r)),
    }
}

pub(super) fn mixed_value(sql: String, scale: u8, digits: String) -> Value {
    Value { form: Form::Mixed(scale, digits), ..Value::new(sql, Type::Numeric) }
}
