//! Properties of the hashes over rows: lanes, effects and the Merkle tree, each against a dumb
//! model.

use chainify_seeded::check;
use std::collections::BTreeMap;

use chainify_codec::{
    effects_root, hex, leaf, merkle, state_root, table_state, Change, Hash, LaneHasher, Lanes, Op, LANES_BYTES,
};
use proptest::collection::vec;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn rows() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..30), 0..12)
}

#[test]
fn lanes_forget_the_order_of_rows() {
    check(200, (rows(), any::<u64>()), |(rows, seed)| {
        let (mut forward, mut shuffled, mut halves) = (Lanes::zero(), Lanes::zero(), (Lanes::zero(), Lanes::zero()));
        let hasher = LaneHasher::new("public.t");
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|i| (*i as u64 + 1).wrapping_mul(seed | 1));
        for (i, row) in rows.iter().enumerate() {
            forward.add("public.t", row);
            hasher.add(if i % 2 == 0 { &mut halves.0 } else { &mut halves.1 }, row);
        }
        order.iter().for_each(|i| hasher.add(&mut shuffled, &rows[*i]));
        halves.0.merge(&halves.1);
        prop_assert_eq!(&forward, &shuffled);
        prop_assert_eq!(&forward, &halves.0);
        prop_assert_eq!(Lanes::from_bytes(&forward.to_bytes()), Some(forward));
        Ok(())
    });
}

#[test]
fn a_row_that_goes_leaves_the_lanes_as_they_were() {
    check(200, (rows(), vec(any::<u8>(), 0..30)), |(rows, row)| {
        let mut lanes = Lanes::zero();
        rows.iter().for_each(|row| lanes.add("public.t", row));
        let before = lanes.clone();
        lanes.add("public.t", &row);
        prop_assert_ne!(&lanes, &before);
        lanes.sub("public.t", &row);
        prop_assert_eq!(&lanes, &before);
        lanes.add("public.t", &row);
        lanes.sub("public.u", &row); // the same row of another table is another row
        prop_assert_ne!(&lanes, &before);
        Ok(())
    });
}

/// The model reads BLAKE3's output itself.
#[test]
fn lanes_are_little_endian_words_of_the_expanded_row() {
    let mut xof = blake3::Hasher::new().update(b"chainify/state/1\0\0\0\x08public.trow").finalize_xof();
    let mut once = [0u8; LANES_BYTES];
    xof.fill(&mut once);
    let mut lanes = Lanes::zero();
    lanes.add("public.t", b"row");
    assert_eq!(lanes.to_bytes(), once);
    lanes.add("public.t", b"row");
    for (twice, once) in lanes.to_bytes().chunks(2).zip(once.chunks(2)) {
        let word = |bytes: &[u8]| u16::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(word(twice), word(once).wrapping_mul(2));
    }
    assert_eq!(Lanes::from_bytes(&[0; LANES_BYTES - 1]), None);
}

#[test]
fn the_state_root_sorts_tables_and_covers_each() {
    let state = |name: &str, rows: u64| table_state(name, &[7; 32], rows, &Lanes::zero());
    let (a, b) = (state("public.a", 1), state("public.b", 2));
    assert_eq!(state_root([("public.a", a), ("public.b", b)]), state_root([("public.b", b), ("public.a", a)]));
    assert_ne!(state_root([("public.a", a)]), state_root([("public.a", a), ("public.b", b)]));
    assert_ne!(state("public.a", 1), state("public.a", 2));
}

/// RFC 9162, section 2.1.1, word for word.
fn model_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest(b"").into(),
        [leaf] => *leaf,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            let (left, right) = leaves.split_at(split);
            Sha256::new()
                .chain_update([1])
                .chain_update(model_root(left))
                .chain_update(model_root(right))
                .finalize()
                .into()
        }
    }
}

fn hashes(count: usize) -> Vec<Hash> {
    (0..count).map(|i| Sha256::digest(i.to_be_bytes()).into()).collect()
}

#[test]
fn merkle_roots_and_proofs_agree_with_the_definition() {
    for count in 0..34 {
        let leaves = hashes(count);
        let root = merkle::root(&leaves);
        assert_eq!(root, model_root(&leaves), "{count} leaves");
        assert_eq!(merkle::prove(&leaves, count), None);
        for (i, leaf) in leaves.iter().enumerate() {
            let proof = merkle::prove(&leaves, i).unwrap();
            assert_eq!(proof.len(), merkle::proof_length(i as u64, count as u64), "leaf {i} of {count}");
            let holds = |leaf, index: usize, size: usize, proof: &[Hash]| {
                merkle::verify(leaf, index as u64, size as u64, proof, &root)
            };
            assert!(holds(leaf, i, count, &proof), "leaf {i} of {count}");
            assert!(!holds(&[0; 32], i, count, &proof), "another leaf at {i} of {count}");
            assert!((0..count + 2).all(|j| j == i || !holds(leaf, j, count, &proof)), "leaf {i} elsewhere in {count}");
            assert!(!holds(leaf, i, count, &[&proof[..], &[[0; 32]]].concat()), "longer proof of {i} of {count}");
            for at in 0..proof.len() {
                let mut other = proof.clone();
                other[at][0] ^= 1;
                assert!(!holds(leaf, i, count, &other), "changed proof of {i} of {count}");
                other.remove(at);
                assert!(!holds(leaf, i, count, &other), "shorter proof of {i} of {count}");
            }
        }
    }
}

/// The data and roots by which implementations of RFC 6962 and RFC 9162 test themselves.
#[test]
fn merkle_roots_are_the_known_answers() {
    let data: [&[u8]; 8] = [b"", b"\x00", b"\x10", b" !", b"01", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"];
    let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let leaf = |data: &[u8]| -> Hash { Sha256::new().chain_update([0]).chain_update(data).finalize().into() };
    for (count, root) in roots.into_iter().enumerate() {
        let leaves: Vec<Hash> = data[..count].iter().map(|data| leaf(data)).collect();
        assert_eq!(hex(&merkle::root(&leaves)), root, "{count} leaves");
    }
}

#[derive(Clone, Debug)]
struct Event {
    table: String,
    pk: Vec<u8>,
    tx: u32,
    op: Op,
    row_hash: Hash,
}

/// Few different values, so that changes come close to each other.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let op = prop::sample::select(vec![Op::Insert, Op::Update, Op::Delete]);
    let event = ("[ab]{1,2}", vec(0u8..3, 0..3), 0u32..5, op, any::<[u8; 32]>());
    vec(event.prop_map(|(table, pk, tx, op, row_hash)| Event { table, pk, tx, op, row_hash }), 0..30)
}

fn changes(events: &[Event]) -> Vec<Change<'_>> {
    let change = |e: &Event| (e.tx, e.op, e.row_hash);
    let changes = events.iter().map(|e| (e, change(e)));
    changes.map(|(e, (tx, op, row_hash))| Change { table: &e.table, pk: &e.pk, tx, op, row_hash, serial: 99 }).collect()
}

/// The model counts serials in a map and sorts the whole changes.
#[test]
fn effects_agree_with_a_sorted_map() {
    check(500, events(), |events| {
        let mut found = changes(&events);
        let effects = effects_root(&mut found);
        let mut model: BTreeMap<(&[u8], &[u8], u32), Change<'_>> = BTreeMap::new();
        let mut serials: BTreeMap<(&str, &[u8]), u32> = BTreeMap::new();
        for mut change in changes(&events) {
            let serial = serials.entry((change.table, change.pk)).or_default();
            change.serial = *serial;
            *serial += 1;
            model.insert((change.table.as_bytes(), change.pk, change.serial), change);
        }
        let sorted: Vec<&Change<'_>> = effects.order.iter().map(|i| &found[*i as usize]).collect();
        prop_assert_eq!(&sorted, &model.values().collect::<Vec<_>>());
        let leaves: Vec<Hash> = sorted.into_iter().map(leaf).collect();
        prop_assert_eq!(effects.root, model_root(&leaves));
        Ok(())
    });
}

/// Organisations may see the rows of a statement in different orders; only the order within one key
/// counts.
#[test]
fn effects_forget_the_order_of_different_keys() {
    check(500, (events(), any::<u64>()), |(events, seed)| {
        let mut arrived = changes(&events);
        let root = effects_root(&mut arrived).root;
        let mut regrouped = changes(&events);
        let scatter = |change: &Change<'_>| {
            let key = Sha256::new().chain_update(change.table).chain_update([0]).chain_update(change.pk);
            key.chain_update(seed.to_be_bytes()).finalize()
        };
        regrouped.sort_by_key(scatter); // stable: the order within a key stays
        prop_assert_eq!(effects_root(&mut regrouped).root, root);
        Ok(())
    });
}

/// Two changes differ in their leaves whenever they differ at all.
#[test]
fn different_changes_have_different_leaves() {
    check(300, (events(), any::<u64>()), |(events, serials)| {
        let mut all = changes(&events);
        all.iter_mut().enumerate().for_each(|(i, change)| {
            change.serial = u32::from(serials >> (i % 64) & 1 == 1);
            change.row_hash = [change.row_hash[0] % 2; 32]; // near each other
        });
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                prop_assert_eq!(one == other, leaf(one) == leaf(other));
            }
        }
        Ok(())
    });
}
