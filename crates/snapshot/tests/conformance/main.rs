//! One suite for every strategy that this machine has (V1 to V4).

#![allow(clippy::unwrap_used, reason = "tests")]
mod groups;
mod memory;
mod model;
mod tables;
mod threads;

use std::sync::Arc;

use chainify_snapshot::{Chunks, Copy, Error, Fork, Pool, Rewire, Strategy, VmSnapshot};

/// Makes a strategy over a pool.
type Make = fn(Arc<Pool>) -> Box<dyn Strategy>;

/// The strategies of this machine. `vm_snapshot` is tested with its stand-in where there is no
/// call.
fn strategies() -> Vec<Make> {
    let mut all: Vec<Make> = vec![
        |pool| Box::new(Chunks::new(pool)),
        |pool| Box::new(Copy::new(pool)),
        |pool| Box::new(Fork::new(pool)),
        |pool| Box::new(Rewire::new(pool)),
        |pool| Box::new(VmSnapshot::stand_in(pool)),
    ];
    match VmSnapshot::new(Pool::new(0)) {
        Ok(_) => all.push(|pool| Box::new(VmSnapshot::new(pool).unwrap())),
        Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
    }
    all
}

const MIB: usize = 1024 * 1024;

/// Runs a test over every strategy, each with a pool of so many bytes, and names it on a failure.
fn each(bytes_max: usize, test: impl Fn(&Arc<Pool>, Make)) {
    for make in strategies() {
        let pool = Pool::new(bytes_max);
        eprintln!("strategy {}", make(Pool::new(MIB)).name());
        test(&pool, make);
        assert_eq!(pool.usage().used, 0, "V4: all memory came back");
    }
}
