//! `values.json` and `rows.json`.

use chainify_codec::value::{self, Bound};
use chainify_codec::{decode_row, decode_value, row_hash, RowWriter, Tag, ValueError};
use serde_json::{json, Value as Json};

use crate::{case, hex, list, number, text, unhex};

type Out = Vec<u8>;
type Result = std::result::Result<(), ValueError>;

/// The encoding of `{type: input}`.
pub(crate) fn value_of(json: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, json).unwrap();
    out
}

/// The row encoding of `[{ordinal, value}]`.
pub(crate) fn row_of(columns: &Json) -> Vec<u8> {
    let mut row = Vec::new();
    let mut writer = RowWriter::begin(&mut row);
    for column in list(columns) {
        writer.column(number(&column["ordinal"]), |out| write(out, &column["value"])).unwrap();
    }
    writer.finish();
    row
}

/// Writes `{type: input}` with the writer of that type.
fn write(out: &mut Out, json: &Json) -> Result {
    let (kind, input) = json.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "boolean" => value::bool(out, input.as_bool().unwrap()),
        "integer" => value::int(out, number(input)),
        "numeric" => value::numeric(out, text(input))?,
        "float" => value::float(out, f64::from_bits(u64::from_str_radix(text(input), 16).unwrap())),
        "text" => value::text(out, text(input)),
        "char" => value::char(out, text(input)),
        "bytea" => value::bytea(out, &unhex(input)),
        "date" => value::date(out, number(input)),
        "time" => value::time(out, number(input)),
        "timestamp" => value::timestamp(out, number(input)),
        "timestamptz" => value::timestamptz(out, number(input)),
        "uuid" => value::uuid(out, &unhex(input).try_into().unwrap()),
        "json" => value::json(out, text(input))?,
        "enum" => value::enum_label(out, text(input)),
        "interval" => {
            value::interval(out, number(&input["months"]), number(&input["days"]), number(&input["micros"]));
        }
        "net" => value::net(out, text(input)),
        "other" => value::other(out, text(&input["name"]), text(&input["text"]))?,
        "array" => write_array(out, input)?,
        "composite" => value::composite(out, number(&input["attributes"]), |fields| {
            list(&input["fields"])
                .iter()
                .try_for_each(|f| fields.field(number(&f["ordinal"]), |out| write(out, &f["value"])))
        })?,
        "range" if input == "empty" => value::empty_range(out),
        "range" => value::range(out, bound(&input["lower"]), bound(&input["upper"]))?,
        "multirange" => value::multirange(out, |ranges| {
            list(input).iter().try_for_each(|r| ranges.range(bound(&r["lower"]), bound(&r["upper"])))
        })?,
        other => panic!("no writer for {other}"),
    }
    Ok(())
}

fn write_array(out: &mut Out, input: &Json) -> Result {
    let element = Tag::from_byte(number(&input["element_tag"])).unwrap();
    let dimensions: Vec<_> =
        list(&input["dimensions"]).iter().map(|d| (number(&d["size"]), number(&d["from"]))).collect();
    value::array(out, element, &dimensions, |elements| {
        list(&input["elements"]).iter().try_for_each(|element| {
            if element.is_null() {
                elements.null();
                return Ok(());
            }
            elements.value(|out| write(out, element))
        })
    })
}

fn bound(end: &Json) -> Bound<impl FnOnce(&mut Out) -> Result + '_> {
    if end.is_null() {
        return Bound::Infinite;
    }
    let write = |out: &mut Out| write(out, &end["value"]);
    match end["inclusive"].as_bool().unwrap() {
        true => Bound::Inclusive(write),
        false => Bound::Exclusive(write),
    }
}

pub(crate) fn values() -> Vec<Json> {
    let int = |v: i64| json!({ "integer": v.to_string() });
    let inputs = [
        ("false", json!({ "boolean": false })),
        ("true", json!({ "boolean": true })),
        ("minus one", int(-1)),
        ("largest bigint", int(i64::MAX)),
        ("smallest bigint", int(i64::MIN)),
        ("numeric, trailing zeros go", json!({ "numeric": "12.3400" })),
        ("numeric, negative zero is zero", json!({ "numeric": "-0.00" })),
        ("numeric, below one", json!({ "numeric": "-0.5" })),
        ("numeric, beyond doubles", json!({ "numeric": "123456789012345678901234567890.123456789" })),
        ("numeric NaN", json!({ "numeric": "NaN" })),
        ("numeric infinity", json!({ "numeric": "-Infinity" })),
        ("float 1.5", json!({ "float": "3ff8000000000000" })),
        ("float, negative zero is zero", json!({ "float": "8000000000000000" })),
        ("float, every NaN is one", json!({ "float": "fff8000000000001" })),
        ("empty text", json!({ "text": "" })),
        ("text", json!({ "text": "at 😀" })),
        ("char without its trailing blanks", json!({ "char": " a  " })),
        ("bytea", json!({ "bytea": "00ff" })),
        ("date 2024-02-29", json!({ "date": "19782" })),
        ("date infinity", json!({ "date": i64::MAX.to_string() })),
        ("time 24:00", json!({ "time": "86400000000" })),
        ("timestamp before 1970", json!({ "timestamp": "-1" })),
        ("timestamptz -infinity", json!({ "timestamptz": i64::MIN.to_string() })),
        ("uuid", json!({ "uuid": "00112233445566778899aabbccddeeff" })),
        (
            "json, keys sorted, last duplicate kept",
            json!({ "json": r#"{"b": [1.0, 2e2], "a": "\u0041\n\/", "b": null}"# }),
        ),
        ("json, keys by UTF-16 code units", json!({ "json": "{\"\u{FB33}\":1,\"\u{1F600}\":2}" })),
        ("json, exact number", json!({ "json": "100000000000000000000000000000000000001" })),
        ("empty array", json!({ "array": { "element_tag": 2, "dimensions": [], "elements": [] } })),
        (
            "array from 0 with a NULL",
            json!({ "array": {
            "element_tag": 5, "dimensions": [{ "size": 2, "from": 0 }], "elements": [{ "text": "a" }, null] } }),
        ),
        (
            "array of 2 by 1",
            json!({ "array": { "element_tag": 2,
            "dimensions": [{ "size": 2, "from": 1 }, { "size": 1, "from": 1 }], "elements": [int(1), int(2)] } }),
        ),
        (
            "composite, second field NULL",
            json!({ "composite": { "attributes": 3,
            "fields": [{ "ordinal": 1, "value": int(7) }, { "ordinal": 3, "value": { "text": "x" } }] } }),
        ),
        ("enum label", json!({ "enum": "happy" })),
        ("interval", json!({ "interval": { "months": 14, "days": -3, "micros": "-1000000" } })),
        ("inet", json!({ "net": "192.168.0.1/24" })),
        ("empty range", json!({ "range": "empty" })),
        (
            "range [1,5)",
            json!({ "range": { "lower": { "inclusive": true, "value": int(1) },
            "upper": { "inclusive": false, "value": int(5) } } }),
        ),
        ("range (,)", json!({ "range": { "lower": null, "upper": null } })),
        (
            "range (,2.5]",
            json!({ "range": { "lower": null,
            "upper": { "inclusive": true, "value": { "numeric": "2.50" } } } }),
        ),
        ("multirange {}", json!({ "multirange": [] })),
        (
            "multirange {[1,2),[4,)}",
            json!({ "multirange": [
            { "lower": { "inclusive": true, "value": int(1) }, "upper": { "inclusive": false, "value": int(2) } },
            { "lower": { "inclusive": true, "value": int(4) }, "upper": null }] }),
        ),
        ("other type", json!({ "other": { "name": "pg_catalog.money", "text": "$1.00" } })),
    ];
    inputs.into_iter().map(|(name, input)| value_case(name, input)).collect()
}

fn value_case(name: &str, input: Json) -> Json {
    let encoded = value_of(&input);
    assert!(decode_value(&encoded).is_ok(), "{name}");
    json!({ "name": name, "value": input, "encoded": hex(encoded) })
}

/// Bytes that no writer makes.
pub(crate) fn refused() -> Vec<Json> {
    let bytes = [
        ("no bytes", ""),
        ("unknown tag", "1300000000"),
        ("NULL outside an array", "0000000000"),
        ("boolean 2", "010000000102"),
        ("integer of seven bytes", "020000000700000000000000"),
        ("length beyond the end", "05000000026f"),
        ("byte after the value", "0500000000ff"),
        ("numeric with a trailing zero", "0300000003312e30"),
        ("numeric with an exponent", "0300000003316533"),
        ("float negative zero", "04000000088000000000000000"),
        ("float, another NaN", "04000000087ff8000000000001"),
        ("text that is not UTF-8", "0500000001ff"),
        ("time after 24:00", "0800000008000000141dd76001"),
        ("json with a space", "0c000000035b205d"),
        ("array, a dimension of size 0", "0d0000000a02010000000000000001"),
        ("array, element of another type", "0d000000100201000000010000000105000000016f"),
        ("array, fewer elements than its size", "0d0000000a02010000000100000001"),
        ("composite, ordinal beyond its attributes", "0e0000000c00010001000201000000 0101"),
        ("range, empty and infinite", "120000000109"),
        ("range, infinite and inclusive", "12000000011a"),
        ("multirange holding an empty range", "120000000a20000000010000000101"),
    ];
    bytes
        .into_iter()
        .map(|(name, encoded)| {
            let encoded = encoded.replace(' ', "");
            assert!(decode_value(&unhex(&json!(encoded))).is_err(), "{name}");
            json!({ "name": name, "encoded": encoded })
        })
        .collect()
}

pub(crate) fn rows() -> Vec<Json> {
    let column = |ordinal: u16, value: Json| json!({ "ordinal": ordinal, "value": value });
    let pair = |a: &str, b: &str| json!([column(1, json!({ "text": a })), column(2, json!({ "text": b }))]);
    let inputs = [
        json!({ "name": "every column NULL", "table": "public.t", "columns": [] }),
        json!({ "name": "at, b", "table": "public.t", "columns": pair("at", "b") }),
        json!({ "name": "a, tb: another row", "table": "public.t", "columns": pair("a", "tb") }),
        json!({ "name": "the first row in another table", "table": "public.tt", "columns": pair("at", "b") }),
        json!({ "name": "column 2 NULL, name unquoted", "table": "Sales.Öl \"x\"", "columns": [
            column(1, json!({ "integer": "42" })), column(3, json!({ "numeric": "10.50" }))] }),
        json!({ "name": "a sequence", "table": "chainify_ledger.sequence", "columns": [
            column(1, json!({ "text": "public.account_id_seq" })), column(2, json!({ "integer": "7" })),
            column(3, json!({ "boolean": true })), column(4, json!({ "integer": "1" })), column(5, json!({ "integer": "1" })),
            column(6, json!({ "integer": "2147483647" })), column(7, json!({ "boolean": false }))] }),
    ];
    inputs.into_iter().map(row_case).collect()
}

fn row_case(input: Json) -> Json {
    let row = row_of(&input["columns"]);
    assert!(decode_row(&row).is_ok());
    let hash = row_hash(text(&input["table"]), &row);
    case(input, json!({ "row": hex(&row), "row_hash": hex(hash) }))
}
