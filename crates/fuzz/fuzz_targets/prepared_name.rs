//! The name of a prepared transaction, which any session of the database may choose.
#![no_main]
use chainify_worker::prepared::{Fate, Known, Name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some(name) = Name::parse(text) else { return };
    assert_eq!(name.to_string(), text, "a name has one spelling");
    let fate = |succeeded, height| name.fate(Known { succeeded, height });
    assert_eq!(fate(Some(true), u64::MAX), Fate::Commit);
    assert_eq!(fate(Some(false), 0), Fate::RollBack);
    assert_eq!(fate(None, name.valid_until), Fate::Open, "the ledger may still accept it");
});
