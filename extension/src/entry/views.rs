//! The functions that the views of schema `chainify` compute (sql/40_client.sql).

use chainify_codec::{table_state, Lanes};
use chainify_ledger::messages::{Kind, Parameter};
use chainify_ledger::Transaction;
use pgrx::JsonB;

use crate::pg::base::function::{cell, Answer, Call};

crate::sql_function!(
    chainify_decode_transaction,
    pg_finfo_chainify_decode_transaction,
    decode_transaction
);
crate::sql_function!(
    chainify_table_state_hash,
    pg_finfo_chainify_table_state_hash,
    table_state_hash
);

/// What a `ChainedTx` asks for; no row for bytes that are none.
fn decode_transaction(call: &mut Call) -> Answer {
    let body: Vec<u8> = call.required(0, "body");
    call.rows(|row| {
        let Ok(Transaction { proposal, .. }) = Transaction::decode(&body) else {
            return;
        };
        let kind = match proposal.kind() {
            Kind::Deploy => "deploy",
            Kind::Effects => "effects",
            _ => "sql",
        };
        let client = proposal.client.unwrap_or_default();
        row(&[
            cell(client.organisation),
            cell(client.role),
            cell(kind.to_owned()),
            cell(proposal.sql),
            cell(JsonB(
                proposal
                    .parameters
                    .into_iter()
                    .map(parameter_json)
                    .collect(),
            )),
            cell::<Vec<u8>>(Some(client.key).filter(|key| !key.is_empty())),
        ]);
    })
}

fn parameter_json(parameter: Parameter) -> serde_json::Value {
    let text = (!parameter.null).then_some(parameter.text);
    let type_name = Some(parameter.r#type).filter(|name| !name.is_empty());
    serde_json::json!({ "type": type_name, "value": text })
}

/// `table_state` of spec/formats.md from the fields it is kept in; NULL when they are not as long
/// as they should be.
fn table_state_hash(call: &mut Call) -> Answer {
    let name: String = call.required(0, "name");
    let schema_hash: Vec<u8> = call.required(1, "schema_hash");
    let rows: i64 = call.required(2, "row_count");
    let lanes: Vec<u8> = call.required(3, "lanes");
    let hash = schema_hash
        .try_into()
        .ok()
        .zip(u64::try_from(rows).ok())
        .zip(Lanes::from_bytes(&lanes));
    call.value::<Vec<u8>>(hash.map(|((schema_hash, rows), lanes)| {
        table_state(&name, &schema_hash, rows, &lanes).to_vec()
    }))
}
