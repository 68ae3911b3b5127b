//! `transactions.json` and `blocks.json`.

use chainify_ledger::agreement::{agrees, sign_bytes};
use chainify_ledger::messages::{Agreement, ChainedTx, Client, Parameter, Plan, Proposal, SignedProposal};
use chainify_ledger::{block_buffer, proposal_id, tx_id, tx_root, LedgerBlock, Outcomes, Transaction};
use ed25519_dalek::{Signer, SigningKey};
use prost::Message;
use serde_json::{json, Value as Json};
use sha2::{Digest, Sha256};

use crate::{case, hash, hex, list, number, text, unhex, write_sets};

/// The proposal that most cases vary.
fn transfer() -> Json {
    json!({
        "chain_id": "trade-1",
        "client": { "organisation": "bank-a", "role": "clerk" },
        "nonce": "18446744073709551615",
        "valid_until_height": "120",
        "kind": 1,
        "sql": "UPDATE account SET balance = balance - $1 WHERE id = $2",
        "parameters": [
            { "type": "numeric", "null": false, "text": "10.50" }, { "type": "bigint", "null": true, "text": "" }],
    })
}

fn with(mut base: Json, path: &str, value: Json) -> Json {
    *base.pointer_mut(path).unwrap() = value;
    base
}

fn proposal(json: &Json) -> Proposal {
    let client = &json["client"];
    Proposal {
        chain_id: text(&json["chain_id"]).to_owned(),
        client: client.is_object().then(|| Client {
            organisation: text(&client["organisation"]).to_owned(),
            role: text(&client["role"]).to_owned(),
            key: client.get("key").map(unhex).unwrap_or_default(),
        }),
        nonce: number(&json["nonce"]),
        valid_until_height: number(&json["valid_until_height"]),
        kind: number(&json["kind"]),
        sql: text(&json["sql"]).to_owned(),
        parameters: list(&json["parameters"]).iter().map(parameter).collect(),
        effects: json.get("effects").map(unhex).unwrap_or_default(),
        plan: json.get("plan").map(plan),
    }
}

fn plan(json: &Json) -> Plan {
    Plan {
        action: number(&json["action"]),
        planned: unhex(&json["planned"]),
        not_before: number(&json["not_before"]),
        expires: number(&json["expires"]),
        approvals: text(&json["approvals"]).to_owned(),
    }
}

fn parameter(json: &Json) -> Parameter {
    let (r#type, text_) = (text(&json["type"]).to_owned(), text(&json["text"]).to_owned());
    Parameter { r#type, null: json["null"].as_bool().unwrap(), text: text_ }
}

fn chained(json: &Json) -> ChainedTx {
    let signed =
        SignedProposal { proposal: proposal(&json["proposal"]).encode_to_vec(), signature: unhex(&json["signature"]) };
    let agreement = |json: &Json| Agreement {
        organisation: text(&json["organisation"]).to_owned(),
        proposal_hash: unhex(&json["proposal_hash"]),
        yes: json["yes"].as_bool().unwrap(),
        signature: unhex(&json["signature"]),
    };
    ChainedTx { proposal: Some(signed), agreements: list(&json["agreements"]).iter().map(agreement).collect() }
}

/// A transaction of kind EFFECTS.
fn applied() -> Json {
    let effects = hex(write_sets::example().encode());
    let client = json!({ "organisation": "bank-a", "role": "clerk" });
    json!({ "chain_id": "trade-1", "client": client, "nonce": "7", "valid_until_height": "120", "kind": 2, "sql": "",
        "parameters": [], "effects": effects })
}

/// The part of a PLAN transaction that plans.
fn later() -> Json {
    json!({ "action": 1, "planned": "", "not_before": "1767225600000000", "expires": "1769904000000000",
        "approvals": "2 OF (bank-a, bank-b, bank-c)" })
}

/// The same of another action.
fn on_plan(action: i32) -> Json {
    json!({ "action": action, "planned": hex([7; 32]), "not_before": "0", "expires": "0", "approvals": "" })
}

fn planning(base: Json, plan: Json) -> Json {
    let mut proposal = with(base, "/kind", json!(5));
    proposal["plan"] = plan;
    proposal
}

/// A PLAN transaction with neither statements nor parameters.
fn acting(plan: Json) -> Json {
    planning(with(with(transfer(), "/sql", json!("")), "/parameters", json!([])), plan)
}

fn unsigned(name: &str, proposal: Json) -> Json {
    json!({ "name": name, "proposal": proposal, "signature": "", "agreements": [] })
}

fn signed(name: &str, signature: &[u8]) -> Json {
    json!({ "name": name, "proposal": keyed(), "signature": hex(signature), "agreements": [] })
}

/// The form of a signature of several: place and path, of `hashes`.
fn placed(index: u32, size: u32, hashes: usize) -> Vec<u8> {
    [&[3; 64][..], &index.to_be_bytes(), &size.to_be_bytes(), &vec![6; 32 * hashes]].concat()
}

fn keyed() -> Json {
    with(transfer(), "/client", json!({ "organisation": "bank-a", "role": "clerk", "key": hex([4; 32]) }))
}

fn agreement() -> Json {
    json!({ "organisation": "bank-b", "proposal_hash": hex([1; 32]), "yes": true, "signature": hex([2; 64]) })
}

pub(crate) fn transactions() -> Vec<Json> {
    let least =
        with(with(with(transfer(), "/nonce", json!("0")), "/valid_until_height", json!("0")), "/parameters", json!([]));
    let attach = with(with(transfer(), "/kind", json!(3)), "/sql", json!("ATTACH TABLE public.account"));
    let agreed = json!({ "name": "signed and agreed", "proposal": keyed(), "signature": hex([3; 64]),
        "agreements": [agreement(), with(agreement(), "/yes", json!(false))] });
    let inputs = [
        unsigned("two parameters, one NULL", transfer()),
        unsigned("defaults leave no bytes", least),
        unsigned("deploy", with(attach, "/parameters", json!([]))),
        unsigned("effects", applied()),
        unsigned("planned", planning(transfer(), later())),
        unsigned("approval of a planned transaction", acting(on_plan(2))),
        unsigned("cancellation of a planned transaction", acting(on_plan(3))),
        unsigned("execution of a planned transaction", acting(on_plan(4))),
        unsigned(
            "longest names",
            with(
                with(transfer(), "/chain_id", json!("c".repeat(50))),
                "/client",
                json!({ "organisation": "o".repeat(63), "role": "r".repeat(63) }),
            ),
        ),
        agreed,
        signed("one of several signed together", &placed(2, 5, 3)),
        signed("the last of several signed together", &placed(4, 5, 1)),
    ];
    inputs.into_iter().map(transaction_case).collect()
}

fn transaction_case(input: Json) -> Json {
    let message = chained(&input);
    let bytes = message.encode_to_vec();
    let decoded = Transaction::decode(&bytes).unwrap();
    let raw = &message.proposal.as_ref().unwrap().proposal;
    assert_eq!(proposal_id(&decoded.proposal), decoded.id);
    assert_eq!((decoded.id, decoded.proposal), (tx_id(raw), proposal(&input["proposal"])));
    case(input, json!({ "proposal_bytes": hex(raw), "id": hex(decoded.id), "chained_tx": hex(bytes) }))
}

/// Agreements of organisations whose gateway key is SHA-256 of their name.
pub(crate) fn agreements() -> Vec<Json> {
    let input = |chain_id: &str, organisation: &str, id: u8, yes: bool| json!({ "chain_id": chain_id, "organisation": organisation, "id": hex([id; 32]), "yes": yes });
    let inputs =
        [input("trade-1", "bank-b", 1, true), input("trade-1", "bank-b", 1, false), input("t", "c", 255, true)];
    inputs.into_iter().map(agreement_case).collect()
}

fn agreement_case(input: Json) -> Json {
    let (chain_id, organisation) = (text(&input["chain_id"]), text(&input["organisation"]));
    let (id, yes) = (hash(&input["id"]), input["yes"].as_bool().unwrap());
    let message = sign_bytes(chain_id, organisation, &id, yes);
    let key = SigningKey::from_bytes(&Sha256::digest(organisation).into());
    let signature = key.sign(&message).to_bytes().to_vec();
    let public_key = key.verifying_key().to_bytes();
    let agreement = Agreement {
        organisation: organisation.to_owned(),
        proposal_hash: id.to_vec(),
        yes,
        signature: signature.clone(),
    };
    let agrees = agrees(&agreement, &public_key, chain_id, &id);
    case(
        input.clone(),
        json!({ "sign_bytes": hex(message), "public_key": hex(public_key), "signature": hex(signature), "agrees": agrees }),
    )
}

/// Transactions that are refused, with the field the error names.
pub(crate) fn refused() -> Vec<Json> {
    let varied = |path: &str, value: Json| chained(&unsigned("", with(transfer(), path, value))).encode_to_vec();
    let agreed = |path: &str, value: Json| {
        let agreements = json!([with(agreement(), path, value)]);
        chained(&with(unsigned("", transfer()), "/agreements", agreements)).encode_to_vec()
    };
    let long_sql = json!("x".repeat(524_288));
    let planned = |proposal: Json| chained(&unsigned("", proposal)).encode_to_vec();
    let changed = |path: &str, value: Json| planned(planning(transfer(), with(later(), path, value)));
    let long_plan = planning(with(transfer(), "/sql", json!("x".repeat(65_536))), later());
    let many = |count: usize| json!(vec![json!({ "type": "", "null": false, "text": "" }); count]);
    assert!(Transaction::decode(&varied("/parameters", many(1_000))).is_ok());
    let mut cases = vec![
        ("unknown kind", varied("/kind", json!(6)), "transaction.proposal.kind"),
        ("no kind", varied("/kind", json!(0)), "transaction.proposal.kind"),
        ("negative kind", varied("/kind", json!(-1)), "transaction.proposal.kind"),
        ("reserved kind", varied("/kind", json!(4)), "transaction.proposal.kind"),
        ("kind PLAN without a plan", varied("/kind", json!(5)), "transaction.proposal.plan"),
        (
            "a plan of another kind",
            planned(with(planning(transfer(), later()), "/kind", json!(1))),
            "transaction.proposal.plan",
        ),
        (
            "a plan with effects",
            planned({
                let mut both = planning(transfer(), later());
                both["effects"] = json!(hex(write_sets::example().encode()));
                both
            }),
            "transaction.proposal.effects",
        ),
        ("no action of a plan", changed("/action", json!(0)), "transaction.proposal.plan.action"),
        ("unknown action of a plan", changed("/action", json!(5)), "transaction.proposal.plan.action"),
        ("a plan that names one", changed("/planned", json!(hex([7; 32]))), "transaction.proposal.plan.planned"),
        ("a plan before 1970", changed("/not_before", json!("-1")), "transaction.proposal.plan.not_before"),
        ("a plan after 9999", changed("/expires", json!("253402300800000000")), "transaction.proposal.plan.expires"),
        (
            "approvals of 4,097 bytes",
            changed("/approvals", json!("x".repeat(4_097))),
            "transaction.proposal.plan.approvals",
        ),
        ("a planned transaction of 65,550 bytes", planned(long_plan), "transaction.proposal.sql"),
        ("a plan without statements", planned(acting(later())), "transaction.proposal.sql"),
        ("an approval with statements", planned(planning(transfer(), on_plan(2))), "transaction.proposal.plan"),
        (
            "an execution with a time",
            planned(acting(with(on_plan(4), "/not_before", json!("1")))),
            "transaction.proposal.plan",
        ),
        (
            "a cancellation of 31 bytes",
            planned(acting(with(on_plan(3), "/planned", json!(hex([7; 31]))))),
            "transaction.proposal.plan.planned",
        ),
        ("statements of kind EFFECTS", varied("/kind", json!(2)), "transaction.proposal.sql"),
        ("empty chain id", varied("/chain_id", json!("")), "transaction.proposal.chain_id"),
        ("chain id with a capital", varied("/chain_id", json!("Trade")), "transaction.proposal.chain_id"),
        ("chain id of 51 bytes", varied("/chain_id", json!("c".repeat(51))), "transaction.proposal.chain_id"),
        ("no client", varied("/client", json!(null)), "transaction.proposal.client"),
        (
            "organisation from a digit",
            varied("/client/organisation", json!("1a")),
            "transaction.proposal.client.organisation",
        ),
        ("role of 64 bytes", varied("/client/role", json!("é".repeat(32))), "transaction.proposal.client.role"),
        (
            "client key of 31 bytes",
            varied("/client", json!({ "organisation": "a", "role": "b", "key": "00".repeat(31) })),
            "transaction.proposal.client.key",
        ),
        (
            "client key without a signature",
            varied("/client", json!({ "organisation": "a", "role": "b", "key": "00".repeat(32) })),
            "transaction.proposal.signature",
        ),
        ("empty sql", varied("/sql", json!("")), "transaction.proposal.sql"),
        ("sql with a zero byte", varied("/sql", json!("SELECT '\0'")), "transaction.proposal.sql"),
        ("null with a text", varied("/parameters/1/text", json!("1")), "transaction.proposal.parameters[1].text"),
        ("text with a zero byte", varied("/parameters/0/text", json!("\0")), "transaction.proposal.parameters[0].text"),
        ("no agreeing organisation", agreed("/organisation", json!("")), "transaction.agreements[0].organisation"),
        (
            "proposal hash of 31 bytes",
            agreed("/proposal_hash", json!("00".repeat(31))),
            "transaction.agreements[0].proposal_hash",
        ),
        ("agreement unsigned", agreed("/signature", json!("")), "transaction.agreements[0].signature"),
        ("no proposal", vec![], "transaction.proposal"),
        (
            "truncated",
            {
                let mut b = varied("/kind", json!(1));
                b.pop();
                b
            },
            "transaction",
        ),
    ];
    cases.extend(misspelled());
    cases.extend(misapplied());
    let tree = |index, size, hashes| chained(&signed("", &placed(index, size, hashes))).encode_to_vec();
    cases.extend(
        [
            ("signature of one of one", tree(0, 1, 0)),
            ("signature of one beyond the last", tree(5, 5, 1)),
            ("signature of one of 1,025", tree(0, 1_025, 11)),
            ("path that is too short", tree(2, 5, 2)),
            ("path that is too long", tree(4, 5, 2)),
        ]
        .map(|(name, bytes)| (name, bytes, "transaction.proposal.signature")),
    );
    let agreements = with(unsigned("", transfer()), "/agreements", json!(vec![agreement(); 1_001]));
    let too_long = [
        ("1,001 agreements", chained(&agreements).encode_to_vec(), "transaction.agreements"),
        ("1,001 parameters", varied("/parameters", many(1_001)), "transaction.proposal.parameters"),
        ("proposal of more than 524,288 bytes", varied("/sql", long_sql), "transaction.proposal"),
    ];
    // Too long for a file that people read: checked here only.
    too_long.iter().for_each(|(name, bytes, field)| check_refused(name, bytes, field));
    cases.into_iter().map(|(name, bytes, field)| refused_case(name, &bytes, field)).collect()
}

/// Effects beside what they do not go with, or that are no write set.
fn misapplied() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let varied = |path: &str, value: Json| chained(&unsigned("", with(applied(), path, value))).encode_to_vec();
    let parameter = json!([{ "type": "", "null": true, "text": "" }]);
    let kind =
        |kind: u8, sql: &str| chained(&unsigned("", with(with(applied(), "/kind", json!(kind)), "/sql", json!(sql))));
    vec![
        ("effects with parameters", varied("/parameters", parameter), "transaction.proposal.parameters"),
        ("no effects", varied("/effects", json!("")), "transaction.proposal.effects"),
        ("effects of another version", varied("/effects", json!("02")), "transaction.proposal.effects.version"),
        ("effects beside statements", kind(1, "SELECT 1").encode_to_vec(), "transaction.proposal.effects"),
        ("effects in a deploy", kind(3, "DROP TABLE a").encode_to_vec(), "transaction.proposal.effects"),
        ("effects of the reserved kind", kind(4, "").encode_to_vec(), "transaction.proposal.kind"),
    ]
}

/// The same message in other bytes than its one spelling.
fn misspelled() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let message = chained(&unsigned("", transfer()));
    let (bytes, raw) = (message.encode_to_vec(), message.proposal.unwrap().proposal);
    let wrap = |proposal: Vec<u8>| {
        let signed = SignedProposal { proposal, signature: vec![] };
        ChainedTx { proposal: Some(signed), agreements: vec![] }.encode_to_vec()
    };
    let appended = |tail: &[u8]| wrap([&raw, tail].concat());
    let chain_id_last = [&raw[9..], &raw[..9]].concat();
    let nonce_long = {
        let at = raw.windows(2).position(|pair| pair == [0x20, 120]).unwrap();
        [&raw[..at], &[0x20, 0xf8, 0x00], &raw[at + 2..]].concat()
    };
    vec![
        ("unknown field", [&bytes[..], &[0x78, 1]].concat(), "transaction"),
        ("unknown field in the proposal", appended(&[0x78, 1]), "transaction.proposal"),
        ("scalar repeated", appended(&[0x28, 1]), "transaction.proposal"),
        ("default written out", wrap([&raw[..9], &[0x18, 0], &raw[9..]].concat()), "transaction.proposal"),
        ("fields out of order", wrap(chain_id_last), "transaction.proposal"),
        ("integer in more bytes than needed", wrap(nonce_long), "transaction.proposal"),
        (
            "sql that is not UTF-8",
            wrap(b"\x0a\x01c\x12\x06\x0a\x01o\x12\x01r\x28\x01\x32\x01\xff".to_vec()),
            "transaction.proposal",
        ),
    ]
}

fn check_refused(name: &str, bytes: &[u8], field: &str) {
    let error = Transaction::decode(bytes).expect_err(name);
    assert_eq!(error.field, field, "{name}: {error}");
}

fn refused_case(name: &str, bytes: &[u8], field: &str) -> Json {
    check_refused(name, bytes, field);
    json!({ "name": name, "chained_tx": hex(bytes), "field": field })
}

pub(crate) fn block_buffers() -> Vec<Json> {
    let all = transactions();
    let some = |name: &str, count: usize| {
        let (chained, ids): (Vec<_>, Vec<_>) =
            all[..count].iter().map(|t| (t["chained_tx"].clone(), t["id"].clone())).unzip();
        json!({ "name": name, "transactions": chained, "ids": ids })
    };
    [some("one transaction", 1), some("three transactions", 3)].into_iter().map(block_buffer_case).collect()
}

fn block_buffer_case(input: Json) -> Json {
    let transactions: Vec<Vec<u8>> = list(&input["transactions"]).iter().map(unhex).collect();
    let buffer = block_buffer::join(&transactions);
    assert_eq!(block_buffer::split(&buffer).unwrap(), transactions);
    let ids: Vec<_> = list(&input["ids"]).iter().map(hash).collect();
    case(input, json!({ "buffer": hex(buffer), "tx_root": hex(tx_root(&ids)) }))
}

pub(crate) fn refused_block_buffers() -> Vec<Json> {
    let cases = [
        ("no count", "000000"),
        ("fewer transactions than counted", "00000002 00000001 61"),
        ("a transaction beyond the end", "00000001 00000002 61"),
        ("bytes after the last", "00000001 00000001 61 00"),
        ("a count that does not fit the bytes", "ffffffff 00000000"),
    ];
    let case = |(name, bytes): (&str, &str)| {
        let buffer = json!(bytes.replace(' ', ""));
        assert!(block_buffer::split(&unhex(&buffer)).is_err(), "{name}");
        json!({ "name": name, "buffer": buffer })
    };
    cases.into_iter().map(case).collect()
}

fn header(name: &str, number: u64, outcomes: &[u8], previous: u8) -> Json {
    json!({
        "name": name, "chain_id": "trade-1", "number": number.to_string(), "order_height": "17",
        "block_time": "1700000000123456", "tx_root": hex([1; 32]), "outcomes": outcomes, "effects_root": hex([2; 32]),
        "effects_count": 3, "state_root": hex([4; 32]), "previous": hex([previous; 32]),
    })
}

pub(crate) fn ledger_blocks() -> Vec<Json> {
    let inputs = [
        header("block 1, one failed transaction", 1, &[0], 0),
        header("block 2, eight transactions", 2, &[1, 0, 1, 1, 0, 0, 0, 1], 5),
        header("nine transactions", 3, &[1, 1, 1, 1, 1, 1, 1, 1, 1], 6),
        with(header("largest numbers, a time before 1970", u64::MAX, &[1], 7), "/block_time", json!("-1")),
    ];
    inputs.into_iter().map(ledger_block_case).collect()
}

fn ledger_block(json: &Json) -> LedgerBlock {
    let succeeded = list(&json["outcomes"]);
    let mut outcomes = Outcomes::failed(succeeded.len() as u32);
    (0..).zip(succeeded).filter(|(_, one)| *one == 1).for_each(|(i, _)| outcomes.succeed(i));
    LedgerBlock {
        chain_id: text(&json["chain_id"]).to_owned(),
        number: number(&json["number"]),
        order_height: number(&json["order_height"]),
        block_time: number(&json["block_time"]),
        tx_root: hash(&json["tx_root"]),
        outcomes,
        effects_root: hash(&json["effects_root"]),
        effects_count: number(&json["effects_count"]),
        state_root: hash(&json["state_root"]),
        previous: hash(&json["previous"]),
    }
}

fn ledger_block_case(input: Json) -> Json {
    let block = ledger_block(&input);
    let bytes = block.encode();
    assert_eq!(LedgerBlock::decode(&bytes).unwrap(), block);
    let results =
        json!({ "header": hex(&bytes), "hash": hex(block.hash()), "outcome_bytes": hex(block.outcomes.as_bytes()) });
    case(input, results)
}

pub(crate) fn refused_ledger_blocks() -> Vec<Json> {
    let good = header("", 2, &[1, 1, 1], 5);
    let varied = |path: &str, value: Json| ledger_block(&with(good.clone(), path, value)).encode();
    let bytes = ledger_block(&good).encode();
    let outcomes_at = bytes.len() - 32 - 32 - 4 - 32 - 1;
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("another domain", changed(0, b'C')),
        ("number 0", varied("/number", json!("0"))),
        ("no transactions", varied("/outcomes", json!([]))),
        ("block 1 with a block before it", varied("/number", json!("1"))),
        ("a chain id that is none", varied("/chain_id", json!("Trade 1"))),
        ("an outcome beyond the last transaction", changed(outcomes_at, 0b1111)),
        ("truncated", bytes[..bytes.len() - 1].to_vec()),
        ("a byte too many", [&bytes[..], &[0]].concat()),
    ];
    let case = |(name, bytes): (&str, Vec<u8>)| {
        assert!(LedgerBlock::decode(&bytes).is_err(), "{name}");
        json!({ "name": name, "header": hex(bytes) })
    };
    cases.into_iter().map(case).collect()
}
