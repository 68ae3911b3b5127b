//! The messages of `spec/proto/chainify.proto` that PostgreSQL reads. Derives are written by hand
//! so that the build needs no protoc; decode them with [`crate::decode_strict`] or
//! [`crate::Transaction::decode`].

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// Never valid.
    Unspecified = 0,
    /// Statements that read and write ledger tables.
    Sql = 1,
    /// A write set made in the client's own database ([`crate::write_set`]).
    Effects = 2,
    /// A change of what is on the ledger: attach, detach, later DDL.
    Deploy = 3,
    /// Reserved: organisations, keys, policies.
    Governance = 4,
    /// A transaction planned for later, or an action on one ([`crate::planned`]).
    Plan = 5,
}

/// The action of a PLAN transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PlanAction {
    /// Never valid.
    Unspecified = 0,
    /// The statements of the proposal run later.
    Plan = 1,
    /// The client's organisation approves.
    Approve = 2,
    /// The plan will not run.
    Cancel = 3,
    /// The plan runs, when it is due.
    Execute = 4,
}

/// The client that asks: a role vouched for by its organisation's gateway, or one that signs with a
/// key registered for it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Client {
    /// The organisation's name.
    #[prost(string, tag = "1")]
    pub organisation: String,
    /// The database role.
    #[prost(string, tag = "2")]
    pub role: String,
    /// Ed25519, of the client that signs the proposal itself; empty: the gateway vouches.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
}

/// One value for $1, $2, ... in PostgreSQL's text form.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Parameter {
    /// As `format_type()` spells it; empty: the server infers it.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// NULL; the text is empty then.
    #[prost(bool, tag = "2")]
    pub null: bool,
    /// The value.
    #[prost(string, tag = "3")]
    pub text: String,
}

/// The part of a proposal of kind PLAN.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Plan {
    /// The action.
    #[prost(enumeration = "PlanAction", tag = "1")]
    pub action: i32,
    /// Id of the transaction that planned; of every action but PLAN.
    #[prost(bytes = "vec", tag = "2")]
    pub planned: Vec<u8>,
    /// Of PLAN: microseconds since the Unix epoch; 0: at once.
    #[prost(int64, tag = "3")]
    pub not_before: i64,
    /// Of PLAN: the same; 0: the default.
    #[prost(int64, tag = "4")]
    pub expires: i64,
    /// Of PLAN: an agreement policy without columns; empty: none.
    #[prost(string, tag = "5")]
    pub approvals: String,
}

/// The request of a client.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Proposal {
    /// The chain it is meant for.
    #[prost(string, tag = "1")]
    pub chain_id: String,
    /// Who asks.
    #[prost(message, optional, tag = "2")]
    pub client: Option<Client>,
    /// Tells two proposals of the same text apart.
    #[prost(uint64, tag = "3")]
    pub nonce: u64,
    /// Last order height at which it may be accepted.
    #[prost(uint64, tag = "4")]
    pub valid_until_height: u64,
    /// Its purpose.
    #[prost(enumeration = "Kind", tag = "5")]
    pub kind: i32,
    /// The statements; empty in an EFFECTS transaction.
    #[prost(string, tag = "6")]
    pub sql: String,
    /// Values for $1, $2, ...
    #[prost(message, repeated, tag = "7")]
    pub parameters: Vec<Parameter>,
    /// The write set ([`crate::write_set`]) of an EFFECTS transaction, which has no statements.
    #[prost(bytes = "vec", tag = "8")]
    pub effects: Vec<u8>,
    /// In PLAN transactions alone.
    #[prost(message, optional, tag = "9")]
    pub plan: Option<Plan>,
}

/// A proposal as its client sent it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignedProposal {
    /// The bytes of a [`Proposal`].
    #[prost(bytes = "vec", tag = "1")]
    pub proposal: Vec<u8>,
    /// The client's own Ed25519 signature, of it or of several; empty: the gateway vouches.
    #[prost(bytes = "vec", tag = "2")]
    pub signature: Vec<u8>,
}

/// One organisation's answer to a transaction that an agreement policy asks about.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Agreement {
    /// Who answers.
    #[prost(string, tag = "1")]
    pub organisation: String,
    /// SHA-256 that names the proposal.
    #[prost(bytes = "vec", tag = "2")]
    pub proposal_hash: Vec<u8>,
    /// The answer.
    #[prost(bool, tag = "3")]
    pub yes: bool,
    /// Ed25519.
    #[prost(bytes = "vec", tag = "4")]
    pub signature: Vec<u8>,
}

/// A transaction as it is ordered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChainedTx {
    /// What is asked.
    #[prost(message, optional, tag = "1")]
    pub proposal: Option<SignedProposal>,
    /// Who agrees.
    #[prost(message, repeated, tag = "2")]
    pub agreements: Vec<Agreement>,
}
