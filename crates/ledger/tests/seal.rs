//! Sealing a block: the running state is that of a full scan (L4), however the block was divided;
//! parts that met are refused.

use std::collections::BTreeMap;

use chainify_codec::{effects_root, leaf, sort_changes, Change, KeyedLeaf, LaneHasher, Lanes, Op};
use chainify_ledger::messages::Kind;
use chainify_ledger::parts::{LeafList, Net, PartOutcome, PartReport};
use chainify_ledger::seal::{add, deploys, merge, nets, outcomes, KnownStates, Step, TableState};
use chainify_ledger::Outcomes;
use proptest::prelude::*;

const TABLES: [&str; 2] = ["public.a", "public.b"];

/// Of each table its rows, by key.
type Rows = BTreeMap<(usize, u8), Vec<u8>>;

/// A change: table, key, and the row that it leaves.
type Write = (usize, u8, Option<u8>);

fn writes() -> impl Strategy<Value = Vec<Write>> {
    proptest::collection::vec((0..2usize, 0..6u8, proptest::option::of(0..3u8)), 0..40)
}

/// A step: table, key, the row before and after.
type Made = (usize, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn row(value: u8) -> Vec<u8> {
    vec![b'r', value]
}

fn scanned(rows: &Rows) -> Vec<TableState> {
    let mut states: Vec<TableState> = (0..TABLES.len())
        .map(|table| TableState {
            table_id: table as i32,
            name: TABLES[table].into(),
            schema: [table as u8; 32],
            rows: 0,
            lanes: Lanes::zero(),
        })
        .collect();
    for ((table, _), row) in rows {
        states[*table].rows += 1;
        states[*table].lanes.add(TABLES[*table], row);
    }
    states
}

/// Makes the writes, and gives their steps sorted by row.
fn made(rows: &mut Rows, writes: &[Write]) -> Vec<Made> {
    let mut steps = Vec::new();
    for (table, key, value) in writes {
        let before = rows.remove(&(*table, *key));
        let after = value.map(row);
        rows.extend(after.clone().map(|row| ((*table, *key), row)));
        if before.is_some() || after.is_some() {
            steps.push((*table, vec![*key], before, after));
        }
    }
    steps.sort_by_key(|(table, key, ..)| (*table, key.clone()));
    steps
}

fn nets_of(steps: &[Made]) -> Vec<Net> {
    let hashers = TABLES.map(LaneHasher::new);
    nets(steps.iter().map(|(table, pk, before, after)| Step {
        table_id: *table as i32,
        table: TABLES[*table],
        pk,
        hasher: &hashers[*table],
        before: before.as_deref(),
        after: after.as_deref(),
    }))
}

fn root(states: &[TableState], definitions: Option<(&str, [u8; 32])>) -> [u8; 32] {
    KnownStates::default().root(states, definitions)
}

fn same(left: &[TableState], right: &[TableState]) -> bool {
    root(left, None) == root(right, None) && left.iter().map(|s| s.rows).eq(right.iter().map(|s| s.rows))
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    #[test]
    fn the_running_state_is_that_of_a_full_scan(before in writes(), block in writes(), parts in 1..4u8) {
        let mut rows = Rows::new();
        made(&mut rows, &before);
        let mut running = scanned(&rows);
        let mut reported = Vec::new();
        for part in 0..parts {
            let of_part: Vec<Write> = block.iter().copied().filter(|(_, key, _)| key % parts == part).collect();
            reported.extend(nets_of(&made(&mut rows, &of_part)));
        }
        let changed = add(&mut running, &reported).unwrap();
        prop_assert!(same(&running, &scanned(&rows)));
        for at in 0..TABLES.len() {
            let told = reported.iter().any(|net| net.table_id == at as i32);
            prop_assert_eq!(changed.contains(&at), told, "what changed is written, and nothing else");
        }
    }

    /// Ten changes of a row cost what one does, and none when it ends as it began.
    #[test]
    fn what_lies_between_cancels_out(block in writes()) {
        let mut rows = Rows::new();
        let steps = made(&mut rows, &block);
        let ends: Vec<_> = steps.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1))
            .map(|of| (of[0].0, of[0].1.clone(), of[0].2.clone(), of[of.len() - 1].3.clone()))
            .collect();
        prop_assert_eq!(nets_of(&steps), nets_of(&ends));
        let undone: Vec<_> = ends.into_iter().map(|(table, pk, before, _)| (table, pk, before.clone(), before)).collect();
        prop_assert_eq!(nets_of(&undone), vec![]);
    }
}

#[test]
fn a_new_version_of_a_table_counts_from_there() {
    let hasher = LaneHasher::new("public.a");
    let step = |table_id, before, after| Step { table_id, table: "public.a", pk: b"k", hasher: &hasher, before, after };
    let found = nets([step(1, None, Some(b"x" as &[u8])), step(2, Some(b"x"), Some(b"y"))]);
    assert_eq!(found.iter().map(|net| (net.table_id, net.rows)).collect::<Vec<_>>(), [(1, 1), (2, 0)]);
}

#[test]
fn a_detached_table_is_left_out_and_malformed_lanes_are_refused() {
    let mut states = scanned(&Rows::new());
    let lanes = Lanes::zero().to_bytes().to_vec();
    let of = |table_id, lanes| Net { table_id, rows: 1, lanes };
    assert_eq!(add(&mut states, &[of(7, lanes.clone())]).unwrap(), Vec::<usize>::new());
    assert_eq!(add(&mut states, &[of(1, lanes)]).unwrap(), [1]);
    assert_eq!((states[0].rows, states[1].rows), (0, 1));
    assert_eq!(add(&mut states, &[of(1, vec![1])]).unwrap_err().to_string(), "lanes of a part: malformed");
}

#[test]
fn the_root_has_definitions_once_there_are_some() {
    let states = scanned(&Rows::new());
    let roots = [
        root(&states, None),
        root(&states, Some(("definitions", [1; 32]))),
        root(&states, Some(("definitions", [2; 32]))),
        root(&states[1..], None),
    ];
    let distinct: std::collections::BTreeSet<_> = roots.iter().collect();
    assert_eq!(distinct.len(), roots.len());
}

#[test]
fn what_is_known_of_a_table_never_stands_for_another_state() {
    let states = scanned(&Rows::from([((0, 1), row(1)), ((1, 1), row(2))]));
    let changes: [fn(&mut TableState); 5] = [
        |s| s.name.push('c'),
        |s| s.schema[31] ^= 1,
        |s| s.rows += 1,
        |s| s.lanes.merge(&scanned(&Rows::from([((0, 2), row(0))]))[0].lanes),
        |s| s.table_id += 7, // another table that has its state
    ];
    let mut known = KnownStates::default();
    assert_eq!(known.root(&states, None), root(&states, None));
    for change in changes {
        let mut changed = states.clone();
        change(&mut changed[1]);
        assert_eq!(known.root(&changed, None), root(&changed, None));
        assert_eq!(known.root(&states[..1], None), root(&states[..1], None));
        assert_eq!(known.root(&states, None), root(&states, None));
    }
}

/// A change: table, key, transaction.
type Keyed<'c> = (&'c str, &'c [u8], u32);

fn report(changes: &[Keyed<'_>], rows: &[u64]) -> PartReport {
    let mut changes: Vec<Change<'_>> = changes.iter().map(|c| change(c)).collect();
    let mut leaves = LeafList::default();
    for at in sort_changes(&mut changes) {
        let change = &changes[at as usize];
        leaves.push(&KeyedLeaf { table: change.table, pk: change.pk, hash: leaf(change) });
    }
    let outcomes = rows.iter().map(|rows| PartOutcome { rows: *rows, ..PartOutcome::default() }).collect();
    let nets = vec![Net { table_id: rows[0] as i32, rows: 0, lanes: vec![] }];
    PartReport { outcomes, leaves: Some(leaves), nets, ..PartReport::default() }
}

fn change<'c>((table, pk, tx): &Keyed<'c>) -> Change<'c> {
    Change { table, pk, tx: *tx, op: Op::Update, row_hash: [*tx as u8; 32], serial: 0 }
}

#[test]
fn outcomes_come_in_block_order_and_changes_under_one_root() {
    let left: [Keyed; 2] = [("public.a", b"1", 0), ("public.a", b"1", 3)];
    let right: [Keyed; 1] = [("public.a", b"2", 1)];
    let members = [vec![0, 3], vec![1, 2]];
    let merged = merge(&members, vec![report(&left, &[10, 13]), report(&right, &[11, 12])]).unwrap();
    assert_eq!(merged.outcomes.iter().map(|o| o.rows).collect::<Vec<_>>(), [10, 11, 12, 13]);
    assert_eq!(merged.nets.iter().map(|n| n.table_id).collect::<Vec<_>>(), [10, 11]);
    let mut whole: Vec<Change<'_>> = left.iter().chain(&right).map(change).collect();
    let whole = effects_root(&mut whole);
    assert_eq!((merged.effects_root, merged.effects_count), (whole.root, 3));
}

#[test]
fn parts_that_changed_the_same_row_are_not_merged() {
    let one: [Keyed; 1] = [("public.a", b"1", 0)];
    let other: [Keyed; 1] = [("public.a", b"1", 1)];
    assert_eq!(merge(&[vec![0], vec![1]], vec![report(&one, &[1]), report(&other, &[1])]), None);
}

#[test]
fn a_bit_for_each_transaction_that_succeeded() {
    let succeeded: Vec<bool> = (0..19).map(|at| at % 3 == 0).collect();
    let found = outcomes(&succeeded);
    let expected = |at: u32| found.succeeded(at) == Some(succeeded[at as usize]);
    assert!((0..19).all(expected));
    assert_eq!(found.count(), 19);
    assert_eq!(outcomes(&[]), Outcomes::failed(0));
}

#[test]
fn a_deploy_that_failed_changes_no_definitions() {
    let (sql, deploy) = (Kind::Sql as i32, Kind::Deploy as i32);
    assert!(deploys([sql, deploy], &[false, true]));
    assert!(!deploys([sql, deploy], &[true, false]));
    assert!(!deploys([sql, sql], &[true, true]));
}
