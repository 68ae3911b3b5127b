//! Reports of parts: what is written is read, what does not fit is refused, and merging gives the
//! root of the whole.

use chainify_codec::{effects_root, leaf, merged_root, sort_changes, Change, KeyedLeaf, Op};
use chainify_ledger::parts::{LeafList, PartOutcome, PartReport, PartRequest};
use proptest::prelude::*;
use prost::Message;

/// A change: table, key, transaction. Keys go to parts by their table and first byte.
fn changes() -> impl Strategy<Value = Vec<(u8, Vec<u8>, u32)>> {
    proptest::collection::vec((0..3u8, proptest::collection::vec(0..3u8, 0..3), 0..40u32), 0..60)
}

const TABLES: [&str; 3] = ["public.a", "public.ab", "public.b"];

fn change(change: &(u8, Vec<u8>, u32)) -> Change<'_> {
    let (table, pk, tx) = change;
    Change { table: TABLES[*table as usize], pk, tx: *tx, op: Op::Update, row_hash: [*tx as u8; 32], serial: 0 }
}

fn report(changes: &mut [Change<'_>]) -> PartReport {
    let mut leaves = LeafList::default();
    for at in sort_changes(changes) {
        let change = &changes[at as usize];
        leaves.push(&KeyedLeaf { table: change.table, pk: change.pk, hash: leaf(change) });
    }
    PartReport { leaves: Some(leaves), ..PartReport::default() }
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    #[test]
    fn parts_merge_into_the_root_of_the_whole(all in changes(), parts in 1..5usize) {
        let part_of = |c: &(u8, Vec<u8>, u32)| (c.0 as usize + c.1.first().copied().unwrap_or(7) as usize) % parts;
        let mut whole: Vec<_> = all.iter().map(change).collect();
        let expected = effects_root(&mut whole).root;
        let reports: Vec<_> = (0..parts)
            .map(|part| {
                let mut of_part: Vec<_> = all.iter().filter(|c| part_of(c) == part).map(change).collect();
                let report = report(&mut of_part);
                PartReport::read(&report.encode_to_vec(), 0).expect("read what was written")
            })
            .collect();
        prop_assert_eq!(merged_root(reports.iter().map(PartReport::leaves)), Some(expected));
        // One key in two parts: serials are unknown.
        let first = reports[0].leaves().next();
        if let Some(leaf) = first {
            let twice = [vec![leaf], vec![leaf]];
            prop_assert_eq!(merged_root(twice.iter().map(|part| part.iter().copied())), None);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let leaf = KeyedLeaf { table: "public.a", pk: b"k", hash: [1; 32] };
    let mut leaves = LeafList::default();
    leaves.push(&leaf);
    let whole = PartReport { outcomes: vec![PartOutcome::default()], leaves: Some(leaves), ..PartReport::default() };
    let broken: [fn(&mut PartReport); 6] = [
        |r| r.outcomes.clear(),
        |r| r.leaves.as_mut().unwrap().counts[0] = 2,
        |r| r.leaves.as_mut().unwrap().tables.clear(),
        |r| r.leaves.as_mut().unwrap().pk_lengths[0] = 9,
        |r| r.leaves.as_mut().unwrap().pks.clear(),
        |r| r.leaves.as_mut().unwrap().hashes.truncate(31),
    ];
    assert_eq!(PartReport::read(&whole.encode_to_vec(), 1).unwrap().leaves().collect::<Vec<_>>(), [leaf]);
    for change in broken {
        let mut report = whole.clone();
        change(&mut report);
        assert!(PartReport::read(&report.encode_to_vec(), 1).is_err(), "{report:?}");
    }
    assert!(PartReport::read(b"\xff", 0).is_err());
    let request =
        PartRequest { members: vec![0, 1], bodies: vec![vec![], vec![]], runs: vec![0, 1], ..PartRequest::default() };
    assert_eq!(PartRequest::read(&request.encode_to_vec()), Ok(request.clone()));
    let broken: [fn(&mut PartRequest); 3] = [|r| r.members.reverse(), |r| r.bodies.truncate(1), |r| r.runs.truncate(1)];
    for change in broken {
        let mut request = request.clone();
        change(&mut request);
        assert!(PartRequest::read(&request.encode_to_vec()).is_err(), "{request:?}");
    }
}
