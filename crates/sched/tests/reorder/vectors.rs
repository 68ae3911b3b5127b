//! Reproduces `spec/vectors/order.json`, or rewrites it:
//! `UPDATE_VECTORS=1 cargo test -p chainify-sched --test reorder`.

use std::path::Path;

use chainify_sched::reorder::{reorder_within, Accesses, Limits, Victim, Why, LIMITS};
use serde_json::{json, Map, Value as Json};

use crate::{dissertation, transaction};

struct Case {
    name: String,
    /// The limits that differ.
    limits: Vec<(&'static str, u64)>,
    block: Vec<Accesses>,
}

fn case(name: impl Into<String>, limits: &[(&'static str, u64)], block: Vec<Accesses>) -> Case {
    Case { name: name.into(), limits: limits.to_vec(), block }
}

/// A linear congruential generator: the same blocks every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }

    fn some(&mut self, most: u32, places: u32) -> Vec<u32> {
        let count = self.below(most + 1);
        let mut some: Vec<u32> = (0..count).map(|_| self.below(places)).collect();
        some.sort_unstable();
        some.dedup();
        some
    }

    /// Of 8 writes, about 7 are seen.
    fn block(&mut self, count: u32, places: u32, most: u32) -> Vec<Accesses> {
        let mut one = |_| {
            let (mut sees, writes) = (self.some(most, places), self.some(most, places));
            sees.extend(writes.iter().filter(|_| self.below(8) > 0));
            sees.sort_unstable();
            sees.dedup();
            Accesses { sees, writes }
        };
        (0..count).map(&mut one).collect()
    }
}

fn ring(length: u32) -> Vec<Accesses> {
    (0..length).map(|tx| transaction(&[(tx + 1) % length], &[tx])).collect()
}

fn written_cases() -> Vec<Case> {
    let updates = |count| vec![transaction(&[0], &[0]); count];
    let pairs: Vec<Accesses> = (0..12).map(|tx| transaction(&[tx, tx + 1], &[tx, tx + 1])).collect();
    vec![
        case("Fabric++, table 3", &[], dissertation()),
        case("nothing", &[], vec![]),
        case("apart", &[], (0..4).map(|tx| transaction(&[tx, 9], &[tx])).collect()),
        case(
            "readers of an update",
            &[],
            vec![transaction(&[0], &[0]), transaction(&[0], &[1]), transaction(&[0, 1], &[])],
        ),
        case("each saw what the other writes", &[], vec![transaction(&[0, 1], &[0]), transaction(&[0, 1], &[1])]),
        case("overwrites", &[], vec![transaction(&[], &[3]); 4]),
        case("overwrites and a conflict", &[], vec![transaction(&[], &[3, 4]), transaction(&[4], &[3])]),
        case(
            "overwrites that wait",
            &[],
            vec![transaction(&[], &[3, 4]), transaction(&[], &[3]), transaction(&[4], &[3, 5])],
        ),
        case("four updates of a row: 20 cycles", &[], updates(4)),
        case("five updates of a row: too many cycles", &[], updates(5)),
        case("twenty updates of a row", &[], updates(20)),
        case("each shares a row with the next", &[], pairs.clone()),
        case("each shares a row with the next, cut by degree", &[("cycles", 3)], pairs),
        case("a ring", &[], ring(20)),
        case("a ring, cut by degree", &[("cycles", 0)], ring(20)),
        case("a ring, cut by degree, no steps for chances", &[("cycles", 0), ("chance_steps", 0)], ring(20)),
        case("a ring, first comers", &[("cut_steps", 0)], ring(9)),
        case(
            "two shortest ways lead back to T0",
            &[],
            vec![
                transaction(&[4], &[0, 1]),
                transaction(&[2, 3], &[4]),
                transaction(&[1], &[2]),
                transaction(&[0], &[3]),
            ],
        ),
        case("accesses beyond the limit", &[("accesses", 9)], dissertation()),
    ]
}

fn drawn_cases() -> Vec<Case> {
    let mut numbers = Numbers(2024);
    let mut cases = Vec::new();
    for (count, places, most) in
        [(8, 6, 2), (8, 10, 2), (12, 8, 3), (16, 40, 3), (24, 20, 2), (40, 60, 3), (40, 12, 2), (60, 100, 2)]
    {
        let shape = format!("{count} transactions, {places} places, at most {most} written");
        for limits in [
            &[][..],
            &[],
            &[],
            &[("cycles", 5)],
            &[("cycles", 0)],
            &[("cycle_steps", 200)],
            &[("cut_steps", 60)],
            &[("cut_steps", 0), ("chance_steps", 90)],
            &[("chance_steps", 40), ("cycles", 1)],
            &[("accesses", 70)],
        ] {
            cases.push(case(format!("{shape}, {}", cases.len()), limits, numbers.block(count, places, most)));
        }
    }
    cases
}

fn limits(changed: &[(&'static str, u64)]) -> Limits {
    let mut limits = LIMITS;
    for (name, value) in changed {
        let limit = match *name {
            "accesses" => &mut limits.accesses,
            "cut_steps" => &mut limits.cut_steps,
            "cycles" => &mut limits.cycles,
            "cycle_steps" => &mut limits.cycle_steps,
            "chance_steps" => &mut limits.chance_steps,
            other => panic!("no limit {other}"),
        };
        *limit = *value;
    }
    limits
}

fn victim(Victim { transaction, why }: &Victim) -> Json {
    match why {
        Why::Cycle { place, others } => json!({ "transaction": transaction, "place": place, "others": others }),
        Why::Place(place) => json!({ "transaction": transaction, "place": place }),
        Why::Excess => json!({ "transaction": transaction, "excess": true }),
    }
}

fn solved(Case { name, limits: changed, block }: &Case) -> Json {
    let found = reorder_within(block, &limits(changed));
    let one = |accesses: &Accesses| json!({ "sees": accesses.sees, "writes": accesses.writes });
    let changed: Map<String, Json> = changed.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "name": name,
        "limits": changed,
        "block": block.iter().map(one).collect::<Vec<_>>(),
        "order": found.order,
        "victims": found.victims.iter().map(victim).collect::<Vec<_>>(),
        "cut_steps": found.counts.cut_steps,
        "chance_steps": found.counts.chance_steps,
    })
}

#[test]
fn vectors() {
    let cases: Vec<Json> = written_cases().iter().chain(&drawn_cases()).map(solved).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors/order.json");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        let lines: Vec<String> = cases.iter().map(|case| format!("    {case}")).collect();
        std::fs::write(&path, format!("{{\n  \"cases\": [\n{}\n  ]\n}}\n", lines.join(",\n"))).unwrap();
        return;
    }
    let file: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let wanted = file["cases"].as_array().unwrap();
    for (found, wanted) in cases.iter().zip(wanted) {
        assert_eq!(found, wanted, "{}", wanted["name"]);
    }
    assert_eq!(cases.len(), wanted.len(), "cases of the file and of this test");
}
