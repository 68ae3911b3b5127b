//! Arbitrary values in canonical form, of every tag, nested.

use chainify_codec::{RangeValue, Tag, Value};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Canonical decimal texts.
fn numeric() -> BoxedStrategy<String> {
    prop_oneof![
        8 => "-?[1-9][0-9]{0,20}(\\.[0-9]{0,5}[1-9])?",
        4 => "-?0\\.[0-9]{0,20}[1-9]",
        1 => Just("0".to_owned()),
        1 => prop::sample::select(vec!["NaN", "Infinity", "-Infinity"]).prop_map(str::to_owned),
    ]
    .boxed()
}

/// Canonical JSON texts.
fn json() -> BoxedStrategy<String> {
    prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1.5",
        "\"\"",
        "\"a\\n\\u0001é😀\"",
        "[]",
        "{}",
        "[1,[2],{\"a\":{}}]",
        "{\"a\":1,\"b\":[null]}",
    ])
    .prop_map(str::to_owned)
    .boxed()
}

fn float() -> BoxedStrategy<f64> {
    prop_oneof![
        any::<f64>().prop_map(|v| if v == 0.0 { 0.0 } else { v }),
        prop::sample::select(vec![f64::NAN, 0.0, f64::INFINITY, f64::NEG_INFINITY, 1.5]),
    ]
    .boxed()
}

fn extreme() -> BoxedStrategy<i64> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -3i64..3].boxed()
}

/// Values of one tag that holds no others.
fn flat(tag: Tag) -> BoxedStrategy<Value> {
    match tag {
        Tag::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Tag::Int => extreme().prop_map(Value::Int).boxed(),
        Tag::Numeric => numeric().prop_map(Value::Numeric).boxed(),
        Tag::Float => float().prop_map(Value::Float).boxed(),
        Tag::Bytea => vec(any::<u8>(), 0..20).prop_map(Value::Bytea).boxed(),
        Tag::Date => extreme().prop_map(Value::Date).boxed(),
        Tag::Time => (0i64..=86_400_000_000).prop_map(Value::Time).boxed(),
        Tag::Timestamp => extreme().prop_map(Value::Timestamp).boxed(),
        Tag::TimestampTz => extreme().prop_map(Value::TimestampTz).boxed(),
        Tag::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        Tag::Json => json().prop_map(Value::Json).boxed(),
        Tag::Enum => ".{0,8}".prop_map(Value::Enum).boxed(),
        Tag::Interval => {
            any::<(i32, i32, i64)>().prop_map(|(months, days, micros)| Value::Interval { months, days, micros }).boxed()
        }
        Tag::Net => "[0-9a-f:./]{1,12}".prop_map(Value::Net).boxed(),
        Tag::Other => (".{0,8}", ".{0,8}").prop_map(|(type_name, text)| Value::Other { type_name, text }).boxed(),
        Tag::Text | Tag::Array | Tag::Composite | Tag::Range => ".{0,12}".prop_map(Value::Text).boxed(),
    }
}

fn flat_tag() -> impl Strategy<Value = Tag> {
    prop::sample::select(Tag::ALL.to_vec())
}

fn range(tag: Tag) -> BoxedStrategy<RangeValue> {
    let end = || prop::option::of((flat(tag).prop_map(Box::new), any::<bool>()));
    (end(), end()).prop_map(|(lower, upper)| RangeValue::Ends { lower, upper }).boxed()
}

/// An array of values that share a tag, with some NULLs, in one or two dimensions.
fn array(element: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    (vec(prop::option::weighted(0.8, element), 0..7), any::<i32>(), any::<bool>())
        .prop_map(|(mut elements, lower_bound, two)| {
            let tag = elements.iter().flatten().next().map_or(Tag::Int, Value::tag);
            elements.retain(|element| element.as_ref().is_none_or(|value| value.tag() == tag));
            let size = elements.len() as u32;
            let dimensions = match (size, two && size.is_multiple_of(2)) {
                (0, _) => vec![],
                (_, false) => vec![(size, lower_bound)],
                (_, true) => vec![(2, lower_bound), (size / 2, 1)],
            };
            Value::Array { element: tag, dimensions, elements }
        })
        .boxed()
}

/// Values of every tag.
pub fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        8 => flat_tag().prop_flat_map(flat),
        1 => Just(Value::Range(RangeValue::Empty)),
        1 => flat_tag().prop_flat_map(range).prop_map(Value::Range),
        1 => flat_tag().prop_flat_map(|tag| vec(range(tag), 0..3)).prop_map(Value::Multirange),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            array(inner.clone()),
            array(flat_tag().prop_flat_map(flat)),
            fields(inner.clone(), 9).prop_map(|fields| Value::Composite { attributes: 9, fields }),
        ]
    })
    .boxed()
}

fn fields(value: BoxedStrategy<Value>, ordinal_max: u16) -> BoxedStrategy<Vec<(u16, Value)>> {
    btree_map(1..=ordinal_max, value, 0..5).prop_map(|columns| columns.into_iter().collect()).boxed()
}

/// Rows with gaps where columns are NULL.
pub fn row() -> BoxedStrategy<Vec<(u16, Value)>> {
    fields(value(), 40)
}
