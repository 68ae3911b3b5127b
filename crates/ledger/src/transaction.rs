//! Transactions: strict decoding, bounds and ids.

use chainify_codec::merkle;
use prost::Message;

use crate::messages::{Agreement, ChainedTx, Client, Kind, Parameter, Proposal};
use crate::names::{check_chain_id, check_organisation, check_role, check_text};
use crate::planned::{action, Action};
use crate::write_set::{WriteSet, WRITE_SET_BYTES_MAX};
use crate::{sha256, Hash, WireError};

/// Bytes of a proposal.
pub const PROPOSAL_BYTES_MAX: usize = WRITE_SET_BYTES_MAX;
/// Parameters of a transaction.
pub const PARAMETERS_MAX: usize = 1_000;
/// Agreements of a transaction.
pub const AGREEMENTS_MAX: usize = 1_000;
/// Proposals under one signature of their client.
pub const SIGNED_TOGETHER_MAX: u64 = 1_024;

const HASH_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
const PLACE_BYTES: usize = 8;
const KEY_BYTES: usize = 32;

/// `H("chainify/tx/1" ‖ proposal bytes)`, the bytes as received.
pub fn tx_id(proposal: &[u8]) -> Hash {
    sha256(&[b"chainify/tx/1", proposal])
}

/// The id of the transaction that a proposal becomes, in its one encoding.
pub fn proposal_id(proposal: &Proposal) -> Hash {
    tx_id(&proposal.encode_to_vec())
}

/// The Merkle tree hash over `H(00 ‖ id)` of a block's transactions, in block order.
pub fn tx_root(ids: &[Hash]) -> Hash {
    let mut tree = merkle::Tree::default();
    ids.iter().for_each(|id| tree.push(sha256(&[&[0], id])));
    tree.root()
}

/// Decodes a message of which only one spelling is accepted: encoding it again must give the same
/// bytes. Refuses unknown fields, repeated scalars, integers longer than needed, fields out of
/// order. `name` is the field in errors. Cost: one copy of the bytes.
pub fn decode_strict<M: Message + Default>(bytes: &[u8], name: &str) -> Result<M, WireError> {
    let message = M::decode(bytes).map_err(|error| WireError::new(name, format!("malformed: {error}")))?;
    if message.encode_to_vec() != bytes {
        return Err(WireError::new(name, "not in its one spelling: unknown, repeated or misplaced fields"));
    }
    Ok(message)
}

/// A checked transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its id.
    pub id: Hash,
    /// The proposal, with `client` present and `kind` valid.
    pub proposal: Proposal,
    /// The client's own signature, of it or of several with its place among them, verified by the
    /// order before it is executed; empty: the gateway vouches.
    pub signature: Vec<u8>,
    /// The agreements; signatures are not verified here.
    pub agreements: Vec<Agreement>,
}

impl Transaction {
    /// Decodes and checks the bytes of a `ChainedTx`. Errors name the field.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let chained: ChainedTx = decode_strict(bytes, "transaction")?;
        let signed = chained.proposal.ok_or_else(|| WireError::new("transaction.proposal", "is missing"))?;
        let proposal = decode_proposal(&signed.proposal).map_err(|error| error.within("transaction"))?;
        let signs = proposal.client.as_ref().is_some_and(|client| !client.key.is_empty());
        let want = if signs { signature_length(&signed.signature)? } else { 0 };
        check_bytes("transaction.proposal.signature", &signed.signature, want)?;
        if chained.agreements.len() > AGREEMENTS_MAX {
            return Err(WireError::new("transaction.agreements", format!("more than {AGREEMENTS_MAX}")));
        }
        for (i, agreement) in chained.agreements.iter().enumerate() {
            check_agreement(agreement).map_err(|error| error.within(&format!("transaction.agreements[{i}]")))?;
        }
        let id = tx_id(&signed.proposal);
        Ok(Self { id, proposal, signature: signed.signature, agreements: chained.agreements })
    }

    /// The client that asks.
    pub fn client(&self) -> &Client {
        self.proposal.client.as_ref().expect("decoding refuses a proposal without a client")
    }

    /// Its purpose.
    pub fn kind(&self) -> Kind {
        self.proposal.kind() // checked when decoded
    }
}

/// Decodes and checks the bytes of a `Proposal`. Errors name the field.
pub fn decode_proposal(bytes: &[u8]) -> Result<Proposal, WireError> {
    if bytes.len() > PROPOSAL_BYTES_MAX {
        return Err(WireError::new("proposal", format!("longer than {PROPOSAL_BYTES_MAX} bytes")));
    }
    let proposal: Proposal = decode_strict(bytes, "proposal")?;
    check_proposal(&proposal).map_err(|error| error.within("proposal"))?;
    Ok(proposal)
}

fn check_proposal(proposal: &Proposal) -> Result<(), WireError> {
    check_chain_id(&proposal.chain_id)?;
    let client = proposal.client.as_ref().ok_or_else(|| WireError::new("client", "is missing"))?;
    check_organisation(&client.organisation).and_then(|()| check_role(&client.role)).map_err(|e| e.within("client"))?;
    if !client.key.is_empty() {
        check_bytes("client.key", &client.key, KEY_BYTES)?;
    }
    if proposal.plan.is_some() && proposal.kind != Kind::Plan as i32 {
        return Err(WireError::new("plan", "is there though the transaction is of another kind"));
    }
    match Kind::try_from(proposal.kind) {
        Ok(Kind::Sql | Kind::Deploy) => check_statements(proposal),
        Ok(Kind::Plan) => check_plan(proposal),
        Ok(Kind::Effects) => check_effects(proposal),
        Ok(Kind::Governance) => Err(WireError::new("kind", "is reserved")),
        Ok(Kind::Unspecified) | Err(_) => Err(WireError::new("kind", "is unknown")),
    }
}

fn check_statements(proposal: &Proposal) -> Result<(), WireError> {
    if !proposal.effects.is_empty() {
        return Err(WireError::new("effects", "is not empty though the transaction has statements"));
    }
    if proposal.sql.is_empty() {
        return Err(WireError::new("sql", "is empty"));
    }
    check_text("sql", &proposal.sql)?;
    if proposal.parameters.len() > PARAMETERS_MAX {
        return Err(WireError::new("parameters", format!("more than {PARAMETERS_MAX}")));
    }
    for (i, parameter) in proposal.parameters.iter().enumerate() {
        check_parameter(parameter).map_err(|error| error.within(&format!("parameters[{i}]")))?;
    }
    Ok(())
}

fn check_plan(proposal: &Proposal) -> Result<(), WireError> {
    match action(proposal)? {
        Action::Plan(_) => check_statements(proposal),
        _ if !proposal.effects.is_empty() => {
            Err(WireError::new("effects", "is not empty though the transaction plans"))
        }
        _ => Ok(()),
    }
}

fn check_effects(proposal: &Proposal) -> Result<(), WireError> {
    if !proposal.sql.is_empty() {
        return Err(WireError::new("sql", "is not empty though the transaction has effects"));
    }
    if !proposal.parameters.is_empty() {
        return Err(WireError::new("parameters", "are there though the transaction has effects"));
    }
    if proposal.effects.is_empty() {
        return Err(WireError::new("effects", "is empty"));
    }
    WriteSet::decode_structure(&proposal.effects).map(drop)
}

fn check_parameter(parameter: &Parameter) -> Result<(), WireError> {
    check_text("type", &parameter.r#type)?;
    check_text("text", &parameter.text)?;
    if parameter.null && !parameter.text.is_empty() {
        return Err(WireError::new("text", "is not empty though the parameter is null"));
    }
    Ok(())
}

fn check_agreement(agreement: &Agreement) -> Result<(), WireError> {
    check_organisation(&agreement.organisation)?;
    check_bytes("proposal_hash", &agreement.proposal_hash, HASH_BYTES)?;
    check_bytes("signature", &agreement.signature, SIGNATURE_BYTES)
}

/// How long a client's signature has to be: of one proposal, or of one of several at the place that
/// it names, `signature ‖ u32 index ‖ u32 size ‖ path`.
fn signature_length(signature: &[u8]) -> Result<usize, WireError> {
    let Some(place) = signature.get(SIGNATURE_BYTES..SIGNATURE_BYTES + PLACE_BYTES) else { return Ok(SIGNATURE_BYTES) };
    let [index, size] = [&place[..4], &place[4..]].map(|n| n.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)));
    if !(2..=SIGNED_TOGETHER_MAX).contains(&size) || index >= size {
        let what = format!("is of number {index} of {size}, want 0 and more of 2 to {SIGNED_TOGETHER_MAX}");
        return Err(WireError::new("transaction.proposal.signature", what));
    }
    Ok(SIGNATURE_BYTES + PLACE_BYTES + merkle::proof_length(index, size) * HASH_BYTES)
}

fn check_bytes(field: &str, bytes: &[u8], want: usize) -> Result<(), WireError> {
    if bytes.len() != want {
        return Err(WireError::new(field, format!("is {} bytes, want {want}", bytes.len())));
    }
    Ok(())
}
