//! Rows and values as they are hashed: what decodes encodes to the same bytes (L1).

#![no_main]

use chainify_codec::{decode_row, decode_value, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut again = Vec::new();
    match decode_row(bytes) {
        Ok(row) => {
            Value::encode_row(&row, &mut again).expect("what was decoded has an encoding");
            assert_eq!(again, bytes);
        }
        Err(error) => assert!(error.offset <= bytes.len()),
    }
    again.clear();
    if let Ok(value) = decode_value(bytes) {
        value.encode(&mut again).expect("what was decoded has an encoding");
        assert_eq!(again, bytes);
    }
});
