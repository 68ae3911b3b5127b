//! Reproduces `spec/vectors/*.json`, or rewrites them:
//! `UPDATE_VECTORS=1 cargo test -p chainify-ledger --test vectors`.
//!
//! A case's inputs are JSON, and the expected values are computed from that JSON.

#![expect(clippy::unwrap_used, reason = "tests")]

mod certificates;
mod hashes;
mod receipts;
mod schemas;
mod sealed;
mod transactions;
mod values;
mod write_sets;

use std::path::PathBuf;

use serde_json::{json, Value as Json};

/// The input with the results beside it.
pub(crate) fn case(mut input: Json, results: Json) -> Json {
    let Json::Object(results) = results else { panic!("results are an object") };
    input.as_object_mut().unwrap().extend(results);
    input
}

pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    chainify_codec::hex(bytes.as_ref())
}

pub(crate) fn unhex(json: &Json) -> Vec<u8> {
    let text = json.as_str().unwrap_or_else(|| panic!("hexadecimal text, not {json}"));
    chainify_codec::from_hex(text).unwrap_or_else(|| panic!("hexadecimal text, not {text}"))
}

pub(crate) fn hash(json: &Json) -> [u8; 32] {
    unhex(json).try_into().unwrap()
}

pub(crate) fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("text, not {json}"))
}

/// Numbers stand as decimal text where they may exceed what JSON readers keep exactly.
pub(crate) fn number<T: std::str::FromStr>(json: &Json) -> T
where
    T::Err: std::fmt::Debug,
{
    match json {
        Json::String(text) => text.parse().unwrap(),
        _ => json.to_string().parse().unwrap(),
    }
}

pub(crate) fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap_or_else(|| panic!("a list, not {json}"))
}

fn verify(name: &str, content: Json) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors").join(name);
    let want = serde_json::to_string_pretty(&content).unwrap() + "\n";
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&path, want).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let found: Json = serde_json::from_str(&found).unwrap();
    for (section, cases) in content.as_object().unwrap() {
        for (i, case) in list(cases).iter().enumerate() {
            assert_eq!(found[section][i], *case, "{name}: {section} {i}");
        }
    }
    assert_eq!(found, content, "{name} has cases that no test makes");
}

#[test]
fn values_vectors() {
    verify("values.json", json!({ "cases": values::values(), "refused": values::refused() }));
}

#[test]
fn rows_vectors() {
    verify("rows.json", json!({ "cases": values::rows() }));
}

#[test]
fn sealed_vectors() {
    verify("sealed.json", json!({ "cases": sealed::cases() }));
}

#[test]
fn merkle_vectors() {
    verify("merkle.json", json!({ "cases": hashes::merkle() }));
}

#[test]
fn leaves_vectors() {
    verify("leaves.json", json!({ "cases": hashes::leaves(), "deploys": hashes::deploys(), "parts": hashes::parts() }));
}

#[test]
fn lanes_vectors() {
    verify(
        "lanes.json",
        json!({ "tables": hashes::tables(), "definitions": hashes::definition_lists(),
            "procedures": hashes::procedure_lists(),
        "state_roots": hashes::state_roots() }),
    );
}

#[test]
fn transactions_vectors() {
    let content = json!({
        "cases": transactions::transactions(),
        "refused": transactions::refused(),
        "blocks": transactions::block_buffers(),
        "refused_blocks": transactions::refused_block_buffers(),
    });
    verify("transactions.json", content);
}

#[test]
fn write_sets_vectors() {
    let content = json!({
        "cases": write_sets::cases(),
        "refused": write_sets::refused(),
        "failing": write_sets::failing(),
    });
    verify("write_sets.json", content);
}

#[test]
fn agreements_vectors() {
    verify("agreements.json", json!({ "cases": transactions::agreements() }));
}

#[test]
fn blocks_vectors() {
    let content = json!({ "cases": transactions::ledger_blocks(), "refused": transactions::refused_ledger_blocks() });
    verify("blocks.json", content);
}

#[test]
fn votes_vectors() {
    let content = json!({
        "votes": certificates::votes(),
        "refused": certificates::refused_votes(),
        "signed": certificates::signed(),
        "certificates": certificates::certificates(),
    });
    verify("votes.json", content);
}

#[test]
fn signatures_vectors() {
    verify("signatures.json", json!({ "cases": certificates::signatures() }));
}

#[test]
fn receipts_vectors() {
    verify("receipts.json", json!({ "receipts": receipts::receipts(), "forged": receipts::forged() }));
}
