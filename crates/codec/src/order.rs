//! Compares values as their type's default operators do in PostgreSQL, for types whose order
//! depends on the values alone.

use std::cmp::Ordering;

use crate::Value;

impl Value {
    /// How the two compare. Texts compare by their bytes, as under collation C. `None`: they are of
    /// different kinds, or of a kind whose order is not told here. Cost: linear, without a copy.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b))
            | (Self::Date(a), Self::Date(b))
            | (Self::Time(a), Self::Time(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::TimestampTz(a), Self::TimestampTz(b)) => a.cmp(b),
            (Self::Numeric(a), Self::Numeric(b)) => decimal_order(a, b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytea(a), Self::Bytea(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => return None,
        })
    }
}

/// How two canonical decimals compare; NaN comes after all others.
fn decimal_order(a: &str, b: &str) -> Ordering {
    let rank = |text: &str| match text {
        "-Infinity" => 0,
        "Infinity" => 2,
        "NaN" => 3,
        _ => 1,
    };
    rank(a).cmp(&rank(b)).then_with(|| match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (Some(a), Some(b)) => magnitude_order(b, a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => magnitude_order(a, b),
    })
}

/// Without leading zeros the longer integer is the greater one. Digits after the point compare like
/// words, because no zero ends them.
fn magnitude_order(a: &str, b: &str) -> Ordering {
    let split = |text| str::split_once(text, '.').unwrap_or((text, ""));
    let ((a, a_fraction), (b, b_fraction)) = (split(a), split(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then_with(|| a_fraction.cmp(b_fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_ordered_by_number() {
        let ascending = [
            "-Infinity",
            "-100",
            "-20.5",
            "-20.25",
            "-3",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "0.1",
            "0.11",
            "0.9",
            "1",
            "9.99",
            "10",
            "10.5",
            "99",
            "100",
            "Infinity",
            "NaN",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                let order = Value::Numeric(a.to_string()).order(&Value::Numeric(b.to_string()));
                assert_eq!(order, Some(i.cmp(&j)), "{a} and {b}");
            }
        }
    }

    #[test]
    fn other_kinds_are_ordered_by_value() {
        let text = |text: &str| Value::Text(text.to_owned());
        let pairs = [
            (Value::Bool(false), Value::Bool(true)),
            (Value::Int(-1), Value::Int(0)),
            (Value::Date(i64::MIN), Value::Date(-5)),
            (Value::Timestamp(7), Value::Timestamp(i64::MAX)),
            (text("B"), text("a")),
            (text("a"), text("a ")),
            (text("z"), text("é")),
            (Value::Bytea(vec![1, 255]), Value::Bytea(vec![2])),
            (Value::Uuid([0; 16]), Value::Uuid([1; 16])),
        ];
        for (less, greater) in &pairs {
            assert_eq!(less.order(greater), Some(Ordering::Less), "{less:?} and {greater:?}");
            assert_eq!(greater.order(less), Some(Ordering::Greater));
            assert_eq!(less.order(less), Some(Ordering::Equal));
        }
    }

    #[test]
    fn values_of_different_kinds_have_no_order() {
        assert_eq!(Value::Int(1).order(&Value::Numeric("1".to_owned())), None);
        assert_eq!(Value::Date(1).order(&Value::Timestamp(1)), None);
        assert_eq!(Value::Json("1".to_owned()).order(&Value::Json("1".to_owned())), None);
    }
}
