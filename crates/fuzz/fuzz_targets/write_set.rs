//! Write sets of EFFECTS transactions: what decodes encodes to the same bytes (L1), and names no
//! table that it does not list.

#![no_main]

use chainify_ledger::write_set::{End, Isolation, WriteSet, BOUNDS_MAX, READS_MAX, TABLES_MAX};
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
    let tables = set.changes.iter().map(|change| change.table).chain(set.seen.iter().map(|row| row.table));
    let mut tables = tables.chain(set.reads.iter().map(|read| read.table));
    assert!(tables.all(|table| usize::from(table) < set.tables.len()));
    assert!(set.seen.is_sorted_by_key(|row| (row.table, row.key.clone())));
    assert!(set.reads.is_empty() || set.isolation == Isolation::Serializable);
    assert!(set.reads.len() <= READS_MAX);
    for read in &set.reads {
        assert!(read.bounds.len() <= BOUNDS_MAX);
        assert!(read.bounds.windows(2).all(|two| two[0].ordinal < two[1].ordinal));
        assert!(read.bounds.iter().all(|bound| (&bound.lower, &bound.upper) != (&End::None, &End::None)));
    }
});
