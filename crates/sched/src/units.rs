//! The writers and readers of each part of one key space, so far in the block.
//!
//! The values that writes name divide the space into units: value r is unit 2r + 1, the keys
//! between it and its neighbours are units 2r and 2r + 2. All writes treat a unit as a whole, so
//! one state for each unit is exact. Neighbouring units in the same state share a run: a wide write
//! leaves one run behind, whatever it covered.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::interval::Cut;
use crate::{Dependencies, Dependency, Interval, TxIndex};

/// The earlier transactions that one depends on, and what it cost to find them.
#[derive(Default)]
pub(crate) struct Links {
    /// With repetitions, in the order found.
    pub found: Vec<(TxIndex, Dependencies)>,
    /// Runs visited, transactions found or copied, in the whole block.
    pub steps: u64,
}

impl Links {
    /// Adds a dependency of `later` on `earlier`.
    pub fn add(&mut self, later: TxIndex, earlier: TxIndex, kind: Dependency) {
        if earlier != later {
            self.steps += 1;
            self.found.push((earlier, kind.into()));
        }
    }
}

/// A key; most comparisons end at the head, without following the pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Value<'a> {
    /// The first 8 bytes, big endian, filled up with zeros.
    head: u64,
    bytes: &'a [u8],
}

impl<'a> Value<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut head = [0; 8];
        let length = bytes.len().min(8);
        head[..length].copy_from_slice(&bytes[..length]);
        Self { head: u64::from_be_bytes(head), bytes }
    }
}

/// Neighbouring units in one state.
#[derive(Clone, Default)]
struct Run {
    /// The last writer.
    writer: Option<TxIndex>,
    /// The readers since then, ascending; never the writer.
    readers: Vec<TxIndex>,
}

/// One key space of one target, in one block.
#[derive(Default)]
pub(crate) struct Space<'a> {
    /// The values that writes name, ascending.
    values: Vec<Value<'a>>,
    /// Whether any write covers more than single values.
    gaps_written: bool,
    runs: Runs,
}

/// The runs of a space.
enum Runs {
    /// By value, when no write covers more than that: the units between values are in no run, as
    /// nobody writes them.
    OfValues(Vec<Run>),
    /// By first unit. There is one at unit 0, so every unit is in a run.
    OfUnits(BTreeMap<u32, Run>),
}

impl Default for Runs {
    fn default() -> Self {
        Self::OfValues(Vec::new())
    }
}

impl<'a> Space<'a> {
    /// Announces a write. All are announced, then the space is sealed, then used.
    pub fn announce(&mut self, interval: &'a Interval) {
        let mut name = |bytes| self.values.push(Value::new(bytes));
        if let Some(key) = interval.as_point() {
            name(key);
            return;
        }
        self.gaps_written = true;
        name(interval.lower().bytes);
        interval.upper().into_iter().for_each(|upper| name(upper.bytes));
    }

    /// Announces a write of the whole space.
    pub fn announce_whole(&mut self) {
        self.gaps_written = true;
    }

    /// Divides the space by what was announced.
    pub fn seal(&mut self) {
        self.values.sort_unstable();
        self.values.dedup();
        self.runs = match self.gaps_written {
            false => Runs::OfValues(vec![Run::default(); self.values.len()]),
            true => Runs::OfUnits(BTreeMap::from([(0, Run::default())])),
        };
    }

    /// Transaction `tx` writes `interval`, or the whole space. All writes of a transaction come
    /// before its reads.
    pub fn write(&mut self, tx: TxIndex, interval: Option<&Interval>, links: &mut Links) {
        let units = self.units(interval);
        match &mut self.runs {
            Runs::OfValues(runs) => values_of(runs, &units).iter_mut().for_each(|run| run.write(tx, links)),
            Runs::OfUnits(runs) => {
                cut(runs, &units, self.values.len(), links);
                let mut others = Vec::new();
                for (start, run) in runs.range_mut(units.clone()) {
                    run.write(tx, links);
                    others.extend((*start != units.start).then_some(*start));
                }
                others.iter().for_each(|start| drop(runs.remove(start)));
            }
        }
    }

    /// Transaction `tx` reads `interval`, or the whole space.
    pub fn read(&mut self, tx: TxIndex, interval: Option<&Interval>, links: &mut Links) {
        let units = self.units(interval);
        match &mut self.runs {
            Runs::OfValues(runs) => values_of(runs, &units).iter_mut().for_each(|run| run.read(tx, links)),
            Runs::OfUnits(runs) => {
                cut(runs, &units, self.values.len(), links);
                runs.range_mut(units).for_each(|(_, run)| run.read(tx, links));
            }
        }
    }

    fn units(&self, interval: Option<&Interval>) -> Range<u32> {
        let Some(interval) = interval else { return 0..end(self.values.len()) };
        if let Some(key) = interval.as_point() {
            let unit = match self.search(key) {
                Ok(value) => 2 * value + 1,
                Err(gap) => 2 * gap,
            };
            return unit..unit + 1;
        }
        let Cut { bytes, after } = interval.lower();
        let start = match self.search(bytes) {
            Ok(value) => 2 * value + 1 + u32::from(after),
            Err(gap) => 2 * gap,
        };
        let end = interval.upper().map_or(end(self.values.len()), |Cut { bytes, after }| match self.search(bytes) {
            Ok(value) => 2 * value + 1 + u32::from(after),
            Err(gap) => 2 * gap + 1, // part of the gap, and writes cover all of it or nothing
        });
        start..end
    }

    fn search(&self, bytes: &[u8]) -> Result<u32, u32> {
        let found = self.values.binary_search(&Value::new(bytes));
        found.map(|at| at as u32).map_err(|at| at as u32)
    }
}

/// The runs of the values among `units`: value r is unit 2r + 1.
fn values_of<'r>(runs: &'r mut [Run], units: &Range<u32>) -> &'r mut [Run] {
    &mut runs[units.start as usize / 2..units.end as usize / 2]
}

/// Lets runs begin at both ends of `units`.
fn cut(runs: &mut BTreeMap<u32, Run>, units: &Range<u32>, values: usize, links: &mut Links) {
    for at in [units.start, units.end] {
        if at == end(values) {
            continue;
        }
        let (start, run) = runs.range(..=at).next_back().expect("a run begins at unit 0");
        if *start != at {
            let half = run.clone();
            links.steps += 1 + half.readers.len() as u64;
            runs.insert(at, half);
        }
    }
}

/// The unit after the last.
fn end(values: usize) -> u32 {
    2 * values as u32 + 1 // one value for each place at most, far fewer than 2^31
}

impl Run {
    fn write(&mut self, tx: TxIndex, links: &mut Links) {
        links.steps += 1;
        // Readers since the last write depend on it, so depending on them is enough.
        self.readers.drain(..).for_each(|reader| {
            links.add(tx, reader, Dependency::ReadWrite);
        });
        if let Some(writer) = self.writer.replace(tx) {
            links.add(tx, writer, Dependency::WriteWrite);
        }
    }

    fn read(&mut self, tx: TxIndex, links: &mut Links) {
        links.steps += 1;
        if self.writer == Some(tx) {
            return;
        }
        if let Some(writer) = self.writer {
            links.add(tx, writer, Dependency::WriteRead);
        }
        if self.readers.last() != Some(&tx) {
            self.readers.push(tx);
        }
    }
}
