//! Names of prepared local changes, and what becomes of them (W4).

use chainify_worker::prepared::{Fate, Known, Name};
use proptest::prelude::*;

#[test]
fn a_name_is_read_as_it_was_printed() {
    for (byte, valid_until) in [(0, 0), (0xab, 1), (255, u64::MAX)] {
        let name = Name { id: [byte; 32], valid_until };
        assert_eq!(Name::parse(&name.to_string()), Some(name));
    }
    let id = "0a".repeat(32);
    assert!(Name::parse(&format!("chainify:{id}:7")).is_some());
    for other in [
        "",
        "chainify:",
        "chainify:1:7",
        &format!("Chainify:{id}:7"),
        &format!("chainify:{id}"),
        &format!("chainify:{id}:"),
        &format!("chainify:{id}:07"),
        &format!("chainify:{id}:+7"),
        &format!("chainify:{id}:7 "),
        &format!("chainify:{id}:18446744073709551616"),
        &format!("chainify:{id}00:7"),
        &format!("chainify:{}:7", "0A".repeat(32)),
        &format!("chainify:{}:7", "+a".repeat(32)),
        &format!("chainify:{}:7", "é".repeat(32)),
    ] {
        assert_eq!(Name::parse(other), None, "{other}");
    }
}

#[test]
fn changes_follow_the_outcome_and_nothing_is_guessed() {
    let name = Name { id: [1; 32], valid_until: 10 };
    let fate = |succeeded, height| name.fate(Known { succeeded, height });
    for height in [0, 10, 11] {
        assert_eq!(fate(Some(true), height), Fate::Commit);
        assert_eq!(fate(Some(false), height), Fate::RollBack);
    }
    assert_eq!(fate(None, 0), Fate::Open);
    assert_eq!(fate(None, 10), Fate::Open);
    assert_eq!(fate(None, 11), Fate::RollBack);
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    /// One spelling is accepted, and nothing panics.
    #[test]
    fn a_name_that_is_read_prints_the_same(text in r"(chainify:)?([0-9a-f]{64}|.{0,70}):?([0-9]{0,21}|.{0,4})") {
        if let Some(name) = Name::parse(&text) {
            prop_assert_eq!(name.to_string(), text);
        }
    }
}
