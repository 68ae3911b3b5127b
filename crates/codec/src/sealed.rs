//! Commitments of private values (`spec/private.md`): what the ledger has in a sealed column in the
//! place of a value.

use sha2::{Digest, Sha256};

use crate::{length_prefix, Hash};

/// Length of a salt.
pub const SALT_BYTES: usize = 32;

/// Commitments of one sealed column, with the constant part absorbed once.
#[derive(Clone)]
pub struct SealedColumn(Sha256);

impl SealedColumn {
    /// `table` is `schema.name`, unquoted; `of` the logical type, as `format_type` has it.
    pub fn new(chain_id: &str, table: &str, column: &str, of: &str) -> Self {
        let mut prefix = Sha256::new().chain_update(b"chainify/sealed/1");
        for name in [chain_id, table, column, of] {
            prefix.update(length_prefix(name.as_bytes()));
            prefix.update(name);
        }
        Self(prefix)
    }

    /// `H("chainify/sealed/1" ‖ lp(chain id) ‖ lp(table) ‖ lp(column) ‖ lp(type) ‖ salt ‖ value)`,
    /// the value as a function of [`crate::value`] writes it. Cost: one SHA-256 over the value.
    pub fn commitment(&self, salt: &[u8; SALT_BYTES], value: &[u8]) -> Hash {
        self.0.clone().chain_update(salt).chain_update(value).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_counts() {
        let of = |chain, table, column, of, salt, value: &[u8]| {
            SealedColumn::new(chain, table, column, of).commitment(&[salt; SALT_BYTES], value)
        };
        let all = [
            of("c", "public.t", "p", "numeric", 0, b"1"),
            of("d", "public.t", "p", "numeric", 0, b"1"),
            of("c", "public.u", "p", "numeric", 0, b"1"),
            of("c", "public.t", "q", "numeric", 0, b"1"),
            of("c", "public.t", "p", "text", 0, b"1"),
            of("c", "public.t", "p", "numeric", 1, b"1"),
            of("c", "public.t", "p", "numeric", 0, b"2"),
            // A name's end is no other name's begin.
            of("c", "public.tp", "", "numeric", 0, b"1"),
            of("cpublic.t", "", "p", "numeric", 0, b"1"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
