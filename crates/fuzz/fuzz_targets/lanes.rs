//! The stored state of a table: exactly as long as its lanes, read back as written, and what is
//! added can be taken away.

#![no_main]

use chainify_codec::{Lanes, LANES_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(lanes) = Lanes::from_bytes(bytes) else { return assert_ne!(bytes.len(), LANES_BYTES) };
    assert_eq!(lanes.to_bytes(), bytes);
    let mut state = lanes.clone();
    state.add("public.t", bytes);
    state.merge(&lanes);
    state.sub("public.t", bytes);
    state.remove(&lanes);
    assert_eq!(state, lanes);
});
