//! `merkle.json`, `leaves.json` and `lanes.json`.

use chainify_codec::{
    definitions, deploy_effects, effects_root, leaf, merkle as tree, procedures_state, schema_hash, state_root,
    table_state, transaction_effects, Change, Hash, Lanes, Op, Procedure,
};
use serde_json::{json, Value as Json};
use sha2::{Digest, Sha256};

use crate::{case, hash, hex, list, number, text, unhex};

fn leaf_hash(data: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(data).finalize().into()
}

/// The first eight data are those of the known answers that Certificate Transparency
/// implementations share.
pub(crate) fn merkle() -> Vec<Json> {
    let data = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
        "09",
        "0a",
        "0b",
        "0c",
        "0d",
    ];
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 13].into_iter().map(|n| merkle_case(json!({ "data": data[..n] }))).collect()
}

fn merkle_case(input: Json) -> Json {
    let leaves: Vec<Hash> = list(&input["data"]).iter().map(|data| leaf_hash(&unhex(data))).collect();
    let root = tree::root(&leaves);
    let proofs: Vec<Vec<String>> = (0..leaves.len())
        .map(|i| {
            let proof = tree::prove(&leaves, i).unwrap();
            assert!(tree::verify(&leaves[i], i as u64, leaves.len() as u64, &proof, &root));
            proof.iter().map(hex).collect()
        })
        .collect();
    case(input, json!({ "root": hex(root), "proofs": proofs }))
}

pub(crate) fn leaves() -> Vec<Json> {
    let change = |table: &str, pk: &str, tx: u32, op: &str, row: u8| json!({ "table": table, "pk": pk, "tx": tx, "op": op, "row_hash": hex([row; 32]) });
    let (one, two) = ("000100010200000008 0000000000000001", "000100010200000008 0000000000000002");
    let (one, two) = (&one.replace(' ', ""), &two.replace(' ', ""));
    let inputs = [
        json!({ "name": "a block without effects", "changes": [] }),
        json!({ "name": "one insert", "changes": [change("public.t", one, 0, "I", 1)] }),
        json!({ "name": "one key changed three times, another between", "changes": [
            change("public.t", two, 0, "I", 1), change("public.t", one, 0, "D", 2), change("public.t", two, 1, "U", 3),
            change("public.a", two, 1, "I", 4), change("public.t", two, 1, "D", 5)] }),
        json!({ "name": "the same in another order of keys: the same root", "changes": [
            change("public.a", two, 1, "I", 4), change("public.t", two, 0, "I", 1), change("public.t", two, 1, "U", 3),
            change("public.t", two, 1, "D", 5), change("public.t", one, 0, "D", 2)] }),
        json!({ "name": "a key that is the beginning of another, a table likewise", "changes": [
            change("p.tt", "00", 7, "I", 1), change("p.t", "0000", 7, "I", 2), change("p.t", "00", 7, "I", 3)] }),
    ];
    inputs.into_iter().map(effects_case).collect()
}

fn effects_case(input: Json) -> Json {
    let keys: Vec<Vec<u8>> = list(&input["changes"]).iter().map(|change| unhex(&change["pk"])).collect();
    let mut changes: Vec<Change<'_>> = list(&input["changes"])
        .iter()
        .zip(&keys)
        .map(|(change, pk)| Change {
            table: text(&change["table"]),
            pk,
            tx: number(&change["tx"]),
            op: Op::from_byte(text(&change["op"]).as_bytes()[0]).unwrap(),
            row_hash: hash(&change["row_hash"]),
            serial: 0,
        })
        .collect();
    let effects = effects_root(&mut changes);
    let sorted = effects.order.iter().map(|at| {
        let change = &changes[*at as usize];
        json!({ "change": at, "serial": change.serial, "leaf": hex(leaf(change)) })
    });
    let sorted: Vec<_> = sorted.collect();
    // One transaction more than have changes; those without one failed when their index is odd.
    let count = changes.iter().map(|change| change.tx + 2).max().unwrap_or(2);
    let outcomes: Vec<bool> =
        (0..count).map(|tx| tx % 2 == 0 || changes.iter().any(|change| change.tx == tx)).collect();
    let apart = transaction_effects(&changes, &effects.order, &outcomes);
    let results = json!({ "sorted": sorted, "effects_root": hex(effects.root), "outcomes": outcomes,
        "transaction_effects": apart.iter().map(hex).collect::<Vec<_>>() });
    case(input.clone(), results)
}

/// Parts of a vote: how many, the first and the last hash; the effects hash of transaction i is
/// `H(u32 i)`.
pub(crate) fn parts() -> Vec<Json> {
    let inputs = [
        json!({ "name": "each transaction is a part", "transactions": 3, "suspects": [] }),
        json!({ "name": "as many as there are parts at most", "transactions": 1_024, "suspects": [] }),
        json!({ "name": "one more: the last part has two", "transactions": 1_025, "suspects": [] }),
        json!({ "name": "some of many", "transactions": 10_000, "suspects": [7, 9, 9_999] }),
    ];
    inputs.into_iter().map(parts_case).collect()
}

fn parts_case(input: Json) -> Json {
    let suspects: Vec<u32> = list(&input["suspects"]).iter().map(number).collect();
    let suspects = if suspects.is_empty() { (0..number(&input["transactions"])).collect() } else { suspects };
    let count = suspects.len().min(1_024);
    let part = |i: usize| {
        let members = &suspects[i * suspects.len() / count..(i + 1) * suspects.len() / count];
        let start = Sha256::new().chain_update(b"chainify/effect-part/1");
        let all = members.iter().fold(start, |hash, tx| hash.chain_update(Sha256::digest(tx.to_be_bytes())));
        hex(&all.finalize()[..16])
    };
    case(input, json!({ "parts": count, "first": part(0), "last": part(count - 1) }))
}

pub(crate) fn deploys() -> Vec<Json> {
    let input = json!({ "tx_effects": hex([1; 32]), "state_root": hex([2; 32]) });
    let effects = deploy_effects(&hash(&input["tx_effects"]), &hash(&input["state_root"]));
    vec![case(input, json!({ "deploy_effects": hex(effects) }))]
}

pub(crate) fn tables() -> Vec<Json> {
    let rows = |rows: &[&str]| json!(rows);
    let inputs = [
        json!({ "name": "empty", "table": "public.t", "schema_text": "", "rows": rows(&[]) }),
        json!({ "name": "one row", "table": "public.t", "schema_text": "id bigint", "rows": rows(&["0000"]) }),
        json!({ "name": "the same row in another table", "table": "public.u", "schema_text": "id bigint",
            "rows": rows(&["0000"]) }),
        json!({ "name": "three rows, two of them equal", "table": "public.t", "schema_text": "id bigint",
            "rows": rows(&["0000", "00010001010000000101", "0000"]) }),
    ];
    inputs.into_iter().map(table_case).collect()
}

fn table_case(input: Json) -> Json {
    let table = text(&input["table"]);
    let mut lanes = Lanes::zero();
    let rows = list(&input["rows"]);
    rows.iter().for_each(|row| lanes.add(table, &unhex(row)));
    let schema = schema_hash(text(&input["schema_text"]));
    let state = table_state(table, &schema, rows.len() as u64, &lanes);
    let results = json!({ "schema_hash": hex(schema), "lanes": hex(lanes.to_bytes()), "table_state": hex(state) });
    case(input.clone(), results)
}

pub(crate) fn definition_lists() -> Vec<Json> {
    let object =
        |kind: &str, identity: &str, text: &str| json!({ "kind": kind, "identity": identity, "definition": text });
    let inputs = [
        json!({ "name": "nothing left", "objects": [] }),
        json!({ "name": "sorted by kind and identity, byte-wise", "objects": [
            object("view", "public.b", "owner admin"), object("function", "public.f(integer)", "owner admin\nCREATE …"),
            object("view", "public.B", ""), object("schema", "shop", "owner admin")] }),
        json!({ "name": "the same bytes, divided elsewhere", "objects": [object("view", "public.bo", "wner admin")] }),
    ];
    let hash = |input: &Json| {
        definitions(
            list(&input["objects"]).iter().map(|o| (text(&o["kind"]), text(&o["identity"]), text(&o["definition"]))),
        )
    };
    inputs.into_iter().map(|input| case(input.clone(), json!({ "definitions_state": hex(hash(&input)) }))).collect()
}

pub(crate) fn procedure_lists() -> Vec<Json> {
    let procedure = |name: &str, signature: &str, engines: &[(&str, u8)]| {
        let digests: Vec<Json> =
            engines.iter().map(|(engine, byte)| json!({ "engine": engine, "digest": hex([*byte; 32]) })).collect();
        json!({ "name": name, "signature": signature, "digests": digests })
    };
    let inputs = [
        json!({ "name": "nothing left", "procedures": [] }),
        json!({ "name": "sorted by name, byte-wise", "procedures": [
            procedure("public.pay_out", "()", &[("postgresql", 1)]),
            procedure("public.pay", "(bigint, numeric)", &[("mariadb", 2), ("postgresql", 3)])] }),
        json!({ "name": "a procedure that is not there", "procedures": [procedure("public.pay", "()", &[("mariadb", 0)])] }),
    ];
    let read = |of: &Json| Procedure {
        name: text(&of["name"]).to_owned(),
        signature: text(&of["signature"]).to_owned(),
        digests: list(&of["digests"])
            .iter()
            .map(|d| (if text(&d["engine"]) == "mariadb" { "mariadb" } else { "postgresql" }, hash(&d["digest"])))
            .collect(),
    };
    let state = |input: &Json| procedures_state(list(&input["procedures"]).iter().map(read).collect());
    inputs.into_iter().map(|input| case(input.clone(), json!({ "procedures_state": hex(state(&input)) }))).collect()
}

pub(crate) fn state_roots() -> Vec<Json> {
    let state = |name: &str, byte: u8| json!({ "table": name, "table_state": hex([byte; 32]) });
    let inputs = [
        json!({ "name": "no table", "tables": [] }),
        json!({ "name": "sorted by name, byte-wise", "tables": [
            state("public.b", 1), state("public.a", 2), state("public.B", 3), state("public.aa", 4)] }),
        json!({ "name": "definitions stand among the tables", "tables": [
            state("public.b", 1), state("definitions", 2), state("\"A\".z", 3)] }),
        json!({ "name": "procedures stand among the tables", "tables": [
            state("public.b", 1), state("procedures", 2), state("\"A\".z", 3)] }),
    ];
    let root = |input: &Json| {
        state_root(list(&input["tables"]).iter().map(|table| (text(&table["table"]), hash(&table["table_state"]))))
    };
    inputs.into_iter().map(|input| case(input.clone(), json!({ "state_root": hex(root(&input)) }))).collect()
}
