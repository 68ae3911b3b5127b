//! `write_sets.json`.

use chainify_ledger::write_set::{Action, Bound, Change, End, Isolation, Read, SeenRow, WriteSet};
use chainify_ledger::write_set::{BOUNDS_MAX, READS_MAX, TABLES_MAX, WRITE_SET_BYTES_MAX};
use chainify_ledger::WireError;
use serde_json::{json, Value as Json};

use crate::values::{row_of, value_of};
use crate::{case, hash, hex, list, number, text, unhex};

const NULL: [u8; 5] = [0; 5];

fn write_set(json: &Json) -> WriteSet {
    WriteSet {
        snapshot: number(&json["snapshot"]),
        isolation: [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
            [number::<usize>(&json["isolation"]) - 1],
        tables: list(&json["tables"]).iter().map(|name| text(name).to_owned()).collect(),
        changes: list(&json["changes"]).iter().map(change).collect(),
        seen: list(&json["seen"]).iter().map(seen).collect(),
        reads: list(&json["reads"]).iter().map(read).collect(),
    }
}

fn change(json: &Json) -> Change {
    let before = || hash(&json["before"]);
    let action = match text(&json["op"]) {
        "I" => Action::Insert { row: row_of(&json["row"]) },
        "U" => Action::Update {
            before: before(),
            key: row_of(&json["pk"]),
            cells: list(&json["cells"]).iter().map(cell).collect(),
        },
        "D" => Action::Delete { before: before(), key: row_of(&json["pk"]) },
        op => panic!("no change {op}"),
    };
    Change { table: number(&json["table"]), action }
}

fn cell(json: &Json) -> (u16, Vec<u8>) {
    let value = if json["value"].is_null() { NULL.to_vec() } else { value_of(&json["value"]) };
    (number(&json["ordinal"]), value)
}

fn seen(json: &Json) -> SeenRow {
    let found = Some(&json["row_hash"]).filter(|found| !found.is_null());
    SeenRow { table: number(&json["table"]), key: row_of(&json["pk"]), hash: found.map(hash) }
}

fn read(json: &Json) -> Read {
    let end = |json: &Json| match (json.get("open"), json.get("closed")) {
        (Some(value), _) => End::Open(value_of(value)),
        (_, Some(value)) => End::Closed(value_of(value)),
        _ => End::None,
    };
    let bound = |json: &Json| Bound {
        ordinal: number(&json["ordinal"]),
        lower: end(&json["lower"]),
        upper: end(&json["upper"]),
    };
    Read { table: number(&json["table"]), bounds: list(&json["bounds"]).iter().map(bound).collect() }
}

fn int(n: i64) -> Json {
    json!({ "integer": n.to_string() })
}

fn column(ordinal: u16, value: Json) -> Json {
    json!({ "ordinal": ordinal, "value": value })
}

fn key(n: i64) -> Json {
    json!([column(1, int(n))])
}

/// A change of each kind, a row seen and one that was not there, two reads.
fn whole() -> Json {
    json!({
        "snapshot": "41", "isolation": 3, "tables": ["public.account", "public.transfer"],
        "changes": [
            { "table": 1, "op": "I", "row": [column(1, int(5)), column(2, json!({ "text": "rent" }))] },
            { "table": 0, "op": "U", "before": hex([1; 32]), "pk": key(42),
                "cells": [column(2, json!({ "numeric": "10.5" })), column(3, Json::Null)] },
            { "table": 1, "op": "D", "before": hex([2; 32]), "pk": key(4) },
        ],
        "seen": [
            { "table": 0, "pk": key(42), "row_hash": hex([1; 32]) },
            { "table": 1, "pk": key(9), "row_hash": null },
        ],
        "reads": [
            { "table": 0, "bounds": [] },
            { "table": 1, "bounds": [
                { "ordinal": 1, "lower": { "closed": int(3) }, "upper": { "open": int(9) } },
                { "ordinal": 4, "lower": null, "upper": { "closed": { "date": "19782" } } }] },
        ],
    })
}

pub(crate) fn example() -> WriteSet {
    write_set(&whole())
}

fn of_changes(isolation: u8, table: &str, changes: Json) -> Json {
    json!({ "snapshot": "0", "isolation": isolation, "tables": [table], "changes": changes, "seen": [], "reads": [] })
}

fn with_member(mut set: Json, name: &str, value: Json) -> Json {
    set[name] = value;
    set
}

pub(crate) fn cases() -> Vec<Json> {
    let pair = json!([column(1, json!({ "text": "a" })), column(3, json!({ "uuid": "00".repeat(16) }))]);
    let kinds = json!([
        column(1, json!({ "boolean": true })),
        column(2, json!({ "json": "{\"a\": [1.50, null]}" })),
        column(
            7,
            json!({ "array": { "element_tag": 5, "dimensions": [{ "size": 2, "from": 1 }],
            "elements": [{ "text": "x" }, null] } })
        ),
        column(65_535, json!({ "other": { "name": "money", "text": "$1.00" } })),
    ]);
    let again = json!([
        { "table": 0, "op": "I", "row": key(1) },
        { "table": 0, "op": "U", "before": hex([3; 32]), "pk": key(1), "cells": [column(2, int(7))] },
        { "table": 0, "op": "D", "before": hex([4; 32]), "pk": key(1) },
        { "table": 0, "op": "I", "row": key(1) },
    ]);
    let locked = json!({ "snapshot": u64::MAX.to_string(), "isolation": 2, "tables": ["a.b"], "changes": [],
        "seen": [{ "table": 0, "pk": key(0), "row_hash": hex([0; 32]) }, { "table": 0, "pk": key(1), "row_hash": null }],
        "reads": [] });
    let read = json!({ "snapshot": "9", "isolation": 3, "tables": ["public.a", "public.b"], "changes": [], "seen": [],
        "reads": [{ "table": 0, "bounds": [] }, { "table": 1, "bounds": [] }] });
    let nine = |one: Json| Json::Array(vec![one; 9]);
    let empty = json!([column(1, json!({ "text": "" }))]);
    let nulls = (1..10).map(|ordinal| column(ordinal, Json::Null)).collect::<Json>();
    let emptied = json!([{ "table": 0, "op": "U", "before": hex([6; 32]), "pk": key(1), "cells": nulls }]);
    let absent =
        (1..10).map(|ordinal| json!({ "table": 0, "pk": [column(ordinal, json!({ "text": "" }))], "row_hash": null }));
    let tables = (b'a'..=b'i').map(|letter| format!("a.{}", char::from(letter))).collect::<Json>();
    let all = (0..9).map(|table| json!({ "table": table, "bounds": [] })).collect::<Json>();
    let smallest = [
        ("the smallest changes", of_changes(1, "a.b", nine(json!({ "table": 0, "op": "I", "row": empty })))),
        ("the smallest cells", of_changes(1, "a.b", emptied)),
        ("the smallest rows seen", with_member(of_changes(1, "a.b", json!([])), "seen", absent.collect())),
        ("the smallest reads", with_member(with_member(of_changes(3, "", json!([])), "tables", tables), "reads", all)),
    ];
    let inputs = [
        ("an insert before block 1", of_changes(1, "public.t", json!([{ "table": 0, "op": "I", "row": key(1) }]))),
        ("a change of each kind, rows seen, reads", whole()),
        ("a row that changes again and again", of_changes(2, "public.t", again)),
        ("values of several types", of_changes(1, "public.t", json!([{ "table": 0, "op": "I", "row": kinds }]))),
        (
            "a key of two columns, a name with dots and quotes",
            of_changes(1, "Öl.x \".", json!([{ "table": 0, "op": "D", "before": hex([5; 32]), "pk": pair }])),
        ),
        ("rows locked and nothing changed", locked),
        ("reads alone", read),
    ];
    inputs.into_iter().chain(smallest).map(|(name, set)| write_set_case(name, set)).collect()
}

fn write_set_case(name: &str, input: Json) -> Json {
    let set = write_set(&input);
    let encoded = set.encode();
    assert_eq!(WriteSet::decode(&encoded), Ok(set), "{name}");
    case(json!({ "name": name, "write_set": input }), json!({ "encoded": hex(encoded) }))
}

fn with(differ: impl FnOnce(&mut WriteSet)) -> Vec<u8> {
    let mut set = example();
    differ(&mut set);
    set.encode()
}

/// The example with other bytes at a place.
fn spelled(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut out = example().encode();
    out[at..at + bytes.len()].copy_from_slice(bytes);
    out
}

fn row_with(value: &str) -> Vec<u8> {
    unhex(&json!(format!("00010001{value}")))
}

fn insert(row: Vec<u8>) -> Vec<u8> {
    with(|set| set.changes[0].action = Action::Insert { row })
}

fn cells(cells: &[(u16, &[u8])]) -> Vec<u8> {
    let cells = cells.iter().map(|(ordinal, value)| (*ordinal, value.to_vec())).collect();
    with(|set| set.changes[1].action = Action::Update { before: [1; 32], key: row_of(&key(42)), cells })
}

fn bounds(bounds: Vec<Bound>) -> Vec<u8> {
    with(|set| set.reads[1].bounds = bounds)
}

fn bound(ordinal: u16, lower: End) -> Bound {
    Bound { ordinal, lower, upper: End::None }
}

type Refused = (&'static str, Vec<u8>, &'static str);

/// Bytes that no decoder takes, with the field that an error names.
pub(crate) fn refused() -> Vec<Json> {
    let mut all = heads();
    all.extend(tables());
    all.extend(changes());
    all.extend(seen_and_reads());
    long().iter().for_each(|(name, bytes, field)| {
        check_refused(name, bytes, field);
    });
    all.into_iter().map(|(name, bytes, field)| refused_case(name, &bytes, field)).collect()
}

fn check_refused(name: &str, bytes: &[u8], field: &str) {
    let error = WriteSet::decode_structure(bytes).expect_err(name);
    assert_eq!(error.field, field, "{name}: {error}");
}

fn refused_case(name: &str, bytes: &[u8], field: &str) -> Json {
    check_refused(name, bytes, field);
    json!({ "name": name, "encoded": hex(bytes), "field": field })
}

/// Too long for a file that people read: checked here only.
fn long() -> Vec<Refused> {
    let read = |n: i64| Read { table: 0, bounds: vec![bound(1, End::Open(value_of(&int(n))))] };
    let tables = (0..=TABLES_MAX).map(|i| format!("public.t{i:04}")).collect();
    vec![
        ("524,289 bytes", vec![1; WRITE_SET_BYTES_MAX + 1], "effects"),
        ("1,001 tables", with(|set| set.tables = tables), "effects.tables"),
        ("1,025 reads", with(|set| set.reads = (0..=READS_MAX as i64).map(read).collect()), "effects.reads"),
    ]
}

fn heads() -> Vec<Refused> {
    let good = example().encode();
    let tables_at = 10;
    let changes_at = tables_at + 2 + 4 + "public.account".len() + 4 + "public.transfer".len();
    vec![
        ("no bytes", vec![], "effects.version"),
        ("version 0", spelled(0, &[0]), "effects.version"),
        ("version 2", spelled(0, &[2]), "effects.version"),
        ("isolation 0", spelled(9, &[0]), "effects.isolation"),
        ("isolation 4", spelled(9, &[4]), "effects.isolation"),
        ("cut off in the last bound", good[..good.len() - 1].to_vec(), "effects.reads[1].bounds[1].upper"),
        ("a byte too many", [&good[..], &[0]].concat(), "effects"),
        ("more tables than there are bytes", spelled(tables_at, &[3, 0xe8]), "effects.tables"),
        ("more changes than there are bytes", spelled(changes_at, &[0xff; 4]), "effects.changes"),
        ("a change that is no change", spelled(changes_at + 6, b"T"), "effects.changes[0].op"),
    ]
}

fn tables() -> Vec<Refused> {
    let named = |name: &str| with(|set| set.tables[0] = name.to_owned());
    let first_name = 10 + 2 + 4;
    vec![
        ("no table", with(|set| set.tables.clear()), "effects.tables"),
        ("tables that descend", with(|set| set.tables.swap(0, 1)), "effects.tables[1]"),
        ("a table twice", with(|set| set.tables[1] = set.tables[0].clone()), "effects.tables[1]"),
        ("a table that nothing uses", with(|set| set.tables.push("public.z".into())), "effects.tables[2]"),
        ("an empty name", named(""), "effects.tables[0]"),
        ("a name without a dot", named("account"), "effects.tables[0]"),
        ("a dot alone", named("."), "effects.tables[0]"),
        ("a dot at the start", named(".account"), "effects.tables[0]"),
        ("a dot at the end", named("public."), "effects.tables[0]"),
        ("a name with a zero byte", named("a.b\0"), "effects.tables[0]"),
        ("a name of 128 bytes", named(&format!("a.{}", "b".repeat(126))), "effects.tables[0]"),
        ("a name that is not UTF-8", spelled(first_name, &[0xff]), "effects.tables[0]"),
        ("a change of table 2 of 2", with(|set| set.changes[0].table = 2), "effects.changes[0].table"),
        ("a row seen of table 2 of 2", with(|set| set.seen[1].table = 2), "effects.seen[1].table"),
        ("a read of table 2 of 2", with(|set| set.reads[1].table = 2), "effects.reads[1].table"),
    ]
}

fn changes() -> Vec<Refused> {
    let one = value_of(&int(1));
    let two = |first: u8, second: u8| [&[0, 2, 0, first][..], &one, &[0, second], &one].concat();
    let trailing = [row_of(&key(1)), vec![0]].concat();
    vec![
        ("an empty row", insert(vec![]), "effects.changes[0].row"),
        ("a row without columns", insert(vec![0, 0]), "effects.changes[0].row"),
        ("a row of fewer columns than it says", insert(vec![0, 1]), "effects.changes[0].row"),
        ("column 0", insert(two(0, 1)), "effects.changes[0].row"),
        ("a column twice", insert(two(1, 1)), "effects.changes[0].row"),
        ("columns that descend", insert(two(2, 1)), "effects.changes[0].row"),
        ("a NULL in a row", insert(row_with("0000000000")), "effects.changes[0].row"),
        ("an unknown tag", insert(row_with("1300000000")), "effects.changes[0].row"),
        ("a value beyond its row", insert(row_with("05000000026f")), "effects.changes[0].row"),
        ("a byte after the row", insert(trailing), "effects.changes[0].row"),
        ("no cells", cells(&[]), "effects.changes[1].cells"),
        ("the cell of column 0", cells(&[(0, &one)]), "effects.changes[1].cells"),
        ("cells that descend", cells(&[(3, &one), (2, &one)]), "effects.changes[1].cells"),
        ("a cell twice", cells(&[(2, &one), (2, &NULL)]), "effects.changes[1].cells"),
        ("a NULL with a payload", cells(&[(2, &[0, 0, 0, 0, 1, 9])]), "effects.changes[1].cells"),
        ("a cell with an unknown tag", cells(&[(2, &[0x7e, 0, 0, 0, 0])]), "effects.changes[1].cells"),
    ]
}

fn seen_and_reads() -> Vec<Refused> {
    let seven = || End::Closed(value_of(&int(7)));
    let many = (1..=BOUNDS_MAX as u16 + 1).map(|ordinal| bound(ordinal, seven())).collect();
    let committed = |set: &mut WriteSet| set.isolation = Isolation::ReadCommitted;
    let only_reads = |set: &mut WriteSet| {
        set.reads.truncate(1);
        set.changes.clear();
        set.seen.clear();
    };
    let at = |bytes: &[u8]| example().encode().windows(bytes.len()).position(|some| some == bytes).unwrap();
    let present = at(&[&row_of(&key(9))[..], &[0]].concat()) + row_of(&key(9)).len();
    let upper = at(&[0, 4, 0, 2, 7]) + 3;
    vec![
        ("rows seen that descend", with(|set| set.seen.swap(0, 1)), "effects.seen[1]"),
        ("a row seen twice", with(|set| set.seen[1] = set.seen[0].clone()), "effects.seen[1]"),
        ("a key seen without columns", with(|set| set.seen[0].key = vec![0, 0]), "effects.seen[0].pk"),
        ("presence 2", spelled(present, &[2]), "effects.seen[1].present"),
        ("reads in READ COMMITTED", with(committed), "effects.reads"),
        ("reads that descend", with(|set| set.reads.swap(0, 1)), "effects.reads[1]"),
        ("a read twice", with(|set| set.reads[1] = set.reads[0].clone()), "effects.reads[1]"),
        ("a table that only a lost read used", with(only_reads), "effects.tables[1]"),
        ("a bound without ends", bounds(vec![bound(1, End::None)]), "effects.reads[1].bounds[0].upper"),
        ("an end of another kind", spelled(upper, &[3]), "effects.reads[1].bounds[1].upper"),
        ("a bound of NULL", bounds(vec![bound(1, End::Open(NULL.to_vec()))]), "effects.reads[1].bounds[0].lower"),
        ("the bound of column 0", bounds(vec![bound(0, seven())]), "effects.reads[1].bounds[0].ordinal"),
        (
            "bounds that descend",
            bounds(vec![bound(2, seven()), bound(1, seven())]),
            "effects.reads[1].bounds[1].ordinal",
        ),
        ("17 bounds", bounds(many), "effects.reads[1].bounds"),
    ]
}

/// Bytes that the order takes and an execution refuses: a value is not canonical.
pub(crate) fn failing() -> Vec<Json> {
    let two = [1, 0, 0, 0, 1, 2];
    let not_canonical = row_with("0300000003312e30");
    let key = not_canonical.clone();
    let cases = [
        ("numeric with a trailing zero", insert(not_canonical), "effects.changes[0].row"),
        ("integer of seven bytes", insert(row_with("020000000700000000000000")), "effects.changes[0].row"),
        ("json with a space", insert(row_with("0c000000035b205d")), "effects.changes[0].row"),
        ("text that is not UTF-8 in a cell", cells(&[(2, &[5, 0, 0, 0, 1, 0xff])]), "effects.changes[1].cells"),
        (
            "a deleted key that is not canonical",
            with(|set| set.changes[2].action = Action::Delete { before: [2; 32], key: key.clone() }),
            "effects.changes[2].pk",
        ),
        ("a key seen that is not canonical", with(|set| set.seen[1].key = key.clone()), "effects.seen[1].pk"),
        ("boolean 2 as a bound", bounds(vec![bound(1, End::Open(two.to_vec()))]), "effects.reads[1].bounds[0].lower"),
    ];
    let case = |(name, bytes, field): (&str, Vec<u8>, &str)| {
        let set = WriteSet::decode_structure(&bytes).expect(name);
        let error: WireError = set.check_values().expect_err(name);
        assert_eq!((error.field.as_str(), WriteSet::decode(&bytes)), (field, Err(error.clone())), "{name}");
        json!({ "name": name, "encoded": hex(bytes), "field": field })
    };
    cases.into_iter().map(case).collect()
}
