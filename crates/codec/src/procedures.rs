//! The state of the procedures on a ledger of several engines (spec/engines.md).

use crate::{length_prefix, sha256, Hash};

/// The name under which that state stands in the state root; a table's has a dot.
pub const PROCEDURES: &str = "procedures";

/// A procedure that each engine has in words of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// `public.name`.
    pub name: String,
    /// The logical types of its parameters, in parentheses.
    pub signature: String,
    /// Engines, ascending, each with the SHA-256 of its words.
    pub digests: Vec<(&'static str, Hash)>,
}

/// `H("chainify/procedures/1" ‖ u32 count ‖ per procedure: lp(name) ‖ lp(signature) ‖ u32 engines ‖
/// per engine: lp(engine) ‖ digest)`, procedures given in any order and sorted by name, byte-wise.
pub fn procedures_state(mut procedures: Vec<Procedure>) -> Hash {
    procedures.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let count = |of: usize| u32::try_from(of).expect("a catalog has fewer than 2^32 rows").to_be_bytes();
    let mut bytes = b"chainify/procedures/1".to_vec();
    let add = |bytes: &mut Vec<u8>, part: &str| {
        bytes.extend_from_slice(&length_prefix(part.as_bytes()));
        bytes.extend_from_slice(part.as_bytes());
    };
    bytes.extend_from_slice(&count(procedures.len()));
    for procedure in &procedures {
        add(&mut bytes, &procedure.name);
        add(&mut bytes, &procedure.signature);
        bytes.extend_from_slice(&count(procedure.digests.len()));
        for (engine, digest) in &procedure.digests {
            add(&mut bytes, engine);
            bytes.extend_from_slice(digest);
        }
    }
    sha256(&[&bytes])
}
