//! `receipts.json`.

use chainify_codec::{effects_root, row_hash, value, Change, Hash, Op, RowWriter, ValueError};
use chainify_ledger::certificate::{address, check, Certificate, CertifiedVote, Expected, Validator};
use chainify_ledger::messages::{ChainedTx, Client, Kind, Proposal, SignedProposal};
use chainify_ledger::receipt::{change_path, to_json, transaction_path, ChangeProof, TransactionProof};
use chainify_ledger::vote::{self, salted, EffectVote, Verdict};
use chainify_ledger::write_set::{self, Action, Isolation, WriteSet};
use chainify_ledger::{tx_id, tx_root, LedgerBlock, Outcomes};
use ed25519_dalek::{Signer, SigningKey};
use prost::Message;
use serde_json::{json, Value as Json};

use crate::hex;

const CHAIN: &str = "trade-1";
const TABLE: &str = "public.account";
const BANKS: [&str; 4] = ["bank-a", "bank-b", "bank-c", "bank-d"];
const CONSENT: usize = 3;

/// A block of which all transactions but the second changed a row.
struct Block {
    header: LedgerBlock,
    bodies: Vec<Vec<u8>>,
    ids: Vec<Hash>,
    changes: Vec<Made>,
}

struct Made {
    key: Vec<u8>,
    row: Vec<u8>,
    tx: u32,
    op: Op,
}

impl Made {
    fn leaf(&self) -> Change<'_> {
        let row_hash = row_hash(TABLE, &self.row);
        Change { table: TABLE, pk: &self.key, tx: self.tx, op: self.op, row_hash, serial: 0 }
    }
}

fn statements(nonce: u64) -> Proposal {
    let sql = format!("UPDATE account SET balance = balance + {nonce} WHERE id = 42");
    Proposal { kind: Kind::Sql as i32, sql, ..Proposal::default() }
}

/// The change of a block's first transaction, as a write set.
fn effects(_: u64) -> Proposal {
    let mut cell = Vec::new();
    value::int(&mut cell, 0);
    let action = Action::Update { before: [8; 32], key: row(&[(1, 42)]), cells: vec![(2, cell)] };
    let set = WriteSet {
        snapshot: 1,
        isolation: Isolation::ReadCommitted,
        tables: vec![TABLE.into()],
        changes: vec![write_set::Change { table: 0, action }],
        seen: vec![],
        reads: vec![],
    };
    Proposal { kind: Kind::Effects as i32, effects: set.encode(), ..Proposal::default() }
}

fn body(nonce: u64, content: fn(u64) -> Proposal) -> (Vec<u8>, Hash) {
    let client = Client { organisation: "bank-a".into(), role: "clerk".into(), key: vec![] };
    let proposal =
        Proposal { chain_id: CHAIN.into(), client: Some(client), nonce, valid_until_height: 90, ..content(nonce) };
    let proposal = proposal.encode_to_vec();
    let id = tx_id(&proposal);
    (
        ChainedTx { proposal: Some(SignedProposal { proposal, signature: vec![] }), agreements: vec![] }
            .encode_to_vec(),
        id,
    )
}

/// `columns` of an account: id, balance.
fn row(columns: &[(u16, i64)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = RowWriter::begin(&mut out);
    for (ordinal, number) in columns {
        let written = writer.column(*ordinal, |out| {
            value::int(out, *number);
            Ok::<_, ValueError>(())
        });
        written.unwrap();
    }
    writer.finish();
    out
}

fn leaves(changes: &[Made]) -> Vec<Change<'_>> {
    changes.iter().map(Made::leaf).collect()
}

fn block(number: u64, transactions: u32) -> Block {
    block_of(number, transactions, statements)
}

fn block_of(number: u64, transactions: u32, content: fn(u64) -> Proposal) -> Block {
    let body = |i: u32| body(number * 100 + u64::from(i), content);
    let (bodies, ids): (Vec<_>, Vec<_>) = (0..transactions).map(body).unzip();
    let mut outcomes = Outcomes::failed(transactions);
    let mut changes = Vec::new();
    for tx in (0..transactions).filter(|tx| *tx != 1) {
        outcomes.succeed(tx);
        // Every other transaction comes back to account 42, so that its serials count.
        let id = if tx % 2 == 0 { 42 } else { 100 + i64::from(tx) };
        let op = if tx % 2 == 0 { Op::Update } else { Op::Insert };
        changes.push(Made { key: row(&[(1, id)]), row: row(&[(1, id), (2, i64::from(tx) * 10)]), tx, op });
    }
    let effects = effects_root(&mut leaves(&changes));
    let header = LedgerBlock {
        chain_id: CHAIN.into(),
        number,
        order_height: number + 20,
        block_time: 1_700_000_000_000_000 + number as i64,
        tx_root: tx_root(&ids),
        outcomes,
        effects_root: effects.root,
        effects_count: changes.len() as u32,
        state_root: [6; 32],
        previous: if number == 1 { [0; 32] } else { [5; 32] },
    };
    Block { header, bodies, ids, changes }
}

fn key(name: &str) -> SigningKey {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    SigningKey::from_bytes(&seed)
}

fn certified_vote(header: &LedgerBlock, organisation: &str, signer: &str) -> CertifiedVote {
    let key = key(signer);
    let verdict = Verdict::Effects(salted(organisation, &header.hash()));
    let vote = EffectVote { block: header.number, effect_round: 0, order_hash: [9; 32], verdict, parts: vec![] };
    let extension = vote::encode(&vote);
    let height = header.order_height as i64 + 1;
    CertifiedVote {
        organisation: organisation.into(),
        validator: address(&key.verifying_key().to_bytes()).to_vec(),
        height,
        round: 1,
        signature: key.sign(&vote::sign_bytes(CHAIN, height, 1, &extension)).to_bytes().to_vec(),
        extension,
    }
}

fn certificate(header: &LedgerBlock, voters: &[&str]) -> Certificate {
    let votes = voters.iter().map(|name| certified_vote(header, name, name)).collect();
    Certificate { number: header.number, effect_round: 0, hash: header.hash(), votes }
}

fn transaction_proof(block: &Block, index: u32) -> TransactionProof {
    TransactionProof {
        index,
        id: block.ids[index as usize],
        body: block.bodies[index as usize].clone(),
        path: transaction_path(&block.ids, index).unwrap(),
    }
}

fn change_proof(block: &Block, wanted: usize) -> ChangeProof {
    let mut changes = leaves(&block.changes);
    let (leaf, path) = change_path(&mut changes, wanted).unwrap();
    let (serial, made) = (changes[wanted].serial, &block.changes[wanted]);
    let (key, row) = (made.key.clone(), made.row.clone());
    ChangeProof { table: TABLE.into(), key, row, serial, op: made.op, leaf, path }
}

fn authority() -> Json {
    let validator =
        |name: &&str| json!({ "organisation": name, "public_key": hex(key(name).verifying_key().to_bytes()) });
    json!({ "chain_id": CHAIN, "consent": CONSENT, "validators": BANKS.iter().map(validator).collect::<Vec<_>>() })
}

fn validators() -> Vec<Validator> {
    let validator = |name: &&str| Validator {
        public_key: key(name).verifying_key().to_bytes().to_vec(),
        organisation: (*name).into(),
    };
    BANKS.iter().map(validator).collect()
}

fn of(name: &str, receipt: Json) -> Json {
    json!({ "name": name, "authority": authority(), "receipt": receipt })
}

/// The receipt of a transaction, and of the change at `change` of the block's.
fn receipt(name: &str, block: &Block, index: u32, change: Option<usize>) -> Json {
    let certificate = certificate(&block.header, &BANKS[..3]);
    let validators = validators();
    let expected = Expected {
        chain_id: CHAIN,
        number: block.header.number,
        hash: block.header.hash(),
        validators: &validators,
        consent: CONSENT,
    };
    assert_eq!(check(&certificate, &expected), vec![], "{name}");
    let (transaction, change) = (transaction_proof(block, index), change.map(|at| change_proof(block, at)));
    of(name, to_json(&block.header, &certificate, Some(&transaction), change.as_ref()))
}

pub(crate) fn receipts() -> Vec<Json> {
    let digest = block(3, 2);
    let alone = block(1, 1);
    let many = block(7, 11);
    vec![
        of("a digest: the block alone", to_json(&digest.header, &certificate(&digest.header, &BANKS[..3]), None, None)),
        receipt("the only transaction of block 1", &alone, 0, None),
        receipt("a transaction that failed", &many, 1, None),
        receipt("the last of eleven transactions", &many, 10, None),
        receipt("the only change of a block", &alone, 0, Some(0)),
        receipt("a row's third change in its block", &many, 4, Some(3)),
        receipt("a row inserted", &many, 5, Some(4)),
        receipt("the change of an EFFECTS transaction", &block_of(2, 1, effects), 0, Some(0)),
    ]
}

/// Forgeries that are consistent as far as they can be, with the field that gives him away.
pub(crate) fn forged() -> Vec<Json> {
    let honest = block(7, 11);
    let forged = |name: &str, field: &str, header: &LedgerBlock, certificate: Certificate, index: u32| {
        let transaction = transaction_proof(&honest, index);
        let receipt = to_json(header, &certificate, Some(&transaction), None);
        json!({ "name": name, "field": field, "authority": authority(), "receipt": receipt })
    };
    let votes = |list: &[(&str, &str)]| {
        let votes = list.iter().map(|(name, signer)| certified_vote(&honest.header, name, signer)).collect();
        Certificate { votes, ..certificate(&honest.header, &[]) }
    };
    let mut succeeded = honest.header.clone();
    succeeded.outcomes.succeed(1);
    let mut lent = certificate(&honest.header, &BANKS[..3]);
    lent.hash = succeeded.hash();
    // All certified a change by a transaction that failed, which no organisation that follows the
    // specification does.
    let mut failed = block(7, 11);
    failed.header.outcomes = Outcomes::failed(11);
    let transaction = transaction_proof(&failed, 4);
    let change = change_proof(&failed, 3);
    let of_failed = to_json(&failed.header, &certificate(&failed.header, &BANKS), Some(&transaction), Some(&change));
    // All certified a transaction that no order takes.
    let unordered = block_of(2, 1, |_| Proposal { effects: vec![2], ..effects(0) });
    let of_unordered = to_json(
        &unordered.header,
        &certificate(&unordered.header, &BANKS),
        Some(&transaction_proof(&unordered, 0)),
        None,
    );
    // A change of another transaction than the one beside it.
    let other = transaction_proof(&honest, 2);
    let other =
        to_json(&honest.header, &certificate(&honest.header, &BANKS), Some(&other), Some(&change_proof(&honest, 3)));
    vec![
        forged("the outcome turned, hash and all", "certificate.votes[0]", &succeeded, lent, 1),
        forged("two votes of three needed", "certificate", &honest.header, certificate(&honest.header, &BANKS[..2]), 0),
        forged(
            "an organisation counted twice",
            "certificate.votes[2]",
            &honest.header,
            votes(&[("bank-a", "bank-a"), ("bank-b", "bank-b"), ("bank-b", "bank-b")]),
            0,
        ),
        forged(
            "a key that is not of the genesis",
            "certificate.votes[2]",
            &honest.header,
            votes(&[("bank-a", "bank-a"), ("bank-b", "bank-b"), ("bank-c", "stranger")]),
            0,
        ),
        forged(
            "a vote in another's name",
            "certificate.votes[2]",
            &honest.header,
            votes(&[("bank-a", "bank-a"), ("bank-b", "bank-b"), ("bank-c", "bank-b")]),
            0,
        ),
        json!({ "name": "a change by a transaction that failed", "field": "change", "authority": authority(), "receipt": of_failed }),
        json!({ "name": "an EFFECTS transaction without a write set", "field": "transaction.body", "authority": authority(), "receipt": of_unordered }),
        json!({ "name": "a change of another transaction", "field": "change", "authority": authority(), "receipt": other }),
    ]
}
