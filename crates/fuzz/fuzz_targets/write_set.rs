//! Write sets of EFFECTS transactions: what decodes encodes to the same bytes (L1), and names no
//! table that it does not list.

#![no_main]

use chainify_ledger::write_set::{WriteSet, TABLES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let set = match WriteSet::decode_structure(bytes) {
        Ok(set) => set,
        Err(error) => {
            assert!(error.field.starts_with("effects"), "{error}");
            return assert_eq!(WriteSet::decode(bytes), Err(error));
        }
    };
    match (set.check_values(), WriteSet::decode(bytes)) {
        (Ok(()), Ok(decoded)) => assert_eq!(decoded, set),
        (Err(error), Err(refusal)) => assert_eq!(error, refusal),
        (values, decoded) => panic!("{values:?}, but {decoded:?}"),
    }
    assert_eq!(set.encode(), bytes);
    assert!((1..=TABLES_MAX).contains(&set.tables.len()));
    let mut tables = set.changes.iter().map(|change| change.table).chain(set.seen.iter().map(|row| row.table));
    assert!(tables.all(|table| usize::from(table) < set.tables.len()));
    assert!(set.seen.is_sorted_by_key(|row| (row.table, row.key.clone())));
});
