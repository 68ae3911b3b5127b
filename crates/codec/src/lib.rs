//! Canonical bytes of values and rows, and the hashes over them: `spec/formats.md`.
//!
//! Everything is a function of its arguments: no clock, no randomness, no thread, no global. Hashed
//! bytes are length-prefixed and domain-separated, so that two different inputs never have the same
//! bytes.

#![forbid(unsafe_code)]

mod decimal;
mod decode;
mod effects;
mod error;
mod hex;
mod json;
mod lanes;
pub mod merkle;
mod order;
mod procedures;
mod ranges;
mod row;
pub mod schema;
mod sealed;
mod state;
mod tag;
mod text;
mod uuid;
pub mod value;

pub use decode::{decode_row, decode_value, row_fields, Field, Fields, RangeValue, Value, VALUE_DEPTH_MAX};
pub use effects::{
    deploy_effects, effects_root, leaf, merged_root, sort_changes, transaction_effects, Change, Effects, KeyedLeaf, Op,
};
pub use error::{DecodeError, ValueError};
pub use hex::{from_hex, hex};
pub use json::JSON_DEPTH_MAX;
pub use lanes::{definitions, schema_hash, state_root, table_state, LaneHasher, Lanes, DEFINITIONS, LANES_BYTES};
pub use procedures::{procedures_state, Procedure, PROCEDURES};
pub use ranges::{key_hash, key_hash_range, key_range, KeyRanges, RangeDigest, SecretHasher, RANGE_BITS_MAX};
pub use row::{row_hash, RowHasher, RowWriter};
pub use sealed::{SealedColumn, SALT_BYTES};
pub use state::{State, States};
pub use tag::Tag;
pub use uuid::transaction_uuid;

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// SHA-256 of the parts, one after the other; the caller prefixes lengths.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The length in front of `bytes` in `lp(bytes)`.
pub(crate) fn length_prefix(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("names, keys and texts are below PostgreSQL's limit of 1 GB").to_be_bytes()
}
