//! How much faster several processes could execute blocks of TPC-C, by the graph of their
//! dependencies (`spec/stages.md`): a bound, not a measurement.
//!
//! Usage: cargo run -p chainify-sched --example tpcc [microseconds of NewOrder, and of Payment]

#![expect(clippy::float_arithmetic, reason = "prints ratios, decides nothing")]

use chainify_sched::division::assign;
use chainify_sched::{graph, AccessSet, Dependency, Graph, Place, Target};

const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 300;
const ITEMS: u64 = 10_000;
/// As many as the benchmark has in a block.
const BLOCK: usize = 256;
/// Blocks of which the mean is taken.
const BLOCKS: u64 = 20;

/// Relations, each with one key.
const WAREHOUSE: Target = Target::Rows(1);
const DISTRICT: Target = Target::Rows(2);
const CUSTOMER: Target = Target::Rows(3);
const STOCK: Target = Target::Rows(4);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Like TPC-C's NURand: some are drawn more often.
    fn uneven(&mut self, share: u64, limit: u64) -> u64 {
        let often = self.below((limit / share).next_power_of_two());
        (often | self.below(limit)) % limit
    }
}

/// A row by the numbers of its key.
fn row(numbers: &[u64]) -> Place {
    Place::point(1, numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>())
}

/// The access of NewOrder: it looks at no column of the warehouse or of the customer that a block
/// changes, and its orders are those of the district.
fn new_order(random: &mut Random, home: u64, leaves: bool) -> AccessSet {
    let mut set = AccessSet::new();
    set.write(DISTRICT, row(&[home, random.below(DISTRICTS)]));
    for _ in 0..5 + random.below(11) {
        let away = leaves && random.percent(1);
        let supplier = if away { random.below(WAREHOUSES) } else { home };
        set.write(STOCK, row(&[supplier, random.uneven(12, ITEMS)]));
    }
    set
}

fn payment(random: &mut Random, home: u64, leaves: bool) -> AccessSet {
    let mut set = AccessSet::new();
    set.write(WAREHOUSE, row(&[home]));
    set.write(DISTRICT, row(&[home, random.below(DISTRICTS)]));
    let away = leaves && random.percent(15);
    let of = if away { random.below(WAREHOUSES) } else { home };
    set.write(CUSTOMER, row(&[of, random.below(DISTRICTS), random.uneven(3, CUSTOMERS)]));
    set
}

/// A block, and what each transaction costs.
fn block(random: &mut Random, warehouses: u64, leaves: bool, costs: [u64; 2]) -> (Vec<AccessSet>, Vec<u64>) {
    let one = |_| {
        let home = random.below(warehouses);
        match random.below(88) < 45 {
            true => (new_order(random, home, leaves), costs[0]),
            false => (payment(random, home, leaves), costs[1]),
        }
    };
    (0..BLOCK).map(one).unzip()
}

/// The time that so many processes take when each takes the first transaction that waits for none,
/// and effects pass between them at no cost.
fn scheduled(graph: &Graph, costs: &[u64], processes: usize) -> u64 {
    let mut ends: Vec<Option<u64>> = vec![None; costs.len()];
    let mut free = vec![0; processes];
    for _ in 0..costs.len() {
        let starts = |tx: usize| {
            let mut waits = graph.waits_for(tx as u32).iter().map(|edge| ends[edge.earlier as usize]);
            waits.try_fold(0, |latest, end| Some(latest.max(end?)))
        };
        let process = (0..processes).min_by_key(|process| free[*process]).unwrap_or(0);
        let candidates = (0..costs.len()).filter(|tx| ends[*tx].is_none());
        let next = candidates.filter_map(|tx| Some((starts(tx)?.max(free[process]), tx))).min();
        let Some((start, tx)) = next else { break };
        free[process] = start + costs[tx];
        ends[tx] = Some(free[process]);
    }
    free.into_iter().max().unwrap_or(0)
}

/// The cost of the transactions that find all that they read as the block found it.
fn fresh(sets: &[AccessSet], costs: &[u64]) -> u64 {
    let stale = |tx: usize| {
        // A written place counts as read.
        let kinds = [Dependency::WriteRead, Dependency::WriteWrite];
        let found = |earlier: &AccessSet| sets[tx].dependencies_on(earlier).0;
        sets[..tx].iter().any(|earlier| kinds.iter().any(|kind| found(earlier).contains(*kind)))
    };
    (0..sets.len()).filter(|tx| !stale(*tx)).map(|tx| costs[tx]).sum()
}

fn main() {
    let given: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let costs = [given.first().copied().unwrap_or(480), given.get(1).copied().unwrap_or(100)];
    println!(
        "blocks of {BLOCK}, NewOrder {} us, Payment {} us; times a block takes alone / with processes",
        costs[0], costs[1]
    );
    println!("| | components, 2 | graph, 2 | graph, 4 | graph, any number | fresh |");
    println!("|---|---|---|---|---|---|");
    for (name, warehouses, leaves) in
        [("by the book", WAREHOUSES, true), ("at home", WAREHOUSES, false), ("one warehouse", 1, false)]
    {
        let mut sums = [0.0; 5];
        for seed in 0..BLOCKS {
            let (sets, costs) = block(&mut Random(seed), warehouses, leaves, costs);
            let graph = graph::build(&sets);
            let whole: u64 = costs.iter().sum();
            let longest = assign(&graph, &costs, 2).loads().iter().copied().max().unwrap_or(1);
            let of = |time: u64| whole as f64 / time as f64;
            let graphs = [2, 4, BLOCK].map(|processes| of(scheduled(&graph, &costs, processes)));
            let figures = [of(longest), graphs[0], graphs[1], graphs[2], fresh(&sets, &costs) as f64 / whole as f64];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        }
        let [components, two, four, any, fresh] = sums.map(|sum| sum / BLOCKS as f64);
        println!("| {name} | {components:.2} | {two:.2} | {four:.2} | {any:.2} | {:.0} % |", 100.0 * fresh);
    }
}
