//! How long the order of EFFECTS transactions takes:
//! `cargo run --release -p chainify-sched --example reorder`.
//!
//! Blocks without and with cycles, with hot keys, and hostile ones. The median and the least of 15
//! runs; the accesses are made beforehand.

#![expect(clippy::disallowed_types, reason = "measures, decides nothing")]

use std::collections::BTreeSet;
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

/// Groups of eight transactions with many cycles each.
fn many_groups(groups: u32) -> Vec<Accesses> {
    let place = |group: u32, tx: u32, step: u32| group * 100 + tx % 8 * 10 + step;
    let one = |group: u32, tx: u32| {
        transaction((0..3).map(|step| place(group, tx + step + 1, step)), (0..3).map(|step| place(group, tx, step)))
    };
    (0..groups).flat_map(|group| (0..8).map(move |tx| one(group, tx))).collect()
}

/// How many transactions are valid in the order of the block, as Fabric has it.
fn kept_in_block_order(block: &[Accesses]) -> usize {
    let mut written: BTreeSet<u32> = BTreeSet::new();
    let mut valid = |accesses: &&Accesses| {
        let valid = accesses.sees.iter().all(|place| !written.contains(place));
        written.extend(accesses.writes.iter().filter(|_| valid));
        valid
    };
    block.iter().filter(&mut valid).count()
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
    let millis = |time: Duration| format!("{}.{:03}", time.as_millis(), time.as_micros() % 1000);
    let accesses: usize = block.iter().map(|accesses| accesses.sees.len() + accesses.writes.len()).sum();
    println!(
        "{name:<47} {:>6} {accesses:>9} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8}",
        block.len(),
        kept_in_block_order(block),
        last.order.len(),
        last.counts.cut_steps,
        last.counts.chance_steps,
        millis(times[times.len() / 2]),
        millis(times[0]),
    );
}

fn main() {
    println!("                                                                      kept in  kept");
    println!(
        "{:<47} {:>6} {:>9} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "block", "count", "accesses", "order", "here", "cut", "chances", "ms", "least"
    );
    measure("valid: nothing shared", &apart(1024));
    measure("valid: 512 write first what 512 saw", &writers_first(1024));
    let one_writer: Vec<Accesses> = (0..1024).map(|tx| transaction([0, tx], [tx])).collect();
    measure("valid: the first writes what all others saw", &one_writer);
    for length in [2, 8, 64, 1024] {
        measure(&format!("groups: rings of {length}"), &rings(1024, length));
    }
    measure("groups: 2 updates, 2 reads of 10,000 rows", &mixed(1024, [2, 2, 0, 10_000]));
    measure("groups: 4 updates, 4 reads of 10,000 rows", &mixed(1024, [4, 4, 0, 10_000]));
    measure("groups: 2 updates, 8 reads of 1,000 rows", &mixed(1024, [2, 8, 0, 1_000]));
    measure("hot keys: 2 updates, 10 % of ten rows", &mixed(1024, [2, 0, 10, 100_000]));
    measure("hot keys: 1 update, 8 reads, 10 % of ten rows", &mixed(1024, [1, 8, 10, 100_000]));
    measure("hot keys: 4 updates, 4 reads, 10 % of ten rows", &mixed(1024, [4, 4, 10, 100_000]));
    measure("hot keys: 4 updates, 4 reads, 40 % of ten rows", &mixed(1024, [4, 4, 40, 100_000]));
    measure("hot keys: all update one row", &vec![transaction([0], [0]); 1024]);
    measure("hostile: all update one row", &vec![transaction([0], [0]); 10_000]);
    measure("hostile: a ring of all", &rings(10_000, 10_000));
    measure("hostile: rings of 2", &rings(10_000, 2));
    measure("hostile: groups of 8 with many cycles", &many_groups(1_250));
    measure("hostile: 2 seen, 2 written of 20,000", &crossing(10_000, [2, 2, 20_000]));
    measure("hostile: 10 seen, 10 written of 1,000", &crossing(10_000, [10, 10, 1_000]));
    measure("hostile: 25 seen, 25 written of 50", &crossing(10_000, [25, 25, 50]));
    measure("hostile: 25 seen, 25 written of 100,000", &crossing(10_000, [25, 25, 100_000]));
    measure("hostile: 26 seen, 26 written of 300,000", &crossing(10_000, [26, 26, 300_000]));
    measure("hostile: 50 seen, 1 written of 10,000", &crossing(10_000, [50, 1, 10_000]));
    measure("hostile: 50 seen, 1 written of 200,000", &crossing(10_000, [50, 1, 200_000]));
    measure("hostile: 2,000 seen, 2,000 written of 1,000,000", &crossing(10_000, [2_000, 2_000, 1_000_000]));
}
