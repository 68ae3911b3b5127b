//! The answers of another organisation about its tables: they are read as they were told, and
//! ranges are such.

#![no_main]

use chainify_codec::hex;
use chainify_ledger::told::tables;
use libfuzzer_sys::fuzz_target;
use serde_json::{json, Value};

fuzz_target!(|text: &str| {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return };
    let Ok(read) = tables(&json) else { return };
    for (table, told) in read.iter().zip(json.as_array().expect("is a list")) {
        let (bits, ranges) = (table.ranges.bits(), table.ranges.ranges());
        assert_eq!(json!([table.name, bits, ranges]), json!([told["name"], told["bits"], told["ranges"]]));
        assert_eq!(Some(hex(&table.state)), told["state"].as_str().map(str::to_ascii_lowercase));
        assert!(
            ranges.windows(2).all(|pair| pair[0] < pair[1]) && ranges.iter().all(|range| u64::from(*range) < 1 << bits)
        );
        // A key whose hash begins as a range does is in that range.
        let mut hash = [0; 32];
        assert!(ranges.iter().all(|range| {
            hash[..4].copy_from_slice(&(u64::from(*range) << (32 - bits)).to_be_bytes()[4..]);
            table.ranges.have(&hash)
        }));
    }
    let again: Vec<_> = read
        .iter()
        .map(|t| json!({"name": t.name, "state": hex(&t.state), "bits": t.ranges.bits(), "ranges": t.ranges.ranges()}))
        .collect();
    assert_eq!(tables(&Value::Array(again)), Ok(read));
});
