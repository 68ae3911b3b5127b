//! Gives random tests their numbers. Only tests depend on this crate.
//!
//! The seed is that of the environment variable `SEED`, or the day's in UTC. A test that fails
//! prints the command that repeats it.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

const SECONDS_OF_A_DAY: u64 = 86_400;
/// Seeds counted on from one day's are no other day's.
const SEEDS_OF_A_DAY: u64 = 100_000;

/// Checks `test` on `cases` values; panics with the smallest failing one.
pub fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: std::fmt::Debug,
{
    if let Err(error) = TestRunner::new(config(cases)).run(&strategy, test) {
        panic!("{error}");
    }
}

/// For `proptest!`: `#![proptest_config(chainify_seeded::config(256))]`.
pub fn config(cases: u32) -> Config {
    let seed = seed();
    let thread = std::thread::current();
    // Shown for a test that fails alone.
    println!(
        "repeat this with: SEED={seed} cargo test -p {} {}",
        std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
        thread.name().unwrap_or_default()
    );
    Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() }
}

fn seed() -> u64 {
    let given = std::env::var("SEED").ok().filter(|text| !text.is_empty());
    given.map_or_else(of_the_day, |text| text.parse().expect("SEED is a number"))
}

#[expect(clippy::disallowed_types, reason = "a clock is no part of what is tested")]
fn of_the_day() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / SECONDS_OF_A_DAY * SEEDS_OF_A_DAY)
}
