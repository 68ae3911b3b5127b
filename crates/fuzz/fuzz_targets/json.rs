//! JSON: takes what another parser takes, and its one spelling means the same.

#![no_main]

use chainify_codec::{decode_value, value, Value, ValueError};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value as Json;

fn encoded(text: &str) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    value::json(&mut out, text).map(|()| out)
}

/// Without numbers: the other parser rounds them.
fn shape(json: Json) -> Json {
    match json {
        Json::Number(_) => Json::from(0),
        Json::Array(elements) => elements.into_iter().map(shape).collect(),
        Json::Object(members) => members.into_iter().map(|(key, member)| (key, shape(member))).collect(),
        json => json,
    }
}

fuzz_target!(|text: &str| {
    let well_formed = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let bytes = match encoded(text) {
        Ok(bytes) => bytes,
        // JSON that is refused all the same has no canonical form.
        Err(ValueError::NumericRange) => return,
        Err(ValueError::Json { what, .. }) if what == "nested too deep" || what.contains("surrogate") => return,
        Err(error) => return assert!(!well_formed, "{error}"),
    };
    assert!(well_formed);
    let Ok(Value::Json(spelled)) = decode_value(&bytes) else { panic!("what was written is read") };
    assert_eq!(encoded(&spelled), Ok(bytes));
    if let Ok(json) = serde_json::from_str::<Json>(text) {
        assert_eq!(serde_json::from_str(&spelled).map(shape).ok(), Some(shape(json)));
    }
});
