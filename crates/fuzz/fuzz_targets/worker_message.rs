//! Messages of the analytics worker: they are the same however they arrive, and end where they say.

#![no_main]

use chainify_dialect::wire::{take, Malformed, Message};
use libfuzzer_sys::fuzz_target;

/// The messages in `bytes` as one reads them who sees so many bytes more each time.
fn taken(bytes: &[u8], step: usize) -> Vec<Result<Message<'_>, Malformed>> {
    let (mut seen, mut used, mut messages) = (0, 0, Vec::new());
    while seen < bytes.len() {
        seen = (seen + step).min(bytes.len());
        loop {
            match take(&bytes[used..seen]) {
                Ok(Some((message, length))) => {
                    assert!(length >= 5 && used + length <= seen);
                    used += length;
                    messages.push(Ok(message));
                }
                Ok(None) => break,
                Err(malformed) => {
                    messages.push(Err(malformed));
                    return messages;
                }
            }
        }
    }
    messages
}

fuzz_target!(|bytes: &[u8]| {
    if !bytes.is_empty() {
        assert_eq!(taken(bytes, bytes.len()), taken(bytes, 1));
    }
});
