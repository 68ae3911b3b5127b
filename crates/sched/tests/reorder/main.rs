//! The order of EFFECTS transactions: examples, vectors, properties against models, hostile blocks.

#![expect(clippy::unwrap_used, reason = "tests")]

mod examples;
mod hostile;
mod model;
mod parts;
mod properties;
mod vectors;

use chainify_sched::reorder::Accesses;

/// The places that a transaction sees, and those that it writes.
pub(crate) fn transaction(sees: &[u32], writes: &[u32]) -> Accesses {
    Accesses { sees: sees.to_vec(), writes: writes.to_vec() }
}

/// T0 to T5 of Fabric++, table 3.
pub(crate) fn dissertation() -> Vec<Accesses> {
    vec![
        transaction(&[0, 1], &[2]),
        transaction(&[3, 4, 5], &[0]),
        transaction(&[6, 7], &[3, 9]),
        transaction(&[2, 8], &[1, 4]),
        transaction(&[9], &[5, 6, 8]),
        transaction(&[], &[7]),
    ]
}
