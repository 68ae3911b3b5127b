//! The functions that the views of schema `chainify` compute (sql/40_client.sql).

use chainify_agreement::Policy;
use chainify_codec::{table_state, Hash, Lanes};
use chainify_ledger::messages::{Kind, Proposal};
use chainify_ledger::planned::{action, Action};
use chainify_ledger::Transaction;
use pgrx::JsonB;

use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::planned::planned_rows::parameter_json;
use crate::submission::submit::bytea;

crate::pg::sql_function!(
    chainify_decode_transaction,
    pg_finfo_chainify_decode_transaction,
    decode_transaction
);
crate::pg::sql_function!(
    chainify_lacks_approval,
    pg_finfo_chainify_lacks_approval,
    lacks_approval
);
crate::pg::sql_function!(
    chainify_table_state_hash,
    pg_finfo_chainify_table_state_hash,
    table_state_hash
);

/// The content of a `ChainedTx`; no row for bytes that are none.
fn decode_transaction(call: &mut Call) -> Answer {
    let body: Vec<u8> = call.required(0, "body");
    call.rows(|row| {
        let Ok(Transaction { proposal, .. }) = Transaction::decode(&body) else {
            return;
        };
        let kind = match proposal.kind() {
            Kind::Deploy => "deploy",
            Kind::Effects => "effects",
            Kind::Plan => "plan",
            _ => "sql",
        };
        let text = text_of(&proposal);
        let client = proposal.client.unwrap_or_default();
        row(&[
            cell(client.organisation),
            cell(client.role),
            cell(kind.to_owned()),
            cell(text),
            cell(JsonB(
                proposal.parameters.iter().map(parameter_json).collect(),
            )),
            cell::<Vec<u8>>(Some(client.key).filter(|key| !key.is_empty())),
        ]);
    })
}

/// The statements of a proposal; of an action on a plan the call that asks for it.
fn text_of(proposal: &Proposal) -> String {
    let call = |name: &str, id: &Hash| format!("SELECT chainify.{name}('{}')", bytea(id));
    match action(proposal) {
        Ok(Action::Approve(id)) => call("approve_planned", &id),
        Ok(Action::Cancel(id)) => call("cancel_planned", &id),
        Ok(Action::Execute(id)) => call("execute_planned", &id),
        Ok(Action::Plan(_)) | Err(_) => proposal.sql.clone(),
    }
}

/// The approvals that a policy lacks when these organisations approve, as a policy. Raises 42601
/// for a text that is none.
fn lacks_approval(call: &mut Call) -> Answer {
    let policy: String = call.required(0, "policy");
    let approving: Vec<String> = call.required(1, "organisations");
    let malformed = |error| PgError::new(b"42601", format!("approvals: {error}"));
    let policy = Policy::parse(&policy).map_err(malformed).or_raise();
    let agrees = |name: &str| approving.iter().any(|other| other == name);
    let need = policy.need(&|_| None, &agrees);
    call.value::<String>(need.map(|need| need.to_string()))
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
