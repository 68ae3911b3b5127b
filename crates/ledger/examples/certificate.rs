//! Signs an effect certificate for tests. Prints the arguments of `chainify_node.init` and
//! `store_certificate` as JSON.
//!
//! `cargo run -p chainify-ledger --example certificate -- CHAIN_ID BLOCK HASH_HEX ORGANISATION…`
//! The organisations' consensus keys are SHA-256 of their names: never use this for a real chain.

use chainify_codec::{from_hex, hex};
use chainify_ledger::certificate::address;
use chainify_ledger::vote::{encode, salted, sign_bytes, EffectVote, Verdict};
use chainify_ledger::Hash;
use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest, Sha256};

const HEIGHT: i64 = 12;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chain_id, block, hash, organisations @ ..] = arguments.as_slice() else {
        eprintln!("usage: certificate CHAIN_ID BLOCK HASH_HEX ORGANISATION…");
        std::process::exit(2);
    };
    let block = block.parse().expect("a block number");
    let hash: Hash = from_hex(hash).and_then(|bytes| bytes.try_into().ok()).expect("64 hexadecimal digits");
    let keys: Vec<_> = organisations.iter().map(|name| SigningKey::from_bytes(&Sha256::digest(name).into())).collect();
    let members = organisations.iter().zip(&keys);
    let validators = members.clone().map(|(name, key)| {
        let public_key = key.verifying_key().to_bytes();
        let address = hex(&address(&public_key));
        serde_json::json!({ "organisation": name, "address": address, "public_key": hex(&public_key) })
    });
    println!("{}", serde_json::Value::from_iter(validators));
    let votes = members.map(|(name, key)| vote(chain_id, block, &hash, name, key));
    println!("{}", serde_json::Value::from_iter(votes));
}

fn vote(chain_id: &str, block: u64, hash: &Hash, organisation: &str, key: &SigningKey) -> serde_json::Value {
    let verdict = Verdict::Effects(salted(organisation, hash));
    let extension = encode(&EffectVote { block, effect_round: 0, order_hash: [5; 32], verdict, parts: vec![] });
    let signature = key.sign(&sign_bytes(chain_id, HEIGHT, 0, &extension)).to_bytes();
    serde_json::json!({
        "organisation": organisation,
        "validator": hex(&address(&key.verifying_key().to_bytes())),
        "height": HEIGHT,
        "round": 0,
        "extension": hex(&extension),
        "signature": hex(&signature),
    })
}
