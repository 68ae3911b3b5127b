//! Effect certificates: the votes of at least c organisations for one LedgerBlockHash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chainify_codec::hex;
use ed25519_dalek::{Signature, VerifyingKey};

use crate::vote::{self, salted, EffectVote, Verdict};
use crate::{sha256, Hash, WireError};

/// Votes of a certificate.
pub const VOTES_MAX: usize = 1_000;
const ADDRESS_BYTES: usize = 20;

/// A consensus key and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validator {
    /// Ed25519.
    pub public_key: Vec<u8>,
    /// The organisation it votes for.
    pub organisation: String,
}

/// CometBFT's address of an Ed25519 key: the first 20 bytes of its SHA-256.
pub fn address(public_key: &[u8]) -> [u8; ADDRESS_BYTES] {
    let hash = sha256(&[public_key]);
    std::array::from_fn(|i| hash[i])
}

/// One organisation's vote, with what checking its signature needs. As stored: nothing in it is
/// trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedVote {
    /// Whose vote it is said to be.
    pub organisation: String,
    /// CometBFT address of the validator that signed.
    pub validator: Vec<u8>,
    /// Order height of the precommit.
    pub height: i64,
    /// CometBFT's round of the precommit.
    pub round: i32,
    /// The vote extension.
    pub extension: Vec<u8>,
    /// Ed25519, over [`vote::sign_bytes`].
    pub signature: Vec<u8>,
}

/// The certificate of a ledger block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Number of the ledger block.
    pub number: u64,
    /// The effect round in which consent was reached.
    pub effect_round: u32,
    /// The LedgerBlockHash agreed on.
    pub hash: Hash,
    /// The votes for it.
    pub votes: Vec<CertifiedVote>,
}

/// The facts that a certificate has to fit.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The chain it belongs to.
    pub chain_id: &'a str,
    /// Number of the ledger block.
    pub number: u64,
    /// LedgerBlockHash of that block.
    pub hash: Hash,
    /// Every validator of the consortium.
    pub validators: &'a [Validator],
    /// c: how many organisations have to agree.
    pub consent: usize,
}

/// One defect of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is of another ledger block.
    Number {
        /// The block it should be of.
        want: u64,
        /// The block it is of.
        found: u64,
    },
    /// It certifies another hash than the block has.
    Hash {
        /// Hash of the block.
        want: Hash,
        /// Hash it certifies.
        found: Hash,
    },
    /// It has more than [`VOTES_MAX`] votes, which are not looked at.
    TooManyVotes(usize),
    /// A vote does not count.
    Vote {
        /// Position in the certificate, from 0.
        index: usize,
        /// Whose vote it is said to be.
        organisation: String,
        /// Why it does not count.
        defect: VoteDefect,
    },
    /// Fewer organisations agree than have to.
    Consent {
        /// How many have to.
        want: usize,
        /// How many do.
        found: usize,
    },
}

/// Why a vote does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteDefect {
    /// No validator has this address.
    UnknownValidator,
    /// The validator votes for another organisation, named here.
    ValidatorOf(String),
    /// The extension cannot be read, or is empty.
    Extension(Option<WireError>),
    /// The vote is for another ledger block, named here.
    OtherBlock(u64),
    /// The vote is of another effect round, named here.
    OtherRound(u32),
    /// The vote names another order block than the votes before it.
    OtherOrder(Hash),
    /// The vote says stuck, at the transaction with this index.
    Stuck(u32),
    /// The vote is for other effects.
    OtherEffects,
    /// The signature does not fit the vote and the validator's key.
    Signature,
    /// The organisation has voted already.
    Repeated,
}

/// Everything wrong with a certificate; empty when it is valid. Cost: one signature verification
/// per vote.
///
/// Each organisation counts once, however many validators it has.
pub fn check(certificate: &Certificate, expected: &Expected<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if certificate.number != expected.number {
        findings.push(Finding::Number { want: expected.number, found: certificate.number });
    }
    if certificate.hash != expected.hash {
        findings.push(Finding::Hash { want: expected.hash, found: certificate.hash });
    }
    if certificate.votes.len() > VOTES_MAX {
        findings.push(Finding::TooManyVotes(certificate.votes.len()));
        return findings;
    }
    let mut tally = Tally::new(certificate, expected);
    for (index, vote) in certificate.votes.iter().enumerate() {
        if let Err(defect) = tally.count(vote) {
            findings.push(Finding::Vote { index, organisation: vote.organisation.clone(), defect });
        }
    }
    if tally.agreeing.len() < expected.consent.max(1) {
        findings.push(Finding::Consent { want: expected.consent.max(1), found: tally.agreeing.len() });
    }
    findings
}

struct Tally<'a> {
    certificate: &'a Certificate,
    chain_id: &'a str,
    validators: BTreeMap<[u8; ADDRESS_BYTES], &'a Validator>,
    agreeing: BTreeSet<&'a str>,
    /// The order block that the first valid vote names.
    order_hash: Option<Hash>,
}

impl<'a> Tally<'a> {
    fn new(certificate: &'a Certificate, expected: &Expected<'a>) -> Self {
        let validators = expected.validators.iter().map(|v| (address(&v.public_key), v)).collect();
        Self { certificate, chain_id: expected.chain_id, validators, agreeing: BTreeSet::new(), order_hash: None }
    }

    fn count(&mut self, vote: &'a CertifiedVote) -> Result<(), VoteDefect> {
        let validator = self.validator(vote)?;
        let said = vote::decode(&vote.extension).map_err(|error| VoteDefect::Extension(Some(error)))?;
        let said = said.ok_or(VoteDefect::Extension(None))?;
        self.check_said(vote, &said)?;
        check_signature(self.chain_id, vote, validator)?;
        if !self.agreeing.insert(&vote.organisation) {
            return Err(VoteDefect::Repeated);
        }
        self.order_hash = Some(said.order_hash);
        Ok(())
    }

    fn validator(&self, vote: &CertifiedVote) -> Result<&'a Validator, VoteDefect> {
        let address: Option<[u8; ADDRESS_BYTES]> = vote.validator.as_slice().try_into().ok();
        let validator = address.and_then(|address| self.validators.get(&address).copied());
        let validator = validator.ok_or(VoteDefect::UnknownValidator)?;
        if validator.organisation != vote.organisation {
            return Err(VoteDefect::ValidatorOf(validator.organisation.clone()));
        }
        Ok(validator)
    }

    fn check_said(&self, vote: &CertifiedVote, said: &EffectVote) -> Result<(), VoteDefect> {
        if said.block != self.certificate.number {
            return Err(VoteDefect::OtherBlock(said.block));
        }
        if said.effect_round != self.certificate.effect_round {
            return Err(VoteDefect::OtherRound(said.effect_round));
        }
        if self.order_hash.is_some_and(|hash| hash != said.order_hash) {
            return Err(VoteDefect::OtherOrder(said.order_hash));
        }
        match said.verdict {
            Verdict::Stuck(index) => Err(VoteDefect::Stuck(index)),
            Verdict::Effects(hash) if hash != salted(&vote.organisation, &self.certificate.hash) => {
                Err(VoteDefect::OtherEffects)
            }
            Verdict::Effects(_) => Ok(()),
        }
    }
}

fn check_signature(chain_id: &str, vote: &CertifiedVote, validator: &Validator) -> Result<(), VoteDefect> {
    let message = vote::sign_bytes(chain_id, vote.height, vote.round, &vote.extension);
    if verify_signature(&validator.public_key, &message, &vote.signature) {
        return Ok(());
    }
    Err(VoteDefect::Signature)
}

/// Whether an Ed25519 signature is valid by the rule of the specification: RFC 8032, section 5.1.7,
/// without the cofactor, and neither the key nor R of small order. Verifiers differ there, and a
/// vote that one counts and another does not would be worse than one that none counts.
pub fn verify_signature(public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let key = public_key.try_into().ok().and_then(|key| VerifyingKey::from_bytes(key).ok());
    let signature = Signature::from_slice(signature).ok();
    key.zip(signature).is_some_and(|(key, signature)| key.verify_strict(message, &signature).is_ok())
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { want, found } => write!(f, "certificate is of block {found}, want {want}"),
            Self::Hash { want, found } => write!(f, "certificate is for hash {}, want {}", hex(found), hex(want)),
            Self::TooManyVotes(count) => write!(f, "certificate has {count} votes, at most {VOTES_MAX}"),
            Self::Vote { index, organisation, defect } => write!(f, "vote {index} of {organisation}: {defect}"),
            Self::Consent { want, found } => write!(f, "{found} organisations agree, want {want}"),
        }
    }
}

impl fmt::Display for VoteDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownValidator => f.write_str("no validator has this address"),
            Self::ValidatorOf(organisation) => write!(f, "the validator belongs to {organisation}"),
            Self::Extension(None) => f.write_str("the vote extension is empty"),
            Self::Extension(Some(error)) => write!(f, "the vote extension is malformed: {error}"),
            Self::OtherBlock(block) => write!(f, "it is for block {block}"),
            Self::OtherRound(round) => write!(f, "it is of effect round {round}"),
            Self::OtherOrder(hash) => write!(f, "it names another order block, {}", hex(hash)),
            Self::Stuck(index) => write!(f, "it says stuck at transaction {index}"),
            Self::OtherEffects => f.write_str("it is for other effects"),
            Self::Signature => f.write_str("the signature does not fit"),
            Self::Repeated => f.write_str("the organisation has voted already"),
        }
    }
}
