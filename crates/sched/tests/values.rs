//! Encodings of values keep their order and are prefix-free; templates lose no row.

use std::cmp::Ordering;

use chainify_sched::template::{Access, Fit, KeyLimits, Limit, Operand, Template, Touched};
use chainify_sched::value::{encode, Class, Value};
use chainify_sched::{AccessSet, Place, Target};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes(class: Class, value: &Value) -> Vec<u8> {
    let mut out = vec![0xab];
    assert!(encode(class, value, &mut out), "{value:?} is of class {class:?}");
    assert_eq!(out.remove(0), 0xab, "what was there stays");
    out
}

/// Order of the encodings, which must not be prefixes of each other.
fn compare(class: Class, a: &Value, b: &Value) -> Ordering {
    let (a, b) = (bytes(class, a), bytes(class, b));
    assert!(a == b || !(a.starts_with(&b) || b.starts_with(&a)), "{a:02x?} and {b:02x?}");
    a.cmp(&b)
}

fn decimal(unscaled: i64, scale: usize) -> Value {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (integer, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    Value::Decimal(format!("{sign}{integer}{point}{fraction}"))
}

/// Integers of all sizes, close to each other often enough.
fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -300i64..300, Just(i64::MIN), Just(i64::MAX), any::<i64>().prop_map(|i| i >> 40)]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(b' '), Just(b'a'), 1u8..=255], 0..6)
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    #[test]
    fn integers_keep_their_order(a in integer(), b in integer()) {
        prop_assert_eq!(compare(Class::Integer, &Value::Integer(a), &Value::Integer(b)), a.cmp(&b));
        prop_assert_eq!(compare(Class::Timestamp, &Value::Timestamp(a), &Value::Timestamp(b)), a.cmp(&b));
        prop_assert_eq!(compare(Class::Instant, &Value::Instant(a), &Value::Instant(b)), a.cmp(&b));
        let (a, b) = (a as i32, b as i32);
        prop_assert_eq!(compare(Class::Date, &Value::Date(a), &Value::Date(b)), a.cmp(&b));
    }

    #[test]
    fn decimals_keep_their_order(a in integer(), b in integer(), places in (0usize..25, 0usize..25)) {
        // As whole numbers of the smallest unit: exact, where a division would round.
        let unit = |n: i64, places: usize| i128::from(n).checked_mul(10i128.pow((24 - places) as u32));
        let (Some(x), Some(y)) = (unit(a >> 16, places.0), unit(b >> 16, places.1)) else { return Ok(()) };
        let (a, b) = (decimal(a >> 16, places.0), decimal(b >> 16, places.1));
        prop_assert_eq!(compare(Class::Decimal, &a, &b), x.cmp(&y), "{:?} and {:?}", a, b);
    }

    #[test]
    fn integers_are_decimals(a in integer(), b in integer()) {
        prop_assert_eq!(compare(Class::Decimal, &Value::Integer(a), &decimal(b, 0)), a.cmp(&b));
        prop_assert_eq!(bytes(Class::Decimal, &Value::Integer(a)), bytes(Class::Decimal, &Value::Decimal(format!("{a}.000"))));
    }

    #[test]
    fn texts_keep_the_order_of_bytes(a in text(), b in text()) {
        prop_assert_eq!(compare(Class::Text, &Value::Text(a.clone()), &Value::Text(b.clone())), a.cmp(&b));
        let trimmed = |text: &[u8]| text.iter().rposition(|byte| *byte != b' ').map_or(vec![], |last| text[..=last].to_vec());
        let padded = compare(Class::Padded, &Value::Text(a.clone()), &Value::Text(b.clone()));
        prop_assert_eq!(padded, trimmed(&a).cmp(&trimmed(&b)));
    }

    #[test]
    fn byte_strings_keep_their_order(a in vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..6), b in vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..6)) {
        prop_assert_eq!(compare(Class::Bytes, &Value::Bytes(a.clone()), &Value::Bytes(b.clone())), a.cmp(&b));
    }
}

#[test]
fn special_values_have_their_places() {
    let text = |text: &str| Value::Decimal(text.to_owned());
    let ascending = [
        "-Infinity",
        "-12.5",
        "-1",
        "-0.5",
        "-0.005",
        "0",
        "0.005",
        "0.05",
        "1",
        "9.99",
        "10",
        "1e",
        "Infinity",
        "NaN",
    ];
    let ascending: Vec<Value> = ascending.iter().filter(|text| !text.ends_with('e')).map(|t| text(t)).collect();
    for pair in ascending.windows(2) {
        assert_eq!(compare(Class::Decimal, &pair[0], &pair[1]), Ordering::Less, "{pair:?}");
    }
    for same in ["-0", "0.000", "-0.00"] {
        assert_eq!(bytes(Class::Decimal, &text(same)), bytes(Class::Decimal, &text("0")));
    }
    for (class, value) in [(Class::Bool, Value::Bool(true)), (Class::Uuid, Value::Uuid([255; 16]))] {
        assert_eq!(compare(class, &value, &Value::Null), Ordering::Less, "NULL comes last");
    }
    assert_eq!(compare(Class::Bool, &Value::Bool(false), &Value::Bool(true)), Ordering::Less);
}

#[test]
fn a_value_of_another_class_is_refused() {
    let values = [
        Value::Bool(true),
        Value::Integer(1),
        Value::Decimal("1".into()),
        Value::Text(b"1".to_vec()),
        Value::Bytes(b"1".to_vec()),
        Value::Uuid([0; 16]),
        Value::Date(1),
        Value::Timestamp(1),
        Value::Instant(1),
        Value::Symbol(1),
        Value::Array(vec![]),
        Value::Opaque,
    ];
    for class in [Class::Integer, Class::Bytes, Class::Timestamp, Class::Instant, Class::Date, Class::Symbol] {
        let fitting = values.iter().filter(|value| encode(class, value, &mut Vec::new()));
        assert_eq!(fitting.count(), 1, "{class:?}");
    }
    let mut out = vec![7];
    for text in ["", "1e5", "x", "1.x", "-", ".5"] {
        assert!(!encode(Class::Decimal, &Value::Decimal(text.into()), &mut out), "{text}");
    }
    assert_eq!(out, [7]);
}

/// A condition on columns a and b, and whether it holds for values.
#[derive(Clone, Debug)]
struct Condition {
    column: usize,
    limit: Limit,
}

fn limit() -> impl Strategy<Value = Limit> {
    let value =
        || prop_oneof![9 => (-3i64..3).prop_map(Value::Integer), 1 => Just(Value::Null), 1 => Just(Value::Opaque)];
    let element = |array, at| Operand::At(Box::new(Operand::Given(array)), Box::new(Operand::Constant(at)));
    let operand = move || {
        prop_oneof![
            3 => value().prop_map(Operand::Constant),
            3 => (0usize..4).prop_map(Operand::Given),
            1 => (0usize..4, value()).prop_map(move |(array, at)| element(array, at)),
        ]
    };
    prop_oneof![
        vec(operand(), 1..4).prop_map(Limit::Equal),
        vec(operand(), 1..3).prop_map(Limit::Is),
        (vec(value(), 0..30), any::<bool>())
            .prop_map(|(values, or_null)| Limit::Element(Operand::Constant(Value::Array(values)), or_null)),
        (0usize..4, any::<bool>()).prop_map(|(array, or_null)| Limit::Element(Operand::Given(array), or_null)),
        (operand(), any::<bool>()).prop_map(|(operand, closed)| Limit::Lower(operand, closed)),
        (operand(), any::<bool>()).prop_map(|(operand, closed)| Limit::Upper(operand, closed)),
    ]
}

fn value_of<'v>(operand: &'v Operand, given: &'v [Value]) -> &'v Value {
    match operand {
        Operand::Constant(value) => value,
        Operand::Given(number) => given.get(*number).unwrap_or(&Value::Opaque),
        Operand::At(array, number) => match (value_of(array, given), value_of(number, given)) {
            (Value::Null, _) | (Value::Array(_), Value::Null) => &Value::Null,
            (Value::Array(elements), Value::Integer(number)) => {
                usize::try_from(number - 1).ok().and_then(|at| elements.get(at)).unwrap_or(&Value::Null)
            }
            _ => &Value::Opaque,
        },
        Operand::Fitted(..) => unreachable!("not drawn"),
    }
}

/// Whether a column may have a value, by a limit: the dumb model.
fn allows(limit: &Limit, value: &Value, given: &[Value]) -> bool {
    let order = |operand: &Operand| match (value, value_of(operand, given)) {
        (_, Value::Opaque) => None,
        (Value::Integer(a), Value::Integer(b)) => Some(Some(a.cmp(b))),
        _ => Some(None),
    };
    let equal = |operand: &Operand| order(operand).is_none_or(|order| order == Some(Ordering::Equal));
    match limit {
        Limit::Equal(operands) => operands.iter().any(equal),
        Limit::Is(operands) => operands.iter().any(|o| [value, &Value::Opaque].contains(&value_of(o, given))),
        Limit::Element(array, or_null) => {
            let found = match value_of(array, given) {
                Value::Array(values) => values.iter().any(|element| equal(&Operand::Constant(element.clone()))),
                Value::Null => false,
                _ => true,
            };
            found || (*or_null && *value == Value::Null)
        }
        Limit::Lower(operand, closed) => {
            order(operand).is_none_or(|o| o == Some(Ordering::Greater) || (*closed && o == Some(Ordering::Equal)))
        }
        Limit::Upper(operand, closed) => {
            order(operand).is_none_or(|o| o == Some(Ordering::Less) || (*closed && o == Some(Ordering::Equal)))
        }
    }
}

/// Keys (a), (a, b) and (b, a).
const KEYS: [&[usize]; 3] = [&[0], &[0, 1], &[1, 0]];

fn limits_of(conditions: &[Condition]) -> Vec<KeyLimits> {
    let of_column = |column: &usize| {
        let limits = conditions.iter().filter(|c| c.column == *column).map(|c| c.limit.clone());
        (Class::Integer, limits.collect::<Vec<_>>())
    };
    let keys = KEYS.iter().zip(0..).map(|(columns, key)| {
        let known: Vec<_> = columns.iter().map(of_column).take_while(|(_, limits)| !limits.is_empty()).collect();
        KeyLimits { key, complete: known.len() == columns.len(), columns: known }
    });
    keys.filter(|limits| !limits.columns.is_empty()).collect()
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    /// S5: every row that the conditions allow is in a place of the filled template.
    #[test]
    fn a_filled_template_covers_every_row_allowed(
        conditions in vec((0usize..2, limit()).prop_map(|(column, limit)| Condition { column, limit }), 0..4),
        given in vec(prop_oneof![5 => (-3i64..3).prop_map(Value::Integer), 1 => Just(Value::Null), 1 => Just(Value::Opaque)], 0..4),
    ) {
        let mut template = Template::default();
        template.add(Access { target: Target::Rows(1), write: true, touched: Touched::All, limits: limits_of(&conditions) });
        let set = template.fill(&given);
        let values: Vec<Value> = (-4..4).map(Value::Integer).chain([Value::Null]).collect();
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
            let row = [a, b];
            if !conditions.iter().all(|c| allows(&c.limit, row[c.column], &given)) {
                continue;
            }
            // An access to this very row, by all keys, meets the set.
            let at: Vec<_> = KEYS.iter().zip(0..).map(|(columns, key)| {
                let value: Vec<u8> = columns.iter().flat_map(|c| bytes(Class::Integer, row[*c])).collect();
                (key, chainify_sched::Interval::point(value))
            }).collect();
            let mut one = AccessSet::new();
            one.read(Target::Rows(1), Place::within(at).expect("one value for each key"));
            prop_assert!(!one.dependencies_on(&set).0.is_empty(), "({a:?}, {b:?}) is not in {set:?}");
        }
    }
}

#[test]
fn equality_excludes_other_values() {
    let at = |operand: Operand| {
        let limits =
            KeyLimits { key: 0, columns: vec![(Class::Text, vec![Limit::Equal(vec![operand])])], complete: true };
        let mut template = Template::default();
        template.add(Access { target: Target::Rows(1), write: true, touched: Touched::All, limits: vec![limits] });
        template
    };
    let text = |text: &str| vec![Value::Text(text.into())];
    let depend = |a: &AccessSet, b: &AccessSet| !a.dependencies_on(b).0.is_empty();
    let (exact, fitted) = (at(Operand::Given(0)), at(Operand::Fitted(Box::new(Operand::Given(0)), Fit::Characters(2))));
    assert!(!depend(&exact.fill(&text("a")), &exact.fill(&text("b"))));
    assert!(!depend(&exact.fill(&text("a")), &exact.fill(&text("aa"))));
    assert!(!depend(&fitted.fill(&text("a")), &fitted.fill(&text("b"))));
    assert!(depend(&fitted.fill(&text("abc")), &fitted.fill(&text("x"))), "a cut text may be any");
    assert_eq!(exact.fill(&[Value::Null]), AccessSet::new(), "NULL finds nothing");
}
