//! Changes of local tables that a session has prepared (PREPARE TRANSACTION) beside its ledger
//! transaction: their name and their end.
//!
//! Invariant W4: prepared local changes are committed only when the ledger transaction of their
//! name succeeded. They are rolled back only when it failed, or can succeed no more.

use std::fmt;

use chainify_codec::{from_hex, hex};

const PREFIX: &str = "chainify:";
const ID_BYTES: usize = 32;

/// The name of a prepared transaction: `chainify:<id>:<height>`, the id in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Of the ledger transaction.
    pub id: [u8; ID_BYTES],
    /// The last order height at which the ledger may accept it.
    pub valid_until: u64,
}

impl Name {
    /// Reads a name; `None`: it is one of others, or spelled otherwise than [`Name`] prints it.
    pub fn parse(text: &str) -> Option<Name> {
        let (digits, valid_until) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let id = from_hex(digits)?.try_into().ok()?;
        let name = Name { id, valid_until: valid_until.parse().ok()? };
        Some(name).filter(|name| name.to_string() == text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}:{}", hex(&self.id), self.valid_until)
    }
}

/// The knowledge that the ledger of this database has of a transaction, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Whether it succeeded; `None`: no block has it.
    pub succeeded: Option<bool>,
    /// The order height of the last block.
    pub height: u64,
}

/// The end of prepared changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Their ledger transaction succeeded.
    Commit,
    /// It failed, or no block will have it: the ledger is past its last height.
    RollBack,
    /// It may still get an outcome.
    Open,
}

impl Name {
    /// The end of the changes of this name.
    pub fn fate(&self, known: Known) -> Fate {
        match known.succeeded {
            Some(true) => Fate::Commit,
            Some(false) => Fate::RollBack,
            None if known.height > self.valid_until => Fate::RollBack,
            None => Fate::Open,
        }
    }
}
