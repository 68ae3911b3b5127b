//! The cost of a snapshot: `cargo run --release -p chainify-snapshot --example cost -- chunks 25`.
//!
//! The measurement of AnKer (SIGMOD 2018), table 1 and figure 4: columns of 200 MB, of which 0,
//! 500, 5,000 and 50,000 pages were written before. Prints one line of JSON. Each strategy has a
//! process of its own, so that `fork` copies nothing else. `bench/snapshot` runs it and makes a
//! report.
//!
//! Arguments: STRATEGY COLUMNS [COLUMN_BYTES [REPEAT [SEED]]]. Exit code 3: not on this machine.

#![expect(clippy::disallowed_types, reason = "measures, decides nothing")]
#![expect(clippy::float_arithmetic, reason = "measures, decides nothing")]

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chainify_snapshot::{Chunks, Copy, Error, Fork, Pool, Rewire, Strategy, VmSnapshot};

/// Bytes of a page, and of a group of 8-byte cells.
const PAGE: usize = 4096;
const GROUP: usize = 65_536;

/// Pages written before, in all columns.
const WRITTEN: [usize; 4] = [0, 500, 5_000, 50_000];
/// Pages written after a snapshot, to see the cost of one write that stands alone.
const SPARSE: usize = 500;

/// Columns that are snapshotted and written together before, so that memory suffices.
const TOGETHER: usize = 5;

/// Memory that a run may take, and that it leaves to others.
const BYTES_MAX: usize = 12 << 30;
const LEFT_BYTES: usize = 2 << 30;

struct Arguments {
    strategy: String,
    columns: usize,
    column_bytes: usize,
    repeat: usize,
    seed: u64,
}

/// A linear congruential generator: the same pages every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    /// All pages of a column, in any order.
    fn pages(&mut self, pages: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..pages).collect();
        (1..pages).rev().for_each(|last| all.swap(last, self.below(last + 1)));
        all
    }
}

/// Times of a stage, in microseconds.
struct Stage {
    written: usize,
    create: Vec<f64>,
    release: Vec<f64>,
    sparse_write: f64,
    dense_write: f64,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(reason) => return refused(2, reason),
    };
    if let Err(reason) = fits(&arguments) {
        return refused(3, reason);
    }
    match measured(&arguments) {
        Ok(stages) => println!("{}", json(&arguments, &stages)),
        Err(error @ Error::Unavailable { .. }) => return refused(3, error),
        Err(error) => return refused(1, error),
    }
    ExitCode::SUCCESS
}

fn refused(code: u8, reason: impl Display) -> ExitCode {
    eprintln!("cost: {reason}");
    ExitCode::from(code)
}

fn arguments() -> Result<Arguments, String> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| match given.get(at) {
        None => Ok(default),
        Some(text) => text.parse::<usize>().map_err(|error| format!("argument {}, {text}: {error}", at + 1)),
    };
    let strategy = given.first().cloned().ok_or("usage: cost STRATEGY COLUMNS [COLUMN_BYTES [REPEAT [SEED]]]")?;
    let (columns, column_bytes, repeat) = (number(1, 1)?, number(2, 200 * 1024 * 1024)?, number(3, 21)?);
    if columns == 0 || repeat == 0 || column_bytes < GROUP {
        return Err(format!("want at least 1 column, 1 repetition and {GROUP} bytes"));
    }
    Ok(Arguments { strategy, columns, column_bytes, repeat, seed: number(4, 1)? as u64 })
}

/// Whether the machine has the memory: the columns, and some or all of them once more.
fn fits(arguments: &Arguments) -> Result<(), String> {
    let copied = if arguments.strategy == "copy" { arguments.columns } else { arguments.columns.min(TOGETHER) };
    let need = (arguments.columns + copied + 1).saturating_mul(arguments.column_bytes);
    let info = std::fs::read_to_string("/proc/meminfo").map_err(|error| format!("read /proc/meminfo: {error}"))?;
    let available =
        info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    let available = available.map_or(0, |kilobytes: usize| kilobytes * 1024).saturating_sub(LEFT_BYTES);
    match need > available.min(BYTES_MAX) {
        true => Err(format!("needs {} MB, and may take {}", need >> 20, available.min(BYTES_MAX) >> 20)),
        false => Ok(()),
    }
}

fn strategy(name: &str, pool: Arc<Pool>) -> Result<Box<dyn Strategy>, Error> {
    Ok(match name {
        "chunks" => Box::new(Chunks::new(pool)),
        "copy" => Box::new(Copy::new(pool)),
        "fork" => Box::new(Fork::new(pool)),
        "rewire" => Box::new(Rewire::new(pool)),
        "vm_snapshot" => Box::new(VmSnapshot::new(pool)?),
        _ => return Err(Error::Unavailable { strategy: "asked for", reason: format!("there is no {name}") }),
    })
}

fn measured(arguments: &Arguments) -> Result<Vec<Stage>, Error> {
    let groups = arguments.column_bytes / GROUP;
    // Three times: fork and vm_snapshot count each snapshot in full.
    let pool = Pool::new(3 * (arguments.columns + 1) * arguments.column_bytes);
    let mut strategy = strategy(&arguments.strategy, pool)?;
    let columns: Vec<usize> = (0..arguments.columns).collect();
    for column in &columns {
        strategy.add_column(GROUP)?;
        for group in 0..groups {
            strategy.grow(*column)?;
            strategy.write(*column, group)?.fill(1);
        }
    }
    let pages = Numbers(arguments.seed).pages(groups * GROUP / PAGE);
    // Spare memory for a column, as there is in use.
    let warm = strategy.snapshot(&columns[..1])?;
    write(&mut *strategy, 0, &pages)?;
    drop(warm);
    let mut before = 0;
    let mut stages = Vec::new();
    for written in WRITTEN.map(|written| written.min(pages.len())) {
        for some in columns.chunks(TOGETHER) {
            if before == written {
                continue;
            }
            let held = strategy.snapshot(some)?;
            some.iter().try_for_each(|column| write(&mut *strategy, *column, &pages[before..written]))?;
            drop(held);
        }
        before = written;
        stages.push(stage(&mut *strategy, &columns, written, &pages, arguments.repeat)?);
    }
    Ok(stages)
}

/// Writes eight bytes of each page.
fn write(strategy: &mut dyn Strategy, column: usize, pages: &[usize]) -> Result<(), Error> {
    for page in pages {
        let at = page * PAGE % GROUP;
        strategy.write(column, page * PAGE / GROUP)?[at..at + 8].copy_from_slice(&page.to_le_bytes());
    }
    Ok(())
}

fn stage(
    strategy: &mut dyn Strategy,
    columns: &[usize],
    written: usize,
    pages: &[usize],
    repeat: usize,
) -> Result<Stage, Error> {
    let (mut create, mut release) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let begun = Instant::now();
        let view = strategy.snapshot(columns)?;
        create.push(microseconds(begun.elapsed()));
        let begun = Instant::now();
        drop(view);
        release.push(microseconds(begun.elapsed()));
    }
    let (alone, _) = write_times(strategy, columns, &pages[pages.len().saturating_sub(SPARSE)..])?;
    let (_, among_many) = write_times(strategy, columns, pages)?;
    Ok(Stage { written, create, release, sparse_write: alone, dense_write: among_many })
}

/// Median and mean of the times of writes to the first column, beside a new snapshot.
fn write_times(strategy: &mut dyn Strategy, columns: &[usize], pages: &[usize]) -> Result<(f64, f64), Error> {
    let view = strategy.snapshot(columns)?;
    let mut times = Vec::with_capacity(pages.len());
    for page in pages {
        let begun = Instant::now();
        write(strategy, columns[0], std::slice::from_ref(page))?;
        times.push(microseconds(begun.elapsed()));
    }
    drop(view);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], mean))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn json(arguments: &Arguments, stages: &[Stage]) -> String {
    let list = |values: &[f64]| values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(",");
    let stage = |s: &Stage| {
        format!(
            r#"{{"written":{},"create_us":[{}],"release_us":[{}],"sparse_write_us":{:.4},"dense_write_us":{:.4}}}"#,
            s.written,
            list(&s.create),
            list(&s.release),
            s.sparse_write,
            s.dense_write
        )
    };
    let stages = stages.iter().map(stage).collect::<Vec<_>>().join(",");
    let Arguments { strategy, columns, column_bytes, seed, .. } = arguments;
    format!(
        r#"{{"strategy":"{strategy}","columns":{columns},"column_bytes":{column_bytes},"seed":{seed},"stages":[{stages}]}}"#
    )
}
