//! Runs properties with a seed that is printed and can be given: `PROPTEST_RNG_SEED=n cargo test`.

use std::hash::{BuildHasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// Checks `test` on `cases` values; panics with the smallest failing one and the seed.
pub fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: std::fmt::Debug,
{
    let given = std::env::var("PROPTEST_RNG_SEED").ok().map(|seed| seed.parse().expect("PROPTEST_RNG_SEED is a u64"));
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("PROPTEST_RNG_SEED={seed}");
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(&strategy, test) {
        panic!("with PROPTEST_RNG_SEED={seed}: {error}");
    }
}
