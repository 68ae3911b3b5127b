//! The micro-benchmarks of Fabric++ (Sharma et al., SIGMOD 2019, section 4.1 and appendix B;
//! Sharma, dissertation, figures 3.6 and 3.7). A line has workload, parameter, transactions, valid
//! ones in the order of the block, valid ones reordered, and median microseconds.
//!
//! `cargo run --release -p chainify-sched --example fabric` takes a second. `make bench
//! BENCH=fabric` reads it.

#![expect(clippy::disallowed_types, reason = "measures, decides nothing")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chainify_sched::reorder::{reorder, Accesses};

const TRANSACTIONS: u32 = 1024;
const RUNS: usize = 15;

fn transaction(sees: Option<u32>, writes: Option<u32>) -> Accesses {
    Accesses { sees: sees.into_iter().collect(), writes: writes.into_iter().collect() }
}

/// The first workload: one half writes a key each, the other half reads one of these each, and the
/// last `moved` readers come before all writers, the last one first.
fn interleaved(moved: u32) -> Vec<Accesses> {
    let half = TRANSACTIONS / 2;
    let reader = |key: u32| transaction(Some(key), None);
    let ahead = (half - moved..half).map(reader);
    let writers = (0..half).map(|key| transaction(None, Some(key)));
    ahead.chain(writers).chain((0..half - moved).map(reader)).collect()
}

/// The second workload: cycles of `length` transactions. The first reads and writes one key, and
/// each further one reads the key that the one before wrote; the last writes the first key again.
fn cycles(length: u32) -> Vec<Accesses> {
    let key = |cycle: u32, step: u32| cycle * TRANSACTIONS + step;
    let one = |tx: u32| {
        let (cycle, step) = (tx / length, tx % length);
        let last = step + 1 == length || tx + 1 == TRANSACTIONS;
        let read = key(cycle, step.saturating_sub(1));
        let written = if step == 0 || last { key(cycle, 0) } else { key(cycle, step) };
        transaction(Some(read), Some(written))
    };
    (0..TRANSACTIONS).map(one).collect()
}

/// How many transactions are valid in the order of the block, as Fabric has it.
fn valid_as_they_come(block: &[Accesses]) -> usize {
    let mut written: BTreeSet<u32> = BTreeSet::new();
    let mut valid = |accesses: &&Accesses| {
        let valid = accesses.sees.iter().all(|place| !written.contains(place));
        written.extend(accesses.writes.iter().filter(|_| valid));
        valid
    };
    block.iter().filter(&mut valid).count()
}

fn measure(workload: &str, parameter: u32, block: &[Accesses]) {
    let mut valid = 0;
    let mut run = |_| {
        let started = Instant::now();
        valid = reorder(std::hint::black_box(block)).order.len();
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..RUNS).map(&mut run).collect();
    times.sort_unstable();
    let median = times[RUNS / 2].as_nanos();
    println!(
        "{workload}\t{parameter}\t{}\t{}\t{valid}\t{}.{:03}",
        block.len(),
        valid_as_they_come(block),
        median / 1000,
        median % 1000
    );
}

fn main() {
    for moved in (0..=TRANSACTIONS / 2).step_by(64) {
        measure("interleaved", moved, &interleaved(moved));
    }
    for length in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        measure("cycles", length, &cycles(length));
    }
}
