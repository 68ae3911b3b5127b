//! BLAKE3's extendable output for short messages, eight blocks of output at a time.
//!
//! A row is hashed into 2048 bytes (`spec/formats.md`, state of a table), 32 compressions that differ in their counter alone. The
//! library makes one after the other where a processor lacks AVX-512; with AVX2 eight of them take the time of two. It is apart
//! from the other crates because calling it is `unsafe`: whether the processor has AVX2 is known when it runs.
//!
//! Source: O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3", 2020, sections 2.2 to 2.6.

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Bytes of output.
pub const BYTES: usize = 2048;

/// Bytes of the longest message that is one chunk: of longer ones the library makes a tree.
const CHUNK: usize = 1024;

/// Fills `out` with BLAKE3's output for `prefix` followed by `row`. Cost: with AVX2, a compression for each 64 bytes of a message of up to
/// 1024 bytes, and four for the output, each of about the time of two of the library's.
pub fn fill(prefix: &[u8], row: &[u8], out: &mut [u8; BYTES]) {
    #[cfg(target_arch = "x86_64")]
    if prefix.len() + row.len() <= CHUNK && is_x86_feature_detected!("avx2") {
        let mut chunk = [0; CHUNK];
        let length = prefix.len() + row.len();
        chunk[..prefix.len()].copy_from_slice(prefix);
        chunk[prefix.len()..length].copy_from_slice(row);
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::fill(&chunk, length, out) };
    }
    blake3::Hasher::new().update(prefix).update(row).finalize_xof().fill(out);
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

    fn ours(prefix: &[u8], row: &[u8]) -> [u8; BYTES] {
        let mut out = [0xa5; BYTES];
        fill(prefix, row, &mut out);
        out
    }

    /// Around every length at which the number of blocks changes, and beyond one chunk.
    #[test]
    fn every_length_is_as_the_library_has_it() {
        let message: Vec<u8> = (0..CHUNK + 100).map(|i| (i * 31 % 251) as u8).collect();
        for length in 0..=message.len() {
            let (prefix, row) = message[..length].split_at(length / 3);
            assert!(ours(prefix, row) == library(&message[..length]), "length {length}");
        }
    }

    proptest! {
        #[test]
        fn random_messages_are_as_the_library_has_them(
            prefix in proptest::collection::vec(any::<u8>(), 0..100), row in proptest::collection::vec(any::<u8>(), 0..1200)
        ) {
            let message = [prefix.clone(), row.clone()].concat();
            prop_assert!(ours(&prefix, &row) == library(&message));
        }
    }
}
