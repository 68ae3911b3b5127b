//! Eight compressions side by side: word `i` of all eight states is in the vector `i`.

use std::arch::x86_64::*;

use crate::sizes::{BYTES, CHUNK};

/// Bytes of a block of message or output.
const BLOCK: usize = 64;
/// Blocks of output made at once.
const WIDE: usize = 8;

const IV: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];

/// Which word of the message comes where in the next round.
const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const ROUNDS: usize = 7;

/// Which word of the message is the `i`-th of a round. Looking it up costs nothing: it is known
/// while this is compiled. Words that change their places go through memory in each round.
const SCHEDULE: [[usize; 16]; ROUNDS] = schedule();

const fn schedule() -> [[usize; 16]; ROUNDS] {
    let mut rounds = [[0; 16]; ROUNDS];
    let (mut round, mut word) = (0, 0);
    while round < ROUNDS {
        while word < 16 {
            rounds[round][word] = if round == 0 { word } else { rounds[round - 1][PERMUTATION[word]] };
            word += 1;
        }
        (round, word) = (round + 1, 0);
    }
    rounds
}

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 1 << 1;
const ROOT: u32 = 1 << 3;

/// `chunk` holds a message of `length` bytes, and zeros.
#[target_feature(enable = "avx2")]
pub fn fill(chunk: &[u8; CHUNK], length: usize, out: &mut [u8; BYTES]) {
    let last = length.saturating_sub(1) / BLOCK;
    let mut chaining = IV;
    let mut flags = CHUNK_START;
    for block in chunk.chunks_exact(BLOCK).take(last) {
        let state = compress(&chaining, &words(block), 0, BLOCK, flags);
        // The counter of the first is that of the chunk, 0.
        chaining = std::array::from_fn(|word| {
            _mm256_extract_epi32::<0>(_mm256_xor_si256(state[word], state[word + 8])) as u32
        });
        flags = 0;
    }
    let block = words(&chunk[last * BLOCK..][..BLOCK]);
    for (n, out) in out.chunks_exact_mut(WIDE * BLOCK).enumerate() {
        let state = compress(&chaining, &block, n * WIDE, length - last * BLOCK, flags | CHUNK_END | ROOT);
        let low = std::array::from_fn(|word| _mm256_xor_si256(state[word], state[word + 8]));
        let high = std::array::from_fn(|word| _mm256_xor_si256(state[word + 8], splat(chaining[word])));
        for (half, words) in [low, high].into_iter().enumerate() {
            for (block, eight) in out.chunks_exact_mut(BLOCK).zip(transposed(words)) {
                let (halves, _) = block.as_chunks_mut::<32>();
                // SAFETY: the place has the size of a vector, and need not be aligned.
                unsafe { _mm256_storeu_si256(halves[half].as_mut_ptr().cast(), eight) }
            }
        }
    }
}

fn words(block: &[u8]) -> [u32; 16] {
    let (words, _) = block.as_chunks::<4>();
    std::array::from_fn(|word| u32::from_le_bytes(words[word]))
}

/// The states after the last round, for the counters from `counter` on.
#[target_feature(enable = "avx2")]
#[inline]
fn compress(chaining: &[u32; 8], block: &[u32; 16], counter: usize, length: usize, flags: u32) -> [__m256i; 16] {
    let counters = _mm256_add_epi32(splat(counter as u32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    let tail = [counters, splat(0), splat(length as u32), splat(flags)];
    let mut v = std::array::from_fn(|word| match word {
        0..8 => splat(chaining[word]),
        8..12 => splat(IV[word - 8]),
        _ => tail[word - 12],
    });
    let m: [__m256i; 16] = std::array::from_fn(|word| splat(block[word]));
    round::<0>(&mut v, &m);
    round::<1>(&mut v, &m);
    round::<2>(&mut v, &m);
    round::<3>(&mut v, &m);
    round::<4>(&mut v, &m);
    round::<5>(&mut v, &m);
    round::<6>(&mut v, &m);
    v
}

/// One of the seven rounds, with the words of the message.
#[target_feature(enable = "avx2")]
#[inline]
fn round<const ROUND: usize>(v: &mut [__m256i; 16], m: &[__m256i; 16]) {
    let word = const { SCHEDULE[ROUND] };
    mix(v, [0, 4, 8, 12], m[word[0]], m[word[1]]);
    mix(v, [1, 5, 9, 13], m[word[2]], m[word[3]]);
    mix(v, [2, 6, 10, 14], m[word[4]], m[word[5]]);
    mix(v, [3, 7, 11, 15], m[word[6]], m[word[7]]);
    mix(v, [0, 5, 10, 15], m[word[8]], m[word[9]]);
    mix(v, [1, 6, 11, 12], m[word[10]], m[word[11]]);
    mix(v, [2, 7, 8, 13], m[word[12]], m[word[13]]);
    mix(v, [3, 4, 9, 14], m[word[14]], m[word[15]]);
}

/// The quarter-round G.
#[target_feature(enable = "avx2")]
#[inline]
fn mix(v: &mut [__m256i; 16], [a, b, c, d]: [usize; 4], x: __m256i, y: __m256i) {
    v[a] = _mm256_add_epi32(_mm256_add_epi32(v[a], v[b]), x);
    v[d] = rotated_by_bytes::<2>(_mm256_xor_si256(v[d], v[a]));
    v[c] = _mm256_add_epi32(v[c], v[d]);
    v[b] = rotated::<12, 20>(_mm256_xor_si256(v[b], v[c]));
    v[a] = _mm256_add_epi32(_mm256_add_epi32(v[a], v[b]), y);
    v[d] = rotated_by_bytes::<1>(_mm256_xor_si256(v[d], v[a]));
    v[c] = _mm256_add_epi32(v[c], v[d]);
    v[b] = rotated::<7, 25>(_mm256_xor_si256(v[b], v[c]));
}

/// Each word rotated to the right by `RIGHT` bits, which is 32 less `LEFT`.
#[target_feature(enable = "avx2")]
#[inline]
fn rotated<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(x), _mm256_slli_epi32::<LEFT>(x))
}

/// The same by whole bytes, in one instruction.
#[target_feature(enable = "avx2")]
#[inline]
fn rotated_by_bytes<const BYTES: i32>(x: __m256i) -> __m256i {
    let word = |first: i32| i32::from_le_bytes(std::array::from_fn(|byte| (first + (byte as i32 + BYTES) % 4) as u8));
    let [a, b, c, d] = [0, 4, 8, 12].map(word);
    _mm256_shuffle_epi8(x, _mm256_setr_epi32(a, b, c, d, a, b, c, d))
}

/// Rows made columns: word `j` of vector `i` becomes word `i` of vector `j`.
#[target_feature(enable = "avx2")]
#[inline]
fn transposed(v: [__m256i; 8]) -> [__m256i; 8] {
    // Of four vectors, within each half: the words 0, 1, 2, 3 of the half, one vector each.
    let quarter = |i: usize| {
        let (low, high) = (_mm256_unpacklo_epi32(v[i], v[i + 1]), _mm256_unpackhi_epi32(v[i], v[i + 1]));
        let (low_too, high_too) =
            (_mm256_unpacklo_epi32(v[i + 2], v[i + 3]), _mm256_unpackhi_epi32(v[i + 2], v[i + 3]));
        [
            _mm256_unpacklo_epi64(low, low_too),
            _mm256_unpackhi_epi64(low, low_too),
            _mm256_unpacklo_epi64(high, high_too),
            _mm256_unpackhi_epi64(high, high_too),
        ]
    };
    let (first, second) = (quarter(0), quarter(4));
    std::array::from_fn(|word| match word {
        0..4 => _mm256_permute2x128_si256::<0x20>(first[word], second[word]),
        _ => _mm256_permute2x128_si256::<0x31>(first[word - 4], second[word - 4]),
    })
}

#[target_feature(enable = "avx2")]
#[inline]
fn splat(word: u32) -> __m256i {
    _mm256_set1_epi32(word as i32)
}
