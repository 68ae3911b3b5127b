//! Texts of expressions as PostgreSQL words them again: settled once they stay so, and what is
//! quoted stays as it is.

#![no_main]

use chainify_sqltext::settled;
use libfuzzer_sys::fuzz_target;

/// The strings and names in quotes.
fn quoted(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some(at) = text.find(['\'', '"']) {
        let end = text[at + 1..].find(&text[at..=at]).map_or(text.len(), |length| at + length + 2);
        found.push(&text[at..end]);
        text = &text[end..];
    }
    found
}

fuzz_target!(|text: &str| {
    let once = settled(text);
    assert_eq!(quoted(&once), quoted(text));
    assert_eq!(settled(&once), once);
});
