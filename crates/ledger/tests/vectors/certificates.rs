//! `votes.json`.

use chainify_ledger::certificate::{address, check, verify_signature, Certificate, CertifiedVote, Expected, Validator};
use chainify_ledger::vote::{self, salted, EffectVote, Verdict};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{json, Value as Json};

use crate::{case, hash, hex, list, number, text, unhex};

const CHAIN: &str = "trade-1";
const ORDER_HASH: [u8; 32] = [9; 32];
const LEDGER_BLOCK_HASH: [u8; 32] = [8; 32];

fn effect_vote(json: &Json) -> EffectVote {
    let verdict = match json.get("stuck_at") {
        Some(index) => Verdict::Stuck(number(index)),
        None => Verdict::Effects(salted(text(&json["organisation"]), &hash(&json["ledger_block_hash"]))),
    };
    EffectVote {
        block: number(&json["block"]),
        effect_round: number(&json["effect_round"]),
        order_hash: hash(&json["order_hash"]),
        verdict,
        parts: json.get("parts").map_or(Vec::new(), |parts| list(parts).iter().map(part).collect()),
    }
}

fn part(json: &Json) -> [u8; vote::PART_BYTES] {
    unhex(json).try_into().expect("16 bytes")
}

fn said(organisation: &str) -> Json {
    json!({ "organisation": organisation, "block": "7", "effect_round": 1, "order_hash": hex(ORDER_HASH),
        "ledger_block_hash": hex(LEDGER_BLOCK_HASH) })
}

pub(crate) fn votes() -> Vec<Json> {
    let stuck = json!({ "name": "stuck at transaction 258", "block": "18446744073709551615", "effect_round": 0,
        "order_hash": hex(ORDER_HASH), "stuck_at": 258 });
    let inputs = [
        case(said("bank-a"), json!({ "name": "effects" })),
        case(said("bank-b"), json!({ "name": "the same effects by another organisation" })),
        stuck,
        case(said("bank-a"), json!({ "name": "effects by parts", "parts": [hex([1; 16]), hex([2; 16])] })),
    ];
    inputs.into_iter().map(vote_case).collect()
}

fn vote_case(input: Json) -> Json {
    let vote = effect_vote(&input);
    let extension = vote::encode(&vote);
    assert_eq!(vote::decode(&extension), Ok(Some(vote.clone())));
    case(input, json!({ "extension": hex(extension) }))
}

pub(crate) fn refused_votes() -> Vec<Json> {
    assert_eq!(vote::decode(&[]), Ok(None));
    let good = vote::encode(&effect_vote(&said("bank-a")));
    let stuck = vote::encode(&effect_vote(
        &json!({ "block": 1, "effect_round": 0, "order_hash": hex([0; 32]), "stuck_at": 1 }),
    ));
    let parts = json!([hex([1; 16]), hex([2; 16])]);
    let by_parts = vote::encode(&effect_vote(&case(said("bank-a"), json!({ "parts": parts }))));
    let changed = |bytes: &[u8], at: usize, byte: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("another version", changed(&good, 0, 3)),
        ("by parts without any", changed(&good, 0, 2)),
        ("0 parts", [&changed(&good, 0, 2)[..], &[0, 0]].concat()),
        ("a part too many", changed(&by_parts, 79, 1)),
        ("a part too few", changed(&by_parts, 79, 3)),
        ("half a part", by_parts[..by_parts.len() - 8].to_vec()),
        ("parts in round 0", changed(&by_parts, 12, 0)),
        ("parts of a stuck vote", [&changed(&changed(&stuck, 0, 2), 12, 1)[..], &by_parts[78..]].concat()),
        ("more than 1,024 parts", [&changed(&good, 0, 2)[..], &[4, 1], &[7; 16 * 1_025]].concat()),
        ("block 0", changed(&good, 8, 0)),
        ("unknown kind", changed(&good, 45, 3)),
        ("stuck with more than an index", changed(&stuck, 77, 1)),
        ("a byte short", good[..77].to_vec()),
        ("a byte too many", [&good[..], &[0]].concat()),
    ];
    let case = |(name, bytes): (&str, Vec<u8>)| {
        assert!(vote::decode(&bytes).is_err(), "{name}");
        json!({ "name": name, "extension": hex(bytes) })
    };
    cases.into_iter().map(case).collect()
}

/// The key whose seed is one byte 32 times.
fn key(seed: &Json) -> SigningKey {
    SigningKey::from_bytes(&hash(seed))
}

pub(crate) fn signed() -> Vec<Json> {
    let extension = vote_case(said("bank-a"))["extension"].clone();
    let input = |name: &str, height: i64, round: i32, extension: &Json| {
        json!({ "name": name, "seed": hex([1; 32]), "chain_id": CHAIN, "height": height.to_string(), "round": round,
            "extension": extension })
    };
    let inputs = [
        input("round 0 leaves no bytes", 21, 0, &extension),
        input("largest height and round", i64::MAX, i32::MAX, &extension),
        input("empty extension", 21, 2, &json!("")),
    ];
    inputs.into_iter().map(signed_case).collect()
}

fn signed_case(input: Json) -> Json {
    let key = key(&input["seed"]);
    let extension = unhex(&input["extension"]);
    let bytes =
        vote::sign_bytes(text(&input["chain_id"]), number(&input["height"]), number(&input["round"]), &extension);
    let public_key = key.verifying_key().to_bytes();
    let results = json!({ "public_key": hex(public_key), "address": hex(address(&public_key)), "sign_bytes": hex(&bytes),
        "signature": hex(key.sign(&bytes).to_bytes()) });
    case(input, results)
}

/// A certificate's vote by the key with this seed, as [`certificate_case`] reads it.
fn certified(organisation: &str, seed: u8, extension: &Json) -> Json {
    let signed = signed_case(
        json!({ "seed": hex([seed; 32]), "chain_id": CHAIN, "height": "21", "round": 0, "extension": extension }),
    );
    json!({ "organisation": organisation, "validator": signed["address"], "height": "21", "round": 0,
        "extension": extension, "signature": signed["signature"] })
}

fn honest(organisation: &str, seed: u8) -> Json {
    certified(organisation, seed, &vote_case(said(organisation))["extension"])
}

fn varied(organisation: &str, seed: u8, field: &str, value: Json) -> Json {
    let mut said = said(organisation);
    said[field] = value;
    certified(organisation, seed, &vote_case(said)["extension"])
}

fn changed(mut vote: Json, field: &str, value: Json) -> Json {
    vote[field] = value;
    vote
}

/// Validators 1 to 4 of bank-a to bank-d, 5 of bank-a too; consent of 3.
fn certificate(name: &str, votes: Vec<Json>) -> Json {
    let validators = [("bank-a", 1), ("bank-b", 2), ("bank-c", 3), ("bank-d", 4), ("bank-a", 5)].map(|(organisation, seed)| {
        json!({ "organisation": organisation, "public_key": hex(key(&json!(hex([seed; 32]))).verifying_key().to_bytes()) })
    });
    json!({ "name": name, "chain_id": CHAIN, "validators": validators, "consent": 3,
        "block": { "number": "7", "hash": hex(LEDGER_BLOCK_HASH) },
        "certificate": { "number": "7", "effect_round": 1, "hash": hex(LEDGER_BLOCK_HASH), "votes": votes } })
}

pub(crate) fn certificates() -> Vec<Json> {
    let (a, b, c) = (honest("bank-a", 1), honest("bank-b", 2), honest("bank-c", 3));
    let three = |vote: Json| vec![a.clone(), b.clone(), vote];
    let mut other_block = certificate("of another block", three(c.clone()));
    other_block["certificate"]["number"] = json!("8");
    let mut other_hash = certificate("for another hash than the block's", three(c.clone()));
    other_hash["block"]["hash"] = json!(hex([7; 32]));
    let copied = certified("bank-c", 3, &a["extension"]);
    let inputs = [
        certificate("three of four agree", three(c.clone())),
        certificate("too few votes", vec![a.clone(), b.clone()]),
        certificate("an organisation counts once", three(honest("bank-a", 5))),
        certificate("unknown validator", three(honest("bank-c", 6))),
        certificate(
            "validator of another organisation",
            three(changed(honest("bank-d", 4), "organisation", json!("bank-c"))),
        ),
        certificate("a copied vote", three(copied)),
        certificate("another block", three(varied("bank-c", 3, "block", json!("6")))),
        certificate("another effect round", three(varied("bank-c", 3, "effect_round", json!(0)))),
        certificate("another order block", three(varied("bank-c", 3, "order_hash", json!(hex([1; 32]))))),
        certificate("other effects", three(varied("bank-c", 3, "ledger_block_hash", json!(hex([1; 32]))))),
        certificate("stuck", three(varied("bank-c", 3, "stuck_at", json!(4)))),
        certificate("empty vote", three(certified("bank-c", 3, &json!("")))),
        certificate("malformed vote", three(certified("bank-c", 3, &json!("01")))),
        certificate("signed at another height", three(changed(c.clone(), "height", json!("22")))),
        certificate("signed in another round", three(changed(c.clone(), "round", json!(1)))),
        certificate("another's signature", three(changed(c.clone(), "signature", a["signature"].clone()))),
        certificate("short signature", three(changed(c, "signature", json!("00")))),
        other_block,
        other_hash,
    ];
    inputs.into_iter().map(certificate_case).collect()
}

fn certificate_case(input: Json) -> Json {
    let (of, block) = (&input["certificate"], &input["block"]);
    let vote = |vote: &Json| CertifiedVote {
        organisation: text(&vote["organisation"]).to_owned(),
        validator: unhex(&vote["validator"]),
        height: number(&vote["height"]),
        round: number(&vote["round"]),
        extension: unhex(&vote["extension"]),
        signature: unhex(&vote["signature"]),
    };
    let certificate = Certificate {
        number: number(&of["number"]),
        effect_round: number(&of["effect_round"]),
        hash: hash(&of["hash"]),
        votes: list(&of["votes"]).iter().map(vote).collect(),
    };
    let validator = |json: &Json| Validator {
        public_key: unhex(&json["public_key"]),
        organisation: text(&json["organisation"]).to_owned(),
    };
    let validators: Vec<_> = list(&input["validators"]).iter().map(validator).collect();
    let expected = Expected {
        chain_id: text(&input["chain_id"]),
        number: number(&block["number"]),
        hash: hash(&block["hash"]),
        validators: &validators,
        consent: number(&input["consent"]),
    };
    let findings: Vec<String> = check(&certificate, &expected).iter().map(ToString::to_string).collect();
    case(input.clone(), json!({ "findings": findings }))
}

/// Signatures that verifiers of Ed25519 differ about.
pub(crate) fn signatures() -> Vec<Json> {
    let honest = signed().swap_remove(0);
    let (key, message, signature) = (&honest["public_key"], &honest["sign_bytes"], &honest["signature"]);
    // With the secret key a and R the identity, S = H(R ‖ A ‖ M) · a; and the honest S, plus the
    // order of the group.
    let small_r = "0100000000000000000000000000000000000000000000000000000000000000440f33d8eb4cbaa69694889921523887d33d99ef4689e1ec4320d68b25094f08";
    let large_s = "09219a291f3536c99032a555e10f6f23efb5c4e0d6e0d5d25ea662cabfa4f46bf1d945faa9f696d26433ea9a1e758749ca7e6cab61064661b5c3b36e38e9aa10";
    let identity = "01".to_owned() + &"00".repeat(31);
    let input = |name: &str, key: &Json, signature: Json| json!({ "name": name, "public_key": key, "message": message, "signature": signature });
    let inputs = [
        input("honest", key, signature.clone()),
        input("of another key", &json!(hex([2; 32])), signature.clone()),
        input("S beyond the order of the group", key, json!(large_s)),
        input("R of small order, made with the secret key", key, json!(small_r)),
        input("key and R of small order", &json!(identity), json!(identity.clone() + &"00".repeat(32))),
        input("empty", key, json!("")),
    ];
    inputs.into_iter().map(signature_case).collect()
}

fn signature_case(input: Json) -> Json {
    let [key, message, signature] = ["public_key", "message", "signature"].map(|field| unhex(&input[field]));
    case(input, json!({ "valid": verify_signature(&key, &message, &signature) }))
}
