//! Agreement policies: the one spelling reads as the same, and all whom a policy names are enough for it (C1).

#![no_main]

use chainify_agreement::{Policy, NAMES_MAX, TEXT_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(error) => return assert!(error.position <= text.chars().count()),
    };
    let names = policy.columns().len() + policy.organisations().len();
    assert!(text.len() <= TEXT_BYTES_MAX && (1..=NAMES_MAX).contains(&names));
    let spelled = policy.to_string();
    assert_eq!(Policy::parse(&spelled).as_ref(), Ok(&policy));
    assert_eq!(Policy::parse(&spelled).map(|policy| policy.to_string()), Ok(spelled));

    let value = |column: &str| Some(column.to_owned());
    let missing = policy.need(&value, &|_| false).expect("nobody is not enough");
    assert_eq!(policy.need(&value, &|name| missing.organisations().contains(name)), None);
    assert_eq!(policy.need(&value, &|_| true), None);
});
