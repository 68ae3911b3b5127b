//! BLAKE3's extendable output for short messages, eight blocks of output at a time.
//!
//! A row is hashed into 2048 bytes (`spec/formats.md`, state of a table): 32 compressions that
//! differ in their counter alone. With AVX-512 the library makes sixteen at a time, in a fifth of
//! the time of this crate. On a processor with AVX2 alone, the library makes one after the other;
//! here eight take the time of two.
//!
//! The crate is apart from the others because calling it is `unsafe`: only a running program knows
//! whether its processor has AVX2.
//!
//! Source: O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3", 2020, sections 2.2 to 2.6.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod sizes;

pub use sizes::BYTES;
use sizes::CHUNK;

/// Fills `out` with BLAKE3's output for `prefix` followed by `row`. Cost: with AVX-512 0.3 µs, with
/// AVX2 1.3 µs. That is a compression for each 64 bytes of a message of up to 1024 bytes, and four
/// for the output, each of about the time of two of the library's.
pub fn fill(prefix: &[u8], row: &[u8], out: &mut [u8; BYTES]) {
    if library_is_wide() || !fill_by_eight(prefix, row, out) {
        blake3::Hasher::new().update(prefix).update(row).finalize_xof().fill(out);
    }
}

/// Whether the library makes several blocks of output at a time.
fn library_is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// [`fill`] with AVX2; false: nothing was done, it takes another processor or a shorter message.
#[cfg(target_arch = "x86_64")]
fn fill_by_eight(prefix: &[u8], row: &[u8], out: &mut [u8; BYTES]) -> bool {
    let length = prefix.len() + row.len();
    if length > CHUNK || !is_x86_feature_detected!("avx2") {
        return false;
    }
    let mut chunk = [0; CHUNK];
    chunk[..prefix.len()].copy_from_slice(prefix);
    chunk[prefix.len()..length].copy_from_slice(row);
    // SAFETY: the processor has AVX2.
    unsafe { avx2::fill(&chunk, length, out) };
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn fill_by_eight(_: &[u8], _: &[u8], _: &mut [u8; BYTES]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn library(message: &[u8]) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        blake3::Hasher::new().update(message).finalize_xof().fill(&mut out);
        out
    }

    /// The output of each way that this machine has.
    fn ours(prefix: &[u8], row: &[u8]) -> Vec<[u8; BYTES]> {
        let (mut out, mut by_eight) = ([0xa5; BYTES], [0xa5; BYTES]);
        fill(prefix, row, &mut out);
        let possible = fill_by_eight(prefix, row, &mut by_eight);
        [Some(out), possible.then_some(by_eight)].into_iter().flatten().collect()
    }

    fn is_as_the_library_has_it(prefix: &[u8], row: &[u8]) -> bool {
        let wanted = library(&[prefix, row].concat());
        ours(prefix, row).iter().all(|out| *out == wanted)
    }

    /// Around every length at which the number of blocks changes, and beyond one chunk.
    #[test]
    fn every_length_is_as_the_library_has_it() {
        let message: Vec<u8> = (0..CHUNK + 100).map(|i| (i * 31 % 251) as u8).collect();
        for length in 0..=message.len() {
            let (prefix, row) = message[..length].split_at(length / 3);
            assert!(is_as_the_library_has_it(prefix, row), "length {length}");
        }
    }

    proptest! {
        #![proptest_config(chainify_seeded::config(256))]

        #[test]
        fn random_messages_are_as_the_library_has_them(
            prefix in proptest::collection::vec(any::<u8>(), 0..100), row in proptest::collection::vec(any::<u8>(), 0..1200)
        ) {
            prop_assert!(is_as_the_library_has_it(&prefix, &row));
        }
    }
}
