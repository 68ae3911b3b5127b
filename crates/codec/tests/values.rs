//! Properties of the encoding of values and rows.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/values.rs"]
mod values;

use chainify_codec::{
    decode_row, decode_value, row_fields, row_hash, value, DecodeError, Field, Tag, Value, ValueError, VALUE_DEPTH_MAX,
};
use chainify_seeded::check;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn encoded(columns: &[(u16, Value)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Value::encode_row(columns, &mut bytes).unwrap();
    bytes
}

/// NaN differs from itself, its text does not.
fn shown(columns: &[(u16, Value)]) -> String {
    format!("{columns:?}")
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    check(1_000, values::row(), |columns| {
        let bytes = encoded(&columns);
        let back = decode_row(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(shown(&back), shown(&columns));
        prop_assert_eq!(encoded(&back), bytes);
        Ok(())
    });
}

/// No two byte strings stand for the same row: what decodes encodes to the same bytes.
#[test]
fn a_mutated_row_is_refused_or_another_row() {
    let mutation = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    check(1_500, (values::row(), vec(mutation, 1..3)), |(columns, mutations)| {
        let mut bytes = encoded(&columns);
        for (at, byte, how) in mutations {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(back) = decode_row(&bytes) {
            prop_assert_eq!(encoded(&back), bytes);
        }
        Ok(())
    });
}

#[test]
fn any_bytes_are_refused_or_a_row() {
    let bytes = vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..60);
    check(4_000, bytes, |bytes| {
        if let Ok(back) = decode_row(&bytes) {
            prop_assert_eq!(encoded(&back), bytes);
        }
        Ok(())
    });
}

fn fields(bytes: &[u8]) -> Result<Vec<Field<'_>>, DecodeError> {
    row_fields(bytes)?.collect()
}

/// The columns of a row stand one behind the other, and each decodes by itself.
#[test]
fn fields_are_the_columns_of_a_row() {
    check(1_000, values::row(), |columns| {
        let bytes = encoded(&columns);
        let fields = fields(&bytes).unwrap();
        prop_assert_eq!(
            [&bytes[..2], &fields.iter().map(|field| field.encoded).collect::<Vec<_>>().concat()].concat(),
            &bytes[..]
        );
        let decoded: Vec<_> = fields
            .iter()
            .map(|field| {
                assert!(field.encoded.ends_with(field.payload));
                (field.ordinal, decode_value(&field.encoded[2..]).unwrap())
            })
            .collect();
        prop_assert_eq!(shown(&decoded), shown(&columns));
        Ok(())
    });
}

#[test]
fn what_has_no_fields_is_no_row() {
    let bytes = vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..60);
    check(4_000, bytes, |bytes| {
        let decoded = decode_row(&bytes);
        prop_assert!(decoded.is_err() || fields(&bytes).is_ok());
        Ok(())
    });
    let mut row = encoded(&[(1, Value::Bool(true)), (2, Value::Int(3))]);
    assert!(fields(&row).is_ok());
    row.push(0);
    assert_eq!(fields(&row).unwrap_err().what, "more bytes than announced");
    row.truncate(row.len() - 2);
    assert_eq!(fields(&row).unwrap_err().what, "fewer bytes than announced");
    row[1] = 1;
    assert_eq!(fields(&row).unwrap_err().what, "more bytes than announced");
}

/// A row of one value whose frame is right and whose payload is anything.
#[test]
fn any_payload_is_refused_or_a_value() {
    let number = "[-+]?[0-9.eE]{0,4}".prop_map(String::into_bytes);
    let json = "[\\[\\]{}\":,0 ]{0,5}".prop_map(String::into_bytes);
    let bytes = vec(prop_oneof![Just(0u8), 0u8..40], 0..30);
    let tag = prop::sample::select(Tag::ALL.to_vec());
    check(20_000, (tag, prop_oneof![number, json, bytes]), |(tag, payload)| {
        let mut bytes = vec![0, 1, 0, 1, tag as u8, 0, 0, 0, payload.len() as u8];
        bytes.extend(payload);
        if let Ok(back) = decode_row(&bytes) {
            prop_assert_eq!(encoded(&back), bytes);
        }
        Ok(())
    });
}

/// Few letters, so that different rows come close to each other and equal ones occur.
fn near_row() -> impl Strategy<Value = (String, Vec<(u16, Value)>)> {
    let text = "[ab]{0,2}";
    let value = prop_oneof![
        text.prop_map(Value::Text),
        text.prop_map(|text| Value::Bytea(text.into_bytes())),
        text.prop_map(Value::Enum),
        text.prop_map(|text| Value::Other { type_name: "a".into(), text }),
    ];
    ("p\\.[ab]{1,2}", btree_map(1..4u16, value, 0..3).prop_map(|columns| columns.into_iter().collect()))
}

#[test]
fn different_rows_have_different_hashes() {
    check(4_000, (near_row(), near_row()), |((table_a, a), (table_b, b))| {
        let same_hash = row_hash(&table_a, &encoded(&a)) == row_hash(&table_b, &encoded(&b));
        let same_row = table_a == table_b && a == b;
        prop_assert_eq!(same_hash, same_row);
        let different_bytes = a == b || encoded(&a) != encoded(&b);
        prop_assert!(different_bytes);
        Ok(())
    });
}

#[test]
fn text_does_not_move_between_columns() {
    let pair = |a: &str, b: &str| encoded(&[(1, Value::Text(a.into())), (2, Value::Text(b.into()))]);
    assert_ne!(row_hash("public.t", &pair("at", "b")), row_hash("public.t", &pair("a", "tb")));
    let row = pair("a", "b");
    assert_ne!(row_hash("public.t", &row), row_hash("public.tt", &row));
    assert_ne!(row_hash("public.t", b"tat"), row_hash("public.tt", b"at"));
}

#[test]
fn a_null_column_leaves_no_trace() {
    let before = encoded(&[(1, Value::Int(7)), (3, Value::Bool(true))]);
    assert_eq!(decode_row(&before).unwrap(), [(1, Value::Int(7)), (3, Value::Bool(true))]);
    assert_ne!(before, encoded(&[(1, Value::Int(7)), (2, Value::Bool(true))]));
}

fn numeric(text: &str) -> Result<String, ValueError> {
    let mut bytes = Vec::new();
    value::numeric(&mut bytes, text)?;
    Ok(String::from_utf8(bytes[5..].to_vec()).unwrap())
}

/// The model counts in units of 10^-12.
#[test]
fn numeric_text_agrees_with_integer_arithmetic() {
    const UNIT: i128 = 1_000_000_000_000;
    let parts = ("[-+]?", "[0-9]{1,6}", "(\\.[0-9]{1,6})?", prop::option::of(-6i32..=6));
    check(2_000, parts, |(sign, integer, fraction, exponent)| {
        let shown_exponent = exponent.map(|e| format!("e{e}")).unwrap_or_default();
        let text = format!("{sign}{integer}{fraction}{shown_exponent}");
        let digits: i128 = format!("{integer}{}", fraction.trim_start_matches('.')).parse().unwrap();
        let power = 12 - fraction.len().saturating_sub(1) as i32 + exponent.unwrap_or(0);
        let units = digits * 10i128.pow(power as u32);
        let negative = if sign == "-" && units != 0 { "-" } else { "" };
        let padded = format!("{negative}{}.{:012}", units / UNIT, units % UNIT);
        let want = padded.trim_end_matches('0').trim_end_matches('.').to_owned();
        prop_assert_eq!(numeric(&text), Ok(want), "{}", text);
        Ok(())
    });
}

#[test]
fn json_means_the_same_and_has_one_spelling() {
    use serde_json::Value as Json;
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    let json = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Json::from),
            btree_map(any::<String>(), inner, 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    });
    check(400, json, |json| {
        let canonical = |text: &str| {
            let mut bytes = Vec::new();
            value::json(&mut bytes, text).unwrap();
            String::from_utf8(bytes[5..].to_vec()).unwrap()
        };
        let short = canonical(&json.to_string());
        prop_assert_eq!(serde_json::from_str::<Json>(&short).unwrap(), json.clone());
        prop_assert_eq!(canonical(&serde_json::to_string_pretty(&json).unwrap()), short.clone());
        prop_assert_eq!(canonical(&short), short);
        Ok(())
    });
}

#[test]
fn writers_unify_what_postgresql_holds_equal() {
    let bytes = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    assert_eq!(bytes(&|out| value::float(out, -0.0)), bytes(&|out| value::float(out, 0.0)));
    let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
    assert_eq!(bytes(&|out| value::float(out, odd_nan)), bytes(&|out| value::float(out, f64::NAN)));
    assert_eq!(bytes(&|out| value::char(out, " a b  ")), bytes(&|out| value::text(out, " a b")));
}

#[test]
fn writers_refuse_contradictions_and_leave_the_buffer_alone() {
    let mut out = vec![9];
    let int = |out: &mut Vec<u8>| {
        value::int(out, 1);
        Ok::<_, ValueError>(())
    };
    let shape = |result: Result<(), ValueError>| assert!(matches!(result, Err(ValueError::Shape(_))), "{result:?}");
    shape(value::array(&mut out, Tag::Int, &[(2, 1)], |array| array.value(int)));
    shape(value::array(&mut out, Tag::Text, &[(1, 1)], |array| array.value(int)));
    shape(value::array(&mut out, Tag::Int, &[(0, 1)], |_| Ok(())));
    shape(value::array(&mut out, Tag::Int, &[(1, 1); 7], |array| array.value(int)));
    shape(value::composite(&mut out, 2, |fields| fields.field(3, int)));
    shape(value::composite(&mut out, 2, |fields| fields.field(0, int)));
    shape(value::composite(&mut out, 2, |fields| fields.field(1, int).and_then(|()| fields.field(1, int))));
    assert_eq!(value::numeric(&mut out, "1x"), Err(ValueError::Numeric));
    assert!(value::json(&mut out, "[1,").is_err());
    assert_eq!(out, [9]);
}

#[test]
fn decoding_stops_at_its_depth() {
    let nested = |depth: usize| {
        let mut value = Value::Composite { attributes: 1, fields: vec![] };
        for _ in 1..depth {
            value = Value::Composite { attributes: 1, fields: vec![(1, value)] };
        }
        let mut bytes = Vec::new();
        value.encode(&mut bytes).unwrap();
        decode_value(&bytes)
    };
    assert!(nested(VALUE_DEPTH_MAX).is_ok());
    assert_eq!(nested(VALUE_DEPTH_MAX + 1).unwrap_err().what, "nested too deep");
}
