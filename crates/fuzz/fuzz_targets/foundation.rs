//! Parts of the foundation that another organisation tells: what decodes encodes to the same bytes
//! (L1).

#![no_main]

use chainify_ledger::foundation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(part) = foundation::decode(bytes) {
        assert_eq!(foundation::encode(&part), bytes);
    }
});
