//! The transactions of a block as handed to the database: what is taken apart is put together to
//! the same bytes.

#![no_main]

use chainify_ledger::block_buffer::{join, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(transactions) = split(bytes) {
        assert_eq!(join(&transactions), bytes);
    }
});
