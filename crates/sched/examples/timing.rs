//! How long a graph takes: `cargo run --release -p chainify-sched --example timing`.
//!
//! Blocks of transactions that read or write single rows, uniform and with hot rows, and blocks
//! with ranges among them. The median of 15 builds; the sets are made beforehand.

#![expect(clippy::disallowed_types, reason = "measures, decides nothing")]

use std::time::{Duration, Instant};

use chainify_sched::template::{Access, KeyLimits, Limit, Operand, Template, Touched};
use chainify_sched::value::{Class, Value};
use chainify_sched::{division, graph, AccessSet, Interval, Place, Target};

/// A linear congruential generator: the same blocks every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct Workload {
    name: &'static str,
    /// Rows of each relation.
    rows: u64,
    /// Of 1000 accesses so many go to the first 10 rows.
    hot_per_mille: u64,
    /// Of 1000 accesses so many are ranges of 100 rows.
    ranges_per_mille: u64,
}

fn block(workload: &Workload, transactions: usize) -> (Vec<AccessSet>, u64) {
    let mut numbers = Numbers(42);
    let mut accesses = 0;
    let mut sets = Vec::new();
    for _ in 0..transactions {
        let mut set = AccessSet::new();
        for _ in 0..2 + numbers.below(5) {
            let hot = numbers.below(1000) < workload.hot_per_mille;
            let row = numbers.below(if hot { 10 } else { workload.rows });
            let key = |row: u64| [&[1u8][..], &row.to_be_bytes()].concat();
            let place = if numbers.below(1000) < workload.ranges_per_mille {
                let (from, to) = (key(row), key(row + 100));
                let range = Interval::range(std::ops::Bound::Included(&from), std::ops::Bound::Excluded(&to));
                range.and_then(|range| Place::within([(0, range)])).unwrap_or_default()
            } else {
                Place::point(0, key(row))
            };
            let target = Target::Rows(numbers.below(3) as u32);
            if numbers.below(2) == 0 {
                set.read(target, place);
            } else {
                set.write(target, place);
            }
            accesses += 1;
        }
        sets.push(set);
    }
    (sets, accesses)
}

fn median(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let started = Instant::now();
        run();
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..15).map(time).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let workloads = [
        Workload { name: "uniform", rows: 1_000_000, hot_per_mille: 0, ranges_per_mille: 0 },
        Workload { name: "hot rows", rows: 100_000, hot_per_mille: 200, ranges_per_mille: 0 },
        Workload { name: "ranges", rows: 1_000_000, hot_per_mille: 0, ranges_per_mille: 50 },
    ];
    println!("workload  transactions accesses   edges components path  graph ms  ns/access  parts ms");
    for workload in &workloads {
        for transactions in [4096, 10_000, 40_000] {
            let (sets, accesses) = block(workload, transactions);
            let graph = graph::build(&sets);
            let costs = vec![1; transactions];
            let building = median(|| drop(std::hint::black_box(graph::build(&sets))));
            let planning = median(|| drop(std::hint::black_box(division::assign(&graph, &costs, 8))));
            let micros = |time: Duration| format!("{}.{:03}", time.as_millis(), time.as_micros() % 1000);
            println!(
                "{:<9} {transactions:>12} {accesses:>8} {:>7} {:>10} {:>4} {:>9} {:>10} {:>8}",
                workload.name,
                graph.edges(),
                graph.components(),
                graph.critical_path().len(),
                micros(building),
                building.as_nanos() as u64 / accesses,
                micros(planning),
            );
        }
    }
    let fill = filling();
    println!("filling a template of two rows written: {} ns", fill.as_nanos());
}

/// The time that it takes to fill in the values of a function that moves money between two rows.
fn filling() -> Duration {
    const TIMES: u32 = 10_000;
    let mut template = Template::default();
    for account in 0..2 {
        let limit = Limit::Equal(vec![Operand::Given(account)]);
        let limits = vec![KeyLimits { key: 0, columns: vec![(Class::Integer, vec![limit])], complete: true }];
        template.add(Access { target: Target::Rows(1), write: true, touched: Touched::All, limits });
    }
    let mut taken: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            for i in 0..i64::from(TIMES) {
                let values = [Value::Integer(i), Value::Integer(-i), Value::Decimal(String::new())];
                std::hint::black_box(template.fill(std::hint::black_box(&values)));
            }
            start.elapsed() / TIMES
        })
        .collect();
    taken.sort_unstable();
    taken[taken.len() / 2]
}
