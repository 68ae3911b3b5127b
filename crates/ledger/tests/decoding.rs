//! Properties of the decoders: each value has one spelling, and no input makes a decoder panic.

use chainify_ledger::change::{self, Travelling};
use chainify_ledger::messages::{Agreement, ChainedTx, Client, Parameter, Plan, Proposal, SignedProposal};
use chainify_ledger::vote::{self, EffectVote, Verdict};
use chainify_ledger::write_set::{Isolation, SeenRow, WriteSet};
use chainify_ledger::{block_buffer, cells, tx_id, LedgerBlock, Outcomes, Transaction};
use chainify_seeded::check;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

const NAME: &str = "[a-z][a-z0-9_-]{0,20}";

fn proposal() -> impl Strategy<Value = Proposal> {
    let parameter = ("[a-z ]{0,8}", any::<bool>(), "[^\0]{0,8}").prop_map(|(r#type, null, text)| {
        let text = if null { String::new() } else { text };
        Parameter { r#type, null, text }
    });
    let key = prop::sample::select(vec![vec![], vec![5; 32]]);
    let client = (NAME, "[^\0]{1,15}", key).prop_map(|(organisation, role, key)| Client { organisation, role, key });
    let kind = prop::sample::select(vec![1, 2, 3, 5]);
    (NAME, client, any::<u64>(), any::<u64>(), kind, "[^\0]{1,30}", vec(parameter, 0..4)).prop_map(
        |(chain_id, client, nonce, valid_until_height, kind, sql, parameters)| {
            let base =
                Proposal { chain_id, client: Some(client), nonce, valid_until_height, kind, ..Proposal::default() };
            match kind {
                2 => Proposal { effects: effects(nonce), ..base },
                5 if nonce % 2 == 0 => Proposal { plan: Some(on_plan(nonce)), ..base },
                5 => Proposal { sql, parameters, plan: Some(later(nonce)), ..base },
                _ => Proposal { sql, parameters, ..base },
            }
        },
    )
}

/// The part that plans.
fn later(nonce: u64) -> Plan {
    let not_before = (nonce >> 16) as i64;
    Plan { action: 1, not_before, approvals: "x".repeat(nonce as usize % 5), ..Plan::default() }
}

/// The part of another action.
fn on_plan(nonce: u64) -> Plan {
    Plan { action: 2 + (nonce / 2 % 3) as i32, planned: vec![9; 32], ..Plan::default() }
}

/// A row that the transaction looked for.
fn effects(snapshot: u64) -> Vec<u8> {
    let seen = vec![SeenRow { table: 0, key: vec![0, 1, 0, 1, 1, 0, 0, 0, 1, 1], hash: None }];
    let tables = vec!["public.a".to_owned()];
    WriteSet { snapshot, isolation: Isolation::Serializable, tables, changes: vec![], seen, reads: vec![] }.encode()
}

fn chained() -> impl Strategy<Value = ChainedTx> {
    let agreement = (NAME, any::<[u8; 32]>(), any::<bool>()).prop_map(|(organisation, hash, yes)| Agreement {
        organisation,
        proposal_hash: hash.to_vec(),
        yes,
        signature: vec![5; 64],
    });
    let together = [vec![7; 64], 3u32.to_be_bytes().to_vec(), 9u32.to_be_bytes().to_vec(), vec![8; 128]].concat();
    let signature = prop::sample::select(vec![vec![7; 64], together]);
    (proposal(), signature, vec(agreement, 0..3)).prop_map(|(proposal, signature, agreements)| {
        let signs = proposal.client.as_ref().is_some_and(|client| !client.key.is_empty());
        let signature = if signs { signature } else { vec![] };
        ChainedTx { proposal: Some(SignedProposal { proposal: proposal.encode_to_vec(), signature }), agreements }
    })
}

/// The decoded value, encoded again.
fn encoded(transaction: &Transaction) -> Vec<u8> {
    let proposal = transaction.proposal.encode_to_vec();
    let signature = transaction.signature.clone();
    let proposal = Some(SignedProposal { proposal, signature });
    ChainedTx { proposal, agreements: transaction.agreements.clone() }.encode_to_vec()
}

fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..3)
}

fn mutated(mut bytes: Vec<u8>, mutations: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    for (at, byte, how) in mutations {
        let at = at.index(bytes.len() + 1);
        match (how, bytes.get_mut(at)) {
            (0, Some(place)) => *place = *byte,
            (1, Some(place)) => *place ^= 1 << (byte % 8),
            (2, _) => bytes.insert(at, *byte),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn a_transaction_has_one_spelling() {
    check(3_000, (chained(), mutations()), |(message, mutations)| {
        let bytes = mutated(message.encode_to_vec(), &mutations);
        match Transaction::decode(&bytes) {
            Ok(transaction) => {
                prop_assert_eq!(encoded(&transaction), bytes);
                prop_assert_eq!(transaction.id, tx_id(&transaction.proposal.encode_to_vec()));
            }
            Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
        }
        Ok(())
    });
}

#[test]
fn a_block_buffer_has_one_spelling() {
    check(3_000, (vec(vec(any::<u8>(), 0..6), 0..5), mutations()), |(transactions, mutations)| {
        let buffer = mutated(block_buffer::join(&transactions), &mutations);
        match block_buffer::split(&buffer) {
            Ok(split) => prop_assert_eq!(block_buffer::join(&split), buffer),
            Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
        }
        Ok(())
    });
}

fn ledger_block() -> impl Strategy<Value = LedgerBlock> {
    let hashes = any::<[[u8; 32]; 4]>();
    let numbers = (2..=u64::MAX, any::<u64>(), any::<i64>(), any::<u32>());
    (NAME, numbers, vec(any::<bool>(), 1..40), hashes).prop_map(|(chain_id, numbers, succeeded, hashes)| {
        let (number, order_height, block_time, effects_count) = numbers;
        let [tx_root, effects_root, state_root, previous] = hashes;
        let mut outcomes = Outcomes::failed(succeeded.len() as u32);
        (0..).zip(&succeeded).filter(|(_, one)| **one).for_each(|(i, _)| outcomes.succeed(i));
        LedgerBlock {
            chain_id,
            number,
            order_height,
            block_time,
            tx_root,
            outcomes,
            effects_root,
            effects_count,
            state_root,
            previous,
        }
    })
}

#[test]
fn a_header_has_one_spelling() {
    check(3_000, (ledger_block(), mutations()), |(block, mutations)| {
        let bytes = mutated(block.encode(), &mutations);
        match LedgerBlock::decode(&bytes) {
            Ok(back) => {
                prop_assert_eq!(back.encode(), bytes.clone());
                prop_assert_eq!(back == block, bytes == block.encode());
            }
            Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
        }
        Ok(())
    });
}

#[test]
fn a_vote_has_one_spelling() {
    let verdict = prop_oneof![any::<[u8; 32]>().prop_map(Verdict::Effects), any::<u32>().prop_map(Verdict::Stuck)];
    let parts = vec(any::<[u8; vote::PART_BYTES]>(), 0..4);
    let vote = (1..=u64::MAX, any::<u32>(), any::<[u8; 32]>(), verdict, parts);
    check(3_000, (vote, mutations()), |((block, effect_round, order_hash, verdict, parts), mutations)| {
        let by_parts = effect_round > 0 && matches!(verdict, Verdict::Effects(_));
        let parts = if by_parts { parts } else { Vec::new() };
        let vote = EffectVote { block, effect_round, order_hash, verdict, parts };
        let bytes = mutated(vote::encode(&vote), &mutations);
        match vote::decode(&bytes) {
            Ok(Some(back)) => prop_assert_eq!(vote::encode(&back), bytes),
            Ok(None) => prop_assert!(bytes.is_empty()),
            Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
        }
        Ok(())
    });
}

#[test]
fn outcomes_agree_with_a_list() {
    check(300, vec(any::<bool>(), 0..40), |list| {
        let mut outcomes = Outcomes::failed(list.len() as u32);
        (0..).zip(&list).filter(|(_, one)| **one).for_each(|(i, _)| outcomes.succeed(i));
        let back = Outcomes::from_bytes(outcomes.count(), outcomes.as_bytes()).unwrap();
        let found: Vec<Option<bool>> = (0..=outcomes.count()).map(|i| back.succeeded(i)).collect();
        let want: Vec<Option<bool>> = list.iter().map(|one| Some(*one)).chain([None]).collect();
        prop_assert_eq!(found, want);
        prop_assert_eq!(back.successes() as usize, list.iter().filter(|one| **one).count());
        Ok(())
    });
}

#[test]
fn rows_and_changes_on_their_way_have_one_spelling() {
    let row = vec(prop::option::of("\\PC{0,6}"), 0..5);
    let numbers = (0..=i32::MAX, 0..=i32::MAX, b'A'..=b'Z');
    check(
        3_000,
        (row, NAME, numbers, vec(any::<u8>(), 0..33), mutations()),
        |(row, table, numbers, hash, mutations)| {
            let cells = cells::encode(&row);
            let (tx, serial, op) = numbers;
            let change = change::encode(&Travelling { table: &table, tx, serial, op, hash: &hash, cells: &cells });
            let (cells, change) = (mutated(cells, &mutations), mutated(change, &mutations));
            match cells::decode_any(&cells) {
                Ok(row) => prop_assert_eq!(cells::encode(&row), cells),
                Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
            }
            match change::decode(&change) {
                Ok(decoded) => prop_assert_eq!(change::encode(&decoded), change),
                Err(error) => prop_assert!(!mutations.is_empty(), "refused though not mutated: {}", error),
            }
            Ok(())
        },
    );
}

/// Lengths that promise more than there is must cost nothing.
#[test]
fn announced_lengths_are_checked_before_use() {
    assert!(block_buffer::split(&[0xff; 8]).is_err());
    let mut header = b"chainify/ledger-block/1\0\0\0\x01c".to_vec();
    header.extend_from_slice(&[1; 56]);
    header.extend_from_slice(&[0xff; 4]); // transactions
    assert_eq!(LedgerBlock::decode(&header).unwrap_err().field, "outcomes");
    assert!(LedgerBlock::decode(b"chainify/ledger-block/1\xff\xff\xff\xff").is_err());
    assert!(Outcomes::from_bytes(u32::MAX, &[]).is_err());
}
