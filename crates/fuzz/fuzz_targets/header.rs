//! LedgerBlocks: what decodes encodes to the same bytes (L1), and its outcomes are as many as it
//! says.

#![no_main]

use chainify_ledger::{LedgerBlock, Outcomes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(block) = LedgerBlock::decode(bytes) else { return };
    assert_eq!(block.encode(), bytes);
    let outcomes = &block.outcomes;
    assert_eq!(outcomes.succeeded(outcomes.count()), None);
    let mut again = Outcomes::failed(outcomes.count());
    (0..outcomes.count()).filter(|i| outcomes.succeeded(*i) == Some(true)).for_each(|i| again.succeed(i));
    assert_eq!(again, *outcomes);
});
