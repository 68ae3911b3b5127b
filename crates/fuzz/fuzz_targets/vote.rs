//! Vote extensions: what decodes encodes to the same bytes (L1), and only no bytes are no vote.

#![no_main]

use chainify_ledger::vote::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match decode(bytes) {
        Ok(Some(vote)) => assert_eq!(encode(&vote), bytes),
        Ok(None) => assert!(bytes.is_empty()),
        Err(_) => {}
    }
});
