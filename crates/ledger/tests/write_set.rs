//! Write sets: one spelling, and each refusal names its place.

#[path = "../../codec/tests/support/values.rs"]
mod values;

use chainify_seeded::check;
use std::collections::{BTreeMap, BTreeSet};

use chainify_codec::{value, Value};
use chainify_ledger::messages::{Client, Kind, Parameter, Proposal};
use chainify_ledger::write_set::{Action, Bound, Change, End, Isolation, Read, SeenRow, WriteSet};
use chainify_ledger::write_set::{BOUNDS_MAX, READS_MAX, TABLES_MAX, WRITE_SET_BYTES_MAX};
use chainify_ledger::{decode_proposal, WireError};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;

const NULL: [u8; 5] = [0; 5];

fn encoded(columns: &[(u16, Value)]) -> Vec<u8> {
    let mut row = Vec::new();
    Value::encode_row(columns, &mut row).expect("generated columns are canonical");
    row
}

fn row() -> impl Strategy<Value = Vec<u8>> {
    values::row().prop_filter("a row has a column", |columns| !columns.is_empty()).prop_map(|columns| encoded(&columns))
}

fn cells() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let cell = prop::option::of(values::value()).prop_map(|value| match value {
        None => NULL.to_vec(),
        Some(value) => {
            let mut bytes = Vec::new();
            value.encode(&mut bytes).expect("generated values are canonical");
            bytes
        }
    });
    btree_map(1..=u16::MAX, cell, 1..4).prop_map(|cells| cells.into_iter().collect())
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        row().prop_map(|row| Action::Insert { row }),
        (any::<[u8; 32]>(), row(), cells()).prop_map(|(before, key, cells)| Action::Update { before, key, cells }),
        (any::<[u8; 32]>(), row()).prop_map(|(before, key)| Action::Delete { before, key }),
    ]
}

fn bounds() -> impl Strategy<Value = Vec<Bound>> {
    let end = (0..3u8, values::value()).prop_map(|(kind, value)| {
        let mut bytes = Vec::new();
        value.encode(&mut bytes).expect("generated values are canonical");
        [End::None, End::Open(bytes.clone()), End::Closed(bytes)][usize::from(kind)].clone()
    });
    let ends = (end.clone(), end).prop_filter("a bound has an end", |ends| *ends != (End::None, End::None));
    btree_map(1..=u16::MAX, ends, 0..4)
        .prop_map(|of| of.into_iter().map(|(ordinal, (lower, upper))| Bound { ordinal, lower, upper }).collect())
}

/// Places stand for tables, of which those that are used stay.
fn write_set() -> impl Strategy<Value = WriteSet> {
    let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
    let head = (any::<u64>(), prop::sample::select(isolation.to_vec()));
    let tables = btree_set("[a-z]{1,3}\\.[^\0]{1,3}", 1..5);
    let changes = vec((any::<Index>(), action()), 0..5);
    let seen = vec((any::<Index>(), row(), any::<Option<[u8; 32]>>()), 0..5);
    let reads = vec((any::<Index>(), bounds()), 0..4);
    (head, tables, changes, seen, reads)
        .prop_map(|(head, tables, changes, seen, reads)| of(head, tables, changes, seen, reads))
        .prop_filter("a write set has a change, a row seen or a read", |set| !set.tables.is_empty())
}

fn of(
    (snapshot, isolation): (u64, Isolation),
    tables: BTreeSet<String>,
    changes: Vec<(Index, Action)>,
    seen: Vec<(Index, Vec<u8>, Option<[u8; 32]>)>,
    mut reads: Vec<(Index, Vec<Bound>)>,
) -> WriteSet {
    reads.retain(|_| isolation == Isolation::Serializable);
    let places = changes.iter().map(|(at, _)| at).chain(seen.iter().map(|(at, ..)| at));
    let places = places.chain(reads.iter().map(|(at, _)| at));
    let used: BTreeSet<usize> = places.map(|at| at.index(tables.len())).collect();
    let table = |at: &Index| used.range(..at.index(tables.len())).count() as u16;
    let seen: BTreeMap<_, _> = seen.iter().map(|(at, key, hash)| ((table(at), key.clone()), *hash)).collect();
    let reads = reads.iter().map(|(at, bounds)| Read { table: table(at), bounds: bounds.clone() });
    WriteSet {
        snapshot,
        isolation,
        reads: ascending(reads.collect()),
        changes: changes.iter().map(|(at, action)| Change { table: table(at), action: action.clone() }).collect(),
        seen: seen.into_iter().map(|((table, key), hash)| SeenRow { table, key, hash }).collect(),
        tables: tables.iter().enumerate().filter(|(i, _)| used.contains(i)).map(|(_, name)| name.clone()).collect(),
    }
}

/// As the format orders reads: by their bytes, each once.
fn ascending(mut reads: Vec<Read>) -> Vec<Read> {
    let bytes = |read: &Read| WriteSet { reads: vec![read.clone()], ..example() }.encode();
    reads.sort_by_key(bytes);
    reads.dedup();
    reads
}

fn mutated(mut bytes: Vec<u8>, mutations: &[(Index, u8, u8)]) -> Vec<u8> {
    for (at, byte, how) in mutations {
        let at = at.index(bytes.len() + 1);
        match (how, bytes.get_mut(at)) {
            (0, Some(place)) => *place = *byte,
            (1, Some(place)) => *place ^= 1 << (byte % 8),
            (2, _) => bytes.insert(at, *byte),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn a_write_set_comes_back_as_it_went() {
    check(1_000, write_set(), |set| {
        prop_assert_eq!(WriteSet::decode(&set.encode()), Ok(set));
        Ok(())
    });
}

#[test]
fn a_write_set_has_one_spelling() {
    let mutations = vec((any::<Index>(), any::<u8>(), 0..4u8), 1..3);
    check(2_000, (write_set(), mutations), |(set, mutations)| {
        let bytes = mutated(set.encode(), &mutations);
        match (WriteSet::decode_structure(&bytes), WriteSet::decode(&bytes)) {
            (Ok(set), Ok(same)) => prop_assert_eq!((&set, set.encode()), (&same, bytes)),
            (Ok(set), Err(error)) => prop_assert_eq!((set.check_values(), set.encode()), (Err(error), bytes)),
            (Err(error), refused) => {
                prop_assert!(error.field.starts_with("effects"), "{}", error);
                prop_assert_eq!(refused, Err(error));
            }
        }
        Ok(())
    });
}

fn int(n: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    value::int(&mut bytes, n);
    bytes
}

fn key(n: i64) -> Vec<u8> {
    encoded(&[(1, Value::Int(n))])
}

fn insert(table: u16, row: Vec<u8>) -> Change {
    Change { table, action: Action::Insert { row } }
}

fn update(key: Vec<u8>, cells: Vec<(u16, Vec<u8>)>) -> Change {
    Change { table: 0, action: Action::Update { before: [1; 32], key, cells } }
}

/// One change of each kind, a row seen and one that was not there.
fn example() -> WriteSet {
    WriteSet {
        snapshot: 7,
        isolation: Isolation::RepeatableRead,
        tables: vec!["public.a".into(), "public.b".into()],
        changes: vec![
            insert(1, key(5)),
            update(key(1), vec![(2, int(3)), (3, NULL.to_vec())]),
            Change { table: 1, action: Action::Delete { before: [2; 32], key: key(6) } },
        ],
        seen: vec![
            SeenRow { table: 0, key: key(1), hash: Some([1; 32]) },
            SeenRow { table: 1, key: key(9), hash: None },
        ],
        reads: vec![],
    }
}

fn bound(ordinal: u16, lower: End, upper: End) -> Bound {
    Bound { ordinal, lower, upper }
}

/// The example with one read of a whole table, and one within two bounds.
fn with_reads() -> WriteSet {
    let bounds = vec![bound(1, End::Closed(int(3)), End::Open(int(9))), bound(4, End::None, End::Closed(int(7)))];
    let reads = vec![Read { table: 0, bounds: vec![] }, Read { table: 1, bounds }];
    WriteSet { isolation: Isolation::Serializable, reads, ..example() }
}

fn refusal(bytes: &[u8]) -> WireError {
    WriteSet::decode(bytes).expect_err("the bytes are no write set")
}

/// The example with one difference, and the field that the error names.
fn refused(field: &str, differ: impl FnOnce(&mut WriteSet)) {
    refused_of(example(), field, differ);
}

fn refused_of(mut set: WriteSet, field: &str, differ: impl FnOnce(&mut WriteSet)) {
    differ(&mut set);
    let bytes = set.encode();
    let error = refusal(&bytes);
    assert_eq!(error.field, field, "{error}");
    assert_eq!(WriteSet::decode_structure(&bytes), Err(error));
}

/// The same where no more than a value's payload is wrong: the order lets it pass.
fn refused_by_value(field: &str, differ: impl FnOnce(&mut WriteSet)) {
    let mut set = with_reads();
    differ(&mut set);
    let error = refusal(&set.encode());
    assert_eq!(error.field, field, "{error}");
    assert_eq!(WriteSet::decode_structure(&set.encode()), Ok(set));
}

#[test]
fn the_example_decodes() {
    assert_eq!(WriteSet::decode(&example().encode()), Ok(example()));
    assert_eq!(WriteSet::decode(&with_reads().encode()), Ok(with_reads()));
}

#[test]
fn tables_are_named_once_in_order_and_used() {
    refused("effects.tables", |set| set.tables.clear());
    refused("effects.tables", |set| set.tables = (0..=TABLES_MAX).map(|i| format!("public.t{i:04}")).collect());
    refused("effects.tables[1]", |set| set.tables.swap(0, 1));
    refused("effects.tables[1]", |set| set.tables[1] = set.tables[0].clone());
    refused("effects.tables[2]", |set| set.tables.push("public.c".into()));
    for name in ["", "a", ".a", "a.", "..", "a.\0", &format!("a.{}", "b".repeat(126))] {
        refused("effects.tables[0]", |set| set.tables[0] = name.into());
    }
    refused("effects.changes[0].table", |set| set.changes[0].table = 2);
    refused("effects.seen[1].table", |set| set.seen[1].table = 2);
}

#[test]
fn a_write_set_has_a_change_or_a_row_seen() {
    refused("effects.tables[0]", |set| {
        set.changes.clear();
        set.seen.clear();
    });
    for (changes, seen) in [(true, false), (false, true)] {
        let mut set = example();
        set.changes.retain(|_| changes);
        set.seen.retain(|_| seen);
        assert_eq!(WriteSet::decode(&set.encode()), Ok(set));
    }
}

#[test]
fn rows_and_keys_have_a_column() {
    let value = [1, 0, 0, 0, 1, 1];
    let two = |first: u8, second: u8| [&[0, 2, 0, first][..], &value, &[0, second], &value].concat();
    let unknown = vec![0, 1, 0, 1, 0x13, 0, 0, 0, 0];
    let null = vec![0, 1, 0, 1, 0, 0, 0, 0, 0];
    let long = vec![0, 1, 0, 1, 1, 0, 0, 0, 2, 1];
    let trailing = [&key(1)[..], &[0]].concat();
    for bad in [encoded(&[]), vec![], vec![0, 1], two(0, 1), two(1, 1), two(2, 1), unknown, null, long, trailing] {
        refused("effects.changes[0].row", |set| set.changes[0] = insert(1, bad.clone()));
        refused("effects.changes[1].pk", |set| set.changes[1] = update(bad.clone(), vec![(2, int(3))]));
        let delete = Action::Delete { before: [2; 32], key: bad.clone() };
        refused("effects.changes[2].pk", |set| set.changes[2].action = delete);
        refused("effects.seen[0].pk", |set| set.seen[0].key = bad);
    }
}

#[test]
fn values_are_canonical() {
    let bad = [&[0, 1, 0, 1, 3][..], &[0, 0, 0, 2], b"01"].concat();
    refused_by_value("effects.changes[0].row", |set| set.changes[0] = insert(1, bad.clone()));
    refused_by_value("effects.changes[1].pk", |set| set.changes[1] = update(bad.clone(), vec![(2, int(3))]));
    let delete = Action::Delete { before: [2; 32], key: bad.clone() };
    refused_by_value("effects.changes[2].pk", |set| set.changes[2].action = delete);
    refused_by_value("effects.seen[0].pk", |set| set.seen[0].key = bad);
    for value in [vec![1, 0, 0, 0, 1, 2], vec![2, 0, 0, 0, 1, 2], vec![5, 0, 0, 0, 1, 0xff]] {
        let (lower, upper) = (End::Closed(value.clone()), End::Open(value.clone()));
        refused_by_value("effects.reads[1].bounds[0].lower", |set| set.reads[1].bounds[0].lower = lower);
        refused_by_value("effects.reads[1].bounds[0].upper", |set| set.reads[1].bounds[0].upper = upper);
        refused_by_value("effects.changes[1].cells", |set| set.changes[1] = update(key(1), vec![(2, value)]));
    }
}

#[test]
fn cells_ascend_and_have_known_tags() {
    let cells: [&[(u16, Vec<u8>)]; 6] = [
        &[],
        &[(0, int(3))],
        &[(2, int(3)), (2, int(3))],
        &[(3, int(3)), (2, int(3))],
        &[(2, vec![0, 0, 0, 0, 1, 9])],
        &[(2, vec![0x13, 0, 0, 0, 0])],
    ];
    for cells in cells {
        refused("effects.changes[1].cells", |set| set.changes[1] = update(key(1), cells.to_vec()));
    }
}

#[test]
fn rows_seen_ascend() {
    refused("effects.seen[1]", |set| set.seen.swap(0, 1));
    refused("effects.seen[1]", |set| set.seen[1] = set.seen[0].clone());
    refused("effects.seen[1]", |set| set.seen[1] = SeenRow { table: 0, key: key(0), hash: None });
    // The same key in another table is another row.
    let mut set = example();
    set.seen[1].key = key(1);
    assert_eq!(WriteSet::decode(&set.encode()), Ok(set));
}

#[test]
fn reads_are_of_serializable_alone_and_ascend() {
    let refused = |field: &str, differ: &dyn Fn(&mut WriteSet)| refused_of(with_reads(), field, differ);
    refused("effects.reads", &|set| set.isolation = Isolation::RepeatableRead);
    refused("effects.reads", &|set| set.isolation = Isolation::ReadCommitted);
    refused("effects.reads[1]", &|set| set.reads.swap(0, 1));
    refused("effects.reads[1]", &|set| set.reads[1] = set.reads[0].clone());
    refused("effects.reads[1].table", &|set| set.reads[1].table = 2);
    let many = |count: u16| (0..count).map(|i| bound(1, End::Open(int(i.into())), End::None));
    let reads = |count| ascending(many(count).map(|bound| Read { table: 0, bounds: vec![bound] }).collect());
    refused("effects.reads", &|set| set.reads = reads(READS_MAX as u16 + 1));
    let mut most = with_reads();
    most.reads = reads(READS_MAX as u16);
    assert_eq!(WriteSet::decode(&most.encode()), Ok(most));
}

#[test]
fn bounds_ascend_and_have_an_end() {
    let refused = |field: &str, bounds: Vec<Bound>| refused_of(with_reads(), field, |set| set.reads[1].bounds = bounds);
    let seven = || End::Closed(int(7));
    for first in [0, 4, 5] {
        let field = if first == 0 { "bounds[0]" } else { "bounds[1]" };
        let bounds = vec![bound(first, seven(), End::None), bound(4, End::None, seven())];
        refused(&format!("effects.reads[1].{field}.ordinal"), bounds);
    }
    refused("effects.reads[1].bounds[0].upper", vec![bound(1, End::None, End::None)]);
    for value in [NULL.to_vec(), vec![0x13, 0, 0, 0, 0], vec![], vec![1, 0, 0, 0, 1]] {
        refused("effects.reads[1].bounds[0].upper", vec![bound(1, seven(), End::Open(value))]);
    }
    refused("effects.reads[1].bounds[0].lower", vec![bound(1, End::Closed(NULL.to_vec()), End::None)]);
    let many = |count| (1..=count).map(|ordinal| bound(ordinal, seven(), End::None)).collect::<Vec<_>>();
    refused("effects.reads[1].bounds", many(BOUNDS_MAX as u16 + 1));
    let mut most = with_reads();
    most.reads[1].bounds = many(BOUNDS_MAX as u16);
    assert_eq!(WriteSet::decode(&most.encode()), Ok(most));
}

#[test]
fn a_table_may_be_used_by_a_read_alone() {
    let set = WriteSet { changes: vec![], seen: vec![], ..with_reads() };
    assert_eq!(WriteSet::decode(&set.encode()), Ok(set));
    refused_of(with_reads(), "effects.tables[1]", |set| {
        set.changes.clear();
        set.seen.clear();
        set.reads.truncate(1);
    });
}

/// Where a fixed field of the example stands, and bytes that it refuses.
#[test]
fn fixed_fields_have_few_values() {
    let good = example().encode();
    let changes = 1 + 8 + 1 + 2 + 2 * (4 + 8);
    let op = changes + 4 + 2;
    let present = good.len() - 4 - 1;
    let places = [
        (0, vec![0, 2], "effects.version"),
        (9, vec![0, 4], "effects.isolation"),
        (16, vec![0xff], "effects.tables[0]"), // not UTF-8
        (op, vec![b'i', 0, b'T'], "effects.changes[0].op"),
        (present, vec![2, 255], "effects.seen[1].present"),
    ];
    for (at, values, field) in places {
        for value in values {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(refusal(&bytes).field, field);
        }
    }
}

/// Counts that promise more than there is must cost nothing.
#[test]
fn counts_are_checked_before_use() {
    let good = example().encode();
    let tables = 10;
    let changes = 1 + 8 + 1 + 2 + 2 * (4 + 8);
    let cells = good.windows(4).position(|at| at == [0, 2, 0, 2]).expect("two cells, from column 2");
    let reads = good.len() - 4;
    let seen = reads - (4 + 2 * (2 + 4 + 17 + 1) + 32);
    for (at, bytes, field) in [
        (tables, &[3, 0xe8][..], "effects.tables"),
        (changes, &[0xff; 4], "effects.changes"),
        (changes, &[0, 0, 1, 0], "effects.changes"),
        (cells, &[0xff; 2], "effects.changes[1].cells"),
        (seen, &[0xff; 4], "effects.seen"),
        (seen, &[0, 0, 0, 9], "effects.seen"),
        (reads, &[0xff; 4], "effects.reads"),
        (reads, &[0, 0, 0, 1], "effects.reads"),
    ] {
        let mut counted = good.clone();
        counted[at..at + bytes.len()].copy_from_slice(bytes);
        let error = refusal(&counted);
        assert_eq!(error.field, field, "{error}");
        assert!(error.what.contains("do not fit"), "{error}");
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_refused() {
    let good = example().encode();
    for length in 0..good.len() {
        assert!(WriteSet::decode(&good[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(refusal(&[&good[..], &[0]].concat()).field, "effects");
    let error = refusal(&vec![1; WRITE_SET_BYTES_MAX + 1]);
    assert_eq!((error.field.as_str(), error.what.as_str()), ("effects", "longer than 524288 bytes"));
}

/// More than a field counts does not decode as something else.
#[test]
fn counts_beyond_their_fields_are_refused() {
    refused("effects.tables", |set| set.tables = vec!["a.b".into(); 65_537]);
    refused("effects.changes[1].cells", |set| {
        let cells = (0..=u16::MAX).map(|i| (i, NULL.to_vec())).chain([(1, NULL.to_vec())]);
        set.changes[1] = update(key(1), cells.collect());
    });
}

fn proposal(kind: Kind) -> Proposal {
    let client = Client { organisation: "bank-a".into(), role: "clerk".into(), key: vec![] };
    Proposal { chain_id: "trade-1".into(), client: Some(client), kind: kind as i32, ..Proposal::default() }
}

#[test]
fn effects_are_there_exactly_in_their_kind() {
    let effects = Proposal { effects: example().encode(), ..proposal(Kind::Effects) };
    assert_eq!(decode_proposal(&effects.encode_to_vec()), Ok(effects.clone()));
    let statements = Proposal { sql: "SELECT 1".into(), ..proposal(Kind::Sql) };
    assert_eq!(decode_proposal(&statements.encode_to_vec()), Ok(statements.clone()));
    let bytes = example().encode();
    let cut = bytes[..bytes.len() - 1].to_vec();
    for (proposal, field) in [
        (Proposal { effects: vec![], ..effects.clone() }, "proposal.effects"),
        (Proposal { effects: cut, ..effects.clone() }, "proposal.effects.reads"),
        (Proposal { sql: "SELECT 1".into(), ..effects.clone() }, "proposal.sql"),
        (Proposal { parameters: vec![Parameter::default()], ..effects.clone() }, "proposal.parameters"),
        (Proposal { kind: Kind::Sql as i32, ..effects.clone() }, "proposal.effects"),
        (Proposal { kind: Kind::Deploy as i32, sql: "x".into(), ..effects.clone() }, "proposal.effects"),
        (Proposal { kind: Kind::Governance as i32, ..effects }, "proposal.kind"),
    ] {
        assert_eq!(decode_proposal(&proposal.encode_to_vec()).map_err(|error| error.field), Err(field.into()));
    }
}
