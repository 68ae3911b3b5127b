//! How long the order of EFFECTS transactions takes:
//! `cargo run --release -p chainify-sched --example reorder`.
//!
//! Blocks without and with cycles, with hot keys, and hostile ones. The median of 15 runs; the
//! accesses are made beforehand.

#![expect(clippy::disallowed_types, reason = "measures, decides nothing")]

use std::time::{Duration, Instant};

use chainify_sched::reorder::{reorder, Accesses, Reordering};

/// A linear congruential generator: the same blocks every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

fn transaction(sees: impl IntoIterator<Item = u32>, writes: impl IntoIterator<Item = u32>) -> Accesses {
    Accesses { sees: sees.into_iter().collect(), writes: writes.into_iter().collect() }
}

/// Each transaction updates four rows of its own and sees four that nobody writes.
fn apart(count: u32) -> Vec<Accesses> {
    (0..count).map(|tx| transaction((0..8).map(|i| tx * 8 + i), (0..4).map(|i| tx * 8 + i))).collect()
}

/// One half writes what the other half saw, and comes first: the first workload of Fabric++.
fn writers_first(count: u32) -> Vec<Accesses> {
    let half = count / 2;
    (0..count).map(|tx| if tx < half { transaction([], [tx]) } else { transaction([tx - half], []) }).collect()
}

/// Rings of transactions, each of which saw what the next one writes: the second workload.
fn rings(count: u32, length: u32) -> Vec<Accesses> {
    let next = |tx: u32| if (tx + 1).is_multiple_of(length) || tx + 1 == count { tx / length * length } else { tx + 1 };
    (0..count).map(|tx| transaction([next(tx)], [tx])).collect()
}

/// Each transaction updates `updates` rows and sees `reads` others; of 100 accesses `hot` go to
/// the first ten of `rows`.
fn mixed(count: u32, [updates, reads, hot, rows]: [u32; 4]) -> Vec<Accesses> {
    let mut numbers = Numbers(42);
    let mut row = || {
        let end = if numbers.below(100) < hot { 10 } else { rows };
        numbers.below(end)
    };
    let mut one = |_| {
        let writes: Vec<u32> = (0..updates).map(|_| row()).collect();
        transaction(writes.clone().into_iter().chain((0..reads).map(|_| row())), writes)
    };
    (0..count).map(&mut one).collect()
}

/// Each transaction saw some of `rows` rows and writes others.
fn crossing(count: u32, [reads, writes, rows]: [u32; 3]) -> Vec<Accesses> {
    let mut numbers = Numbers(7);
    let mut some = |count: u32| (0..count).map(|_| numbers.below(rows)).collect::<Vec<_>>();
    (0..count).map(|_| transaction(some(reads), some(writes))).collect()
}

fn measure(name: &str, block: &[Accesses]) {
    let mut last = Reordering::default();
    let mut run = |_| {
        let started = Instant::now();
        last = reorder(std::hint::black_box(block));
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..15).map(&mut run).collect();
    times.sort_unstable();
    let accesses: usize = block.iter().map(|accesses| accesses.sees.len() + accesses.writes.len()).sum();
    let micros = times[times.len() / 2].as_micros();
    let time = format!("{}.{:03}", micros / 1000, micros % 1000);
    println!(
        "{name:<46} {:>6} {accesses:>9} {:>6} {:>8} {:>8} {time:>8}",
        block.len(),
        last.order.len(),
        last.cut_steps,
        last.chance_steps
    );
}

fn main() {
    if let Ok(which) = std::env::var("ONLY") {
        for _ in 0..4 {
            match &which[..] {
                "a" => measure("a", &crossing(10_000, [25, 25, 100_000])),
                "b" => measure("b", &crossing(10_000, [10, 10, 1_000])),
                _ => measure("c", &crossing(10_000, [25, 25, 50])),
            }
        }
        return;
    }
    println!(
        "{:<46} {:>6} {:>9} {:>6} {:>8} {:>8} {:>8}",
        "block", "count", "accesses", "kept", "cut", "chances", "ms"
    );
    measure("valid: nothing shared", &apart(1024));
    measure("valid: 512 write first what 512 saw", &writers_first(1024));
    measure(
        "valid: one writes what all others saw",
        &crossing(1, [0, 1, 1]).into_iter().chain((1..1024).map(|tx| transaction([0, tx], [tx]))).collect::<Vec<_>>(),
    );
    for length in [2, 8, 64, 1024] {
        measure(&format!("groups: rings of {length}"), &rings(1024, length));
    }
    measure("groups: 2 updates, 2 reads of 10,000 rows", &mixed(1024, [2, 2, 0, 10_000]));
    measure("groups: 4 updates, 4 reads of 10,000 rows", &mixed(1024, [4, 4, 0, 10_000]));
    measure("groups: 2 updates, 8 reads of 1,000 rows", &mixed(1024, [2, 8, 0, 1_000]));
    measure("hot keys: 2 updates, 10 % of ten rows", &mixed(1024, [2, 0, 10, 100_000]));
    measure("hot keys: 4 updates, 4 reads, 10 % of ten rows", &mixed(1024, [4, 4, 10, 100_000]));
    measure("hot keys: 4 updates, 4 reads, 40 % of ten rows", &mixed(1024, [4, 4, 40, 100_000]));
    measure(
        "hot keys: all update one row",
        &mixed(1024, [1, 0, 100, 10]).iter().map(|_| transaction([0], [0])).collect::<Vec<_>>(),
    );
    measure("hostile: all update one row", &vec![transaction([0], [0]); 10_000]);
    measure("hostile: a ring of all", &rings(10_000, 10_000));
    measure("hostile: rings of 2", &rings(10_000, 2));
    measure("hostile: 10 seen, 10 written of 1,000", &crossing(10_000, [10, 10, 1_000]));
    measure("hostile: 25 seen, 25 written of 100,000", &crossing(10_000, [25, 25, 100_000]));
    measure("hostile: 25 seen, 25 written of 50", &crossing(10_000, [25, 25, 50]));
    measure("hostile: 50 seen, 1 written of 10,000", &crossing(10_000, [50, 1, 10_000]));
    measure("hostile: 50 seen, 1 written of 200,000", &crossing(10_000, [50, 1, 200_000]));
    measure("hostile: 2 seen, 2 written of 20,000", &crossing(10_000, [2, 2, 20_000]));
    measure("hostile: 20,000 seen and written each", &crossing(10_000, [20_000, 20_000, 1_000_000]));
}
// PROFILE
