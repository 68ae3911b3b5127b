//! Digests and receipts kept elsewhere: what is read of one is written and read as the same.

#![no_main]

use chainify_ledger::digest::Digest;
use chainify_ledger::receipt::to_json;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The digest made of what was read; `None` when that is no block.
fn written(digest: &Digest) -> Option<Value> {
    let header = digest.block.header(&digest.chain_id).ok()?;
    Some(to_json(&header, &digest.certificate().ok()?, None, None))
}

fuzz_target!(|text: &str| {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return };
    let Some(once) = Digest::read(&json).ok().as_ref().and_then(written) else { return };
    let again = Digest::read(&once).expect("what was written is read");
    assert_eq!(written(&again).as_ref(), Some(&once));
    assert_eq!(again.block.header(&again.chain_id).map(|header| header.hash().to_vec()), Ok(again.block.hash));
    for (field, value) in [("chain_id", &json["chain_id"]), ("block", &json["block"])] {
        assert!(same(value, &once[field]), "{field}: {value} became {}", once[field]);
    }
});

/// Whether what `once` says was said before: in a field beside others, in capitals.
fn same(before: &Value, once: &Value) -> bool {
    match (before, once) {
        (Value::Object(before), Value::Object(once)) => once.iter().all(|(field, value)| same(&before[field], value)),
        (Value::String(before), Value::String(once)) => before.eq_ignore_ascii_case(once),
        (before, once) => before == once,
    }
}
