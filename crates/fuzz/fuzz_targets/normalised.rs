//! SQL texts with their literals numbered: once normalised they stay so, and other literals
//! normalise to the same.

#![no_main]

use chainify_sqltext::{called_names, normalised, shape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|sql: &str| {
    let once = normalised(sql);
    assert_eq!(normalised(&once), once);
    assert!(called_names(sql).iter().all(|name| sql.to_lowercase().contains(name.as_str())));
    // Literals are what those find who look for them more strictly.
    if let Some(found) = shape(sql) {
        let (mut numbered, mut at) = (String::new(), 0);
        for (literal, number) in found.literals.iter().zip(found.parameter_max + 1..) {
            numbered += &format!("{}${number}", &sql[at..literal.at]);
            at = literal.end;
        }
        assert_eq!(numbered + &sql[at..], once);
    }
});
