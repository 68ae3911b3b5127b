//! `schemas.json`, which is written by hand: the inputs there give the texts and hashes there.

use chainify_codec::schema::{
    schema_hash_2, schema_text_2, Check, Column, ForeignKey, OnDelete, Operand, Operator, Table,
};
use serde_json::Value as Json;

use crate::values::value_of;
use crate::{hex, list, number, text};

fn names(json: &Json) -> Vec<String> {
    list(json).iter().map(|name| text(name).to_owned()).collect()
}

fn check(json: &Json) -> Check {
    let parts = |name: &str| json.get(name).map(|parts| list(parts).iter().map(check).collect());
    if let Some(parts) = parts("all") {
        return Check::All(parts);
    }
    if let Some(parts) = parts("any") {
        return Check::Any(parts);
    }
    let (column, sign) = (text(&json["column"]).to_owned(), text(&json["operator"]));
    let Some(operator) = Operator::ALL.into_iter().find(|operator| operator.sign() == sign) else {
        return Check::Null { column, is: sign == "is null" };
    };
    let with = match json.get("with") {
        Some(other) => Operand::Column(text(other).to_owned()),
        None => Operand::Value(value_of(&json["value"])),
    };
    Check::Compare { column, operator, with }
}

fn table(json: &Json) -> Table {
    let column = |column: &Json| Column {
        ordinal: number(&column["ordinal"]),
        name: text(&column["name"]).to_owned(),
        logical: text(&column["type"]).to_owned(),
        not_null: column["not_null"].as_bool().unwrap(),
        default: column.get("default").map(value_of),
    };
    let foreign_key = |key: &Json| ForeignKey {
        columns: names(&key["columns"]),
        table: text(&key["table"]).to_owned(),
        refers: names(&key["refers"]),
        on_delete: match key["on_delete"].as_str() {
            Some(" on delete cascade") => OnDelete::Cascade,
            Some(" on delete set null") => OnDelete::SetNull,
            Some(other) => panic!("on_delete {other}"),
            None => OnDelete::Refuse,
        },
    };
    Table {
        name: text(&json["table"]).to_owned(),
        columns: list(&json["columns"]).iter().map(column).collect(),
        primary_key: names(&json["primary_key"]),
        unique: list(&json["unique"]).iter().map(names).collect(),
        foreign_keys: list(&json["foreign_keys"]).iter().map(foreign_key).collect(),
        checks: json.get("checks").map(|checks| list(checks).iter().map(check).collect()).unwrap_or_default(),
    }
}

#[test]
fn schemas_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/schemas.json");
    let vectors: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in list(&vectors["cases"]) {
        let mut table = table(case);
        let found = schema_text_2(&table).unwrap();
        assert_eq!(found, names(&case["schema_text"]).join("\n"), "{}", case["name"]);
        assert_eq!(hex(schema_hash_2(&found)), text(&case["schema_hash"]), "{}", case["name"]);
        table.unique.reverse();
        table.foreign_keys.reverse();
        table.checks.reverse();
        assert_eq!(schema_text_2(&table).unwrap(), found, "{}", case["name"]);
    }
    assert!(list(&vectors["cases"]).len() >= 3);
    for case in list(&vectors["refused"]) {
        assert!(schema_text_2(&table(case)).is_err(), "{}", case["name"]);
    }
}
