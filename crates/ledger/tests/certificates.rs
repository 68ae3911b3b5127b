//! The properties of certificates that the vectors do not show: bounds, and that any changed byte
//! of a valid one is found.

use chainify_ledger::certificate::{
    address, check, Certificate, CertifiedVote, Expected, Finding, Validator, VOTES_MAX,
};
use chainify_ledger::vote::{self, salted, EffectVote, Verdict};
use ed25519_dalek::{Signer, SigningKey};

const CHAIN: &str = "trade-1";
const HASH: [u8; 32] = [8; 32];

fn organisations() -> Vec<(Validator, SigningKey)> {
    let of = |i: u8| {
        let key = SigningKey::from_bytes(&[i + 1; 32]);
        (Validator { public_key: key.verifying_key().to_bytes().to_vec(), organisation: format!("bank-{i}") }, key)
    };
    (0..4).map(of).collect()
}

fn vote_of(validator: &Validator, key: &SigningKey) -> CertifiedVote {
    let verdict = Verdict::Effects(salted(&validator.organisation, &HASH));
    let extension =
        vote::encode(&EffectVote { block: 7, effect_round: 1, order_hash: [9; 32], verdict, parts: vec![] });
    let (height, round) = (21, 2);
    CertifiedVote {
        organisation: validator.organisation.clone(),
        validator: address(&validator.public_key).to_vec(),
        height,
        round,
        signature: key.sign(&vote::sign_bytes(CHAIN, height, round, &extension)).to_bytes().to_vec(),
        extension,
    }
}

fn certificate(organisations: &[(Validator, SigningKey)]) -> Certificate {
    let votes = organisations.iter().map(|(validator, key)| vote_of(validator, key)).collect();
    Certificate { number: 7, effect_round: 1, hash: HASH, votes }
}

fn findings(certificate: &Certificate, validators: &[Validator], consent: usize) -> Vec<Finding> {
    check(certificate, &Expected { chain_id: CHAIN, number: 7, hash: HASH, validators, consent })
}

#[test]
fn every_changed_byte_of_a_vote_is_found() {
    let (validators, good) = one_vote();
    assert_eq!(findings(&good, &validators, 1), []);
    let parts: [fn(&mut CertifiedVote) -> &mut Vec<u8>; 3] =
        [|vote| &mut vote.validator, |vote| &mut vote.extension, |vote| &mut vote.signature];
    for part in parts {
        for at in 0..part(&mut good.votes[0].clone()).len() {
            let mut bad = good.clone();
            part(&mut bad.votes[0])[at] ^= 1 << (at % 8);
            let found = findings(&bad, &validators, 1);
            assert!(matches!(found[..], [Finding::Vote { index: 0, .. }, Finding::Consent { .. }]), "{at}: {found:?}");
        }
    }
}

/// One organisation's vote, and every validator.
fn one_vote() -> (Vec<Validator>, Certificate) {
    let organisations = organisations();
    let good = certificate(&organisations[..1]);
    (organisations.into_iter().map(|(validator, _)| validator).collect(), good)
}

#[test]
fn a_validator_key_that_is_none_verifies_nothing() {
    let organisations = organisations();
    let mut validators: Vec<Validator> = organisations.iter().map(|(validator, _)| validator.clone()).collect();
    let mut bad = certificate(&organisations[..3]);
    // The identity as a key would verify signatures that anyone can write.
    for key in [vec![], vec![1; 31], [vec![1], vec![0; 31]].concat()] {
        validators[1].public_key = key.clone();
        bad.votes[1].validator = address(&key).to_vec();
        bad.votes[1].signature = [vec![1], vec![0; 63]].concat();
        assert_eq!(findings(&bad, &validators, 3).len(), 2, "{key:?}");
    }
}

#[test]
fn votes_beyond_the_bound_are_not_looked_at() {
    let organisations = organisations();
    let validators: Vec<Validator> = organisations.iter().map(|(validator, _)| validator.clone()).collect();
    let mut full = certificate(&organisations[..3]);
    full.votes.resize(VOTES_MAX + 1, full.votes[0].clone());
    assert_eq!(findings(&full, &validators, 3), [Finding::TooManyVotes(VOTES_MAX + 1)]);
}

#[test]
fn no_votes_are_no_consent() {
    assert_eq!(findings(&certificate(&[]), &[], 0), [Finding::Consent { want: 1, found: 0 }]);
}
