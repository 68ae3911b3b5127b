//! Messages between extension and analytics worker: they are the same however they arrive, and end
//! where they say.

#![no_main]

use std::fmt::Debug;

use chainify_dialect::wire::{take, take_asked, take_first, Malformed};
use libfuzzer_sys::fuzz_target;

type Taken<M> = Result<Option<(M, usize)>, Malformed>;

/// The messages in `bytes` as one reads them who sees so many bytes more each time.
fn taken<'m, M>(bytes: &'m [u8], step: usize, take: impl Fn(&'m [u8]) -> Taken<M>) -> Vec<Result<M, Malformed>> {
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

fn is_the_same<'m, M: Debug + PartialEq>(bytes: &'m [u8], take: impl Fn(&'m [u8]) -> Taken<M>) {
    assert_eq!(taken(bytes, bytes.len(), &take), taken(bytes, 1, &take));
}

fuzz_target!(|bytes: &[u8]| {
    if !bytes.is_empty() {
        is_the_same(bytes, take);
        is_the_same(bytes, take_asked);
        is_the_same(bytes, take_first);
    }
});
