//! Agreement policies: the one spelling reads as the same, and all whom a policy names are enough
//! for it (C1).

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
    let again = Policy::parse(&spelled);
    assert_eq!(again.as_ref(), Ok(&policy));
    assert_eq!(again.map(|again| again.to_string()), Ok(spelled));

    let value = |column: &str| Some(column.to_owned());
    let missing = policy.need(&value, &|_| false).expect("nobody is not enough");
    let enough = missing.organisations();
    assert_eq!(policy.need(&value, &|name| enough.contains(name)), None);
    assert_eq!(policy.need(&value, &|_| true), None);
});
