//! Changes and rows that another organisation tells: what decodes encodes to the same bytes (L1).

#![no_main]

use chainify_ledger::{cells, change};
use libfuzzer_sys::fuzz_target;

fn check_cells(bytes: &[u8]) {
    let Ok(row) = cells::decode_any(bytes) else { return };
    assert_eq!(cells::encode(&row), bytes);
    assert!(cells::decode(bytes, row.len()).is_ok() && cells::decode(bytes, row.len() + 1).is_err());
}

fuzz_target!(|bytes: &[u8]| {
    check_cells(bytes);
    if let Ok(told) = change::decode(bytes) {
        assert_eq!(change::encode(&told), bytes);
        check_cells(told.cells);
    }
});
