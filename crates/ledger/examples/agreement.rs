//! Signs agreements for tests: the organisations with their gateway keys, then the signature of
//! each organisation.
//!
//! `cargo run -p chainify-ledger --example agreement -- CHAIN_ID TRANSACTION_ID_HEX ORGANISATION…`
//! The gateways' keys are SHA-256 of the organisations' names: never use this for a real chain.

use chainify_codec::{from_hex, hex};
use chainify_ledger::agreement::sign_bytes;
use chainify_ledger::Hash;
use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest, Sha256};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chain_id, id, organisations @ ..] = arguments.as_slice() else {
        eprintln!("usage: agreement CHAIN_ID TRANSACTION_ID_HEX ORGANISATION…");
        std::process::exit(2);
    };
    let id: Hash = from_hex(id).and_then(|bytes| bytes.try_into().ok()).expect("64 hexadecimal digits");
    let keys: Vec<_> = organisations.iter().map(|name| SigningKey::from_bytes(&Sha256::digest(name).into())).collect();
    let gateways = organisations.iter().zip(&keys).map(|(name, key)| {
        let public_key = hex(&key.verifying_key().to_bytes());
        serde_json::json!({ "organisation": name, "from_block": 0, "public_key": public_key })
    });
    println!("{}", serde_json::Value::from_iter(gateways));
    for (name, key) in organisations.iter().zip(&keys) {
        let signature = key.sign(&sign_bytes(chain_id, name, &id, true)).to_bytes();
        println!("{name} {}", hex(&signature));
    }
}
