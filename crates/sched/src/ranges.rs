//! The set of values that conditions allow for one column, as ranges.

use std::ops::Bound;

use crate::template::Limit;
use crate::value::{encode, Class, Value};

/// Values named one by one; with more they are a range.
pub const VALUES_MAX: usize = 16;

/// The values that a column can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// None: no row counts.
    Nothing,
    /// Any, NULL included.
    Anything,
    /// One of these, none of which is NULL; at least one, at most [`VALUES_MAX`].
    OneOf(Vec<Value>),
    /// The values between two ends, without NULL.
    Between(Bound<Value>, Bound<Value>),
}

/// The values of a column of this class within all limits, in an execution with these values. It
/// may be more than there are: of several limits that name values the first counts, of several
/// lower or upper ends the last. Cost: linear in the limits and the bytes of their values.
pub fn range(class: Class, limits: &[Limit], values: &[Value]) -> Range {
    let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
    let mut named = None;
    for limit in limits {
        match limit {
            Limit::Lower(operand, inclusive) | Limit::Upper(operand, inclusive) => {
                let Some(value) = operand.value(values) else { continue };
                if *value == Value::Null {
                    return Range::Nothing;
                }
                if key(class, value).is_none() {
                    continue;
                }
                let value = value.clone();
                let end = if *inclusive { Bound::Included(value) } else { Bound::Excluded(value) };
                match limit {
                    Limit::Lower(..) => lower = end,
                    _ => upper = end,
                }
            }
            _ if named.is_none() => named = one_of(class, limit, values),
            _ => {}
        }
    }
    match named {
        Some(named) => of_named(named),
        None if (&lower, &upper) == (&Bound::Unbounded, &Bound::Unbounded) => Range::Anything,
        None => Range::Between(lower, upper),
    }
}

/// A value with its encoding.
type Keyed = (Vec<u8>, Value);

/// The values that a limit names. `None`: it does not name them all, or NULL is one of them.
fn one_of(class: Class, limit: &Limit, values: &[Value]) -> Option<Vec<Keyed>> {
    let keyed = |value: &Value| Some((key(class, value)?, value.clone()));
    let not_null = |value: &&Value| **value != Value::Null;
    match limit {
        Limit::Equal(operands) => {
            let known: Option<Vec<&Value>> = operands.iter().map(|operand| operand.value(values)).collect();
            known?.into_iter().filter(not_null).map(keyed).collect()
        }
        Limit::Is(operands) => operands.iter().map(|operand| keyed(operand.value(values)?)).collect(),
        Limit::Element(operand, false) => match operand.value(values)? {
            Value::Array(elements) | Value::Elements(elements) => elements.iter().filter(not_null).map(keyed).collect(),
            Value::Null => Some(Vec::new()),
            _ => None,
        },
        Limit::Element(_, true) | Limit::Lower(..) | Limit::Upper(..) => None,
    }
}

fn of_named(mut named: Vec<Keyed>) -> Range {
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    named.dedup_by(|(a, _), (b, _)| a == b);
    match &named[..] {
        [] => Range::Nothing,
        [(_, first), .., (_, last)] if named.len() > VALUES_MAX => {
            Range::Between(Bound::Included(first.clone()), Bound::Included(last.clone()))
        }
        _ => Range::OneOf(named.into_iter().map(|(_, value)| value).collect()),
    }
}

/// The encoding of a value that belongs to the class.
fn key(class: Class, value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    (*value != Value::Null && encode(class, value, &mut bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Operand;

    fn is(number: i64) -> Operand {
        Operand::Constant(Value::Integer(number))
    }

    fn integers(limits: &[Limit], values: &[Value]) -> Range {
        range(Class::Integer, limits, values)
    }

    #[test]
    fn equal_values_are_named() {
        assert_eq!(integers(&[Limit::Equal(vec![is(5)])], &[]), Range::OneOf(vec![Value::Integer(5)]));
        let given = Limit::Equal(vec![Operand::Given(0), is(3), is(9), is(3)]);
        let named = [3, 7, 9].map(Value::Integer).to_vec();
        assert_eq!(integers(std::slice::from_ref(&given), &[Value::Integer(7)]), Range::OneOf(named));
        let without = [3, 9].map(Value::Integer).to_vec();
        assert_eq!(
            integers(std::slice::from_ref(&given), &[Value::Null]),
            Range::OneOf(without),
            "NULL is equal to nothing"
        );
        assert_eq!(integers(&[given], &[Value::Opaque]), Range::Anything);
    }

    #[test]
    fn null_is_no_bound() {
        assert_eq!(integers(&[Limit::Is(vec![is(1), Operand::Constant(Value::Null)])], &[]), Range::Anything);
        assert_eq!(integers(&[Limit::Equal(vec![Operand::Constant(Value::Null)])], &[]), Range::Nothing);
        assert_eq!(integers(&[Limit::Lower(Operand::Constant(Value::Null), true)], &[]), Range::Nothing);
        assert_eq!(integers(&[Limit::Element(Operand::Constant(Value::Null), false)], &[]), Range::Nothing);
        assert_eq!(integers(&[Limit::Element(Operand::Constant(Value::Null), true)], &[]), Range::Anything);
    }

    #[test]
    fn ends_make_a_range() {
        let both = [Limit::Lower(is(2), true), Limit::Upper(is(8), false)];
        let between = Range::Between(Bound::Included(Value::Integer(2)), Bound::Excluded(Value::Integer(8)));
        assert_eq!(integers(&both, &[]), between);
        let with_name = [Limit::Lower(is(2), true), Limit::Equal(vec![is(4)])];
        assert_eq!(integers(&with_name, &[]), Range::OneOf(vec![Value::Integer(4)]));
        assert_eq!(integers(&[], &[]), Range::Anything);
    }

    #[test]
    fn many_values_are_a_range() {
        let many = Value::Array((0..=VALUES_MAX as i64).rev().map(Value::Integer).collect());
        let limit = [Limit::Element(Operand::Given(0), false)];
        let last = Value::Integer(VALUES_MAX as i64);
        let between = Range::Between(Bound::Included(Value::Integer(0)), Bound::Included(last));
        assert_eq!(integers(&limit, &[many]), between);
    }

    #[test]
    fn a_value_of_another_class_is_no_bound() {
        let text = Operand::Constant(Value::Text(b"5".to_vec()));
        assert_eq!(integers(&[Limit::Equal(vec![text.clone()])], &[]), Range::Anything);
        assert_eq!(integers(&[Limit::Lower(text, true)], &[]), Range::Anything);
    }
}
