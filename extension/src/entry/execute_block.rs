//! `chainify_node.execute_block` (spec/sql-api.md), which the node calls for every block.
use crate::leader::execute_block::{execute, Asked, Executed};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::run::executor_cache;
use crate::pg::run::step::{enter, Step};
use crate::planned;
use crate::recovery::{adopt, repair_by_key, surplus};
use crate::running::request::Refused;
use crate::running::request::Request;

crate::pg::sql_function!(
    chainify_execute_block,
    pg_finfo_chainify_execute_block,
    execute_block
);

crate::pg::sql_function!(
    chainify_adopt_block,
    pg_finfo_chainify_adopt_block,
    adopt_block
);

crate::pg::sql_function!(
    chainify_kept_executions,
    pg_finfo_chainify_kept_executions,
    kept_executions
);

/// `chainify_node.kept_executions`: executions of this session that began with a kept state of the
/// executor (X10).
fn kept_executions(call: &mut Call) -> Answer {
    call.value(executor_cache::uses() as i64)
}

fn execute_block(call: &mut Call) -> Answer {
    let transactions: Vec<u8> = call.required(4, "transactions");
    let certified: Option<Vec<u8>> = call.arg(8);
    let effect_hashes = call.arg(7).unwrap_or_default();
    let asked = asked(call, &transactions, effect_hashes);
    let by_key = |request: &Request, once: &dyn Fn() -> Executed| {
        repair_by_key::run(request, certified.as_deref()?, once)
    };
    let cure = certified.is_some().then_some(&by_key as _);
    let executed = enter(Step::Ledger, || execute(asked, cure, surplus::before_block));
    answer(call, executed)
}

/// `chainify_node.adopt_block`; contract in spec/sql-api.md.
fn adopt_block(call: &mut Call) -> Answer {
    let transactions: Vec<u8> = call.required(4, "transactions");
    let certified: Vec<u8> = call.required(7, "certified_hash");
    let header: Vec<u8> = call.required(8, "header");
    let asked = asked(call, &transactions, false);
    let adopted = |request: &Request, _: &dyn Fn() -> Executed| {
        Some(adopt::run(request, &certified, &header))
    };
    let executed = enter(Step::Ledger, || {
        execute(asked, Some(&adopted), surplus::before_block)
    });
    answer(call, executed)
}

/// The arguments that both functions have at the same places.
fn asked<'a>(call: &Call, transactions: &'a [u8], effect_hashes: bool) -> Asked<'a> {
    Asked {
        number: call.required(0, "number"),
        order_height: call.required(1, "order_height"),
        block_time: call.required(2, "block_time"),
        previous: call.required(3, "previous_hash"),
        transactions,
        quarantined: call.arg(5).unwrap_or_default(),
        quarantine_all: call.arg(6).unwrap_or_default(),
        effect_hashes,
        refused: refused(call).or_raise(),
    }
}

/// The transactions that the node refuses to run, with their outcomes; None: it has not judged.
/// Errors: 22023.
fn refused(call: &Call) -> Result<Option<Vec<Refused>>, PgError> {
    let Some(indices) = call.arg::<Vec<i32>>(9) else {
        return Ok(None);
    };
    let texts = |at| call.arg::<Vec<String>>(at).unwrap_or_default();
    let (states, messages) = (texts(10), texts(11));
    if states.len() != indices.len() || messages.len() != indices.len() {
        let message = "a refused transaction has one SQLSTATE and one message";
        return Err(PgError::new(b"22023", message));
    }
    let refused = |((index, state), message): ((i32, String), String)| {
        let state = <[u8; 5]>::try_from(state.as_bytes());
        let state = state.map_err(|_| PgError::new(b"22023", "malformed SQLSTATE"))?;
        Ok((index, PgError::new(&state, message)))
    };
    let refused = indices.into_iter().zip(states).zip(messages).map(refused);
    refused.collect::<Result<_, PgError>>().map(Some)
}

fn answer(call: &mut Call, (block, ran): Executed) -> Answer {
    let rows: Vec<i64> = ran
        .outcomes
        .iter()
        .map(|o| o.as_ref().map_or(0, |rows| *rows as i64))
        .collect();
    let outcomes = ran.outcomes.iter().zip(0..);
    let reasons: Vec<_> = outcomes.map(|(o, at)| planned::reason(o, at)).collect();
    let errors = || reasons.iter().map(Option::as_ref);
    let sqlstates: Vec<_> = errors()
        .map(|e| e.map(|e| e.sqlstate.as_str().to_owned()))
        .collect();
    let transaction_effects: Option<Vec<Vec<u8>>> = ran
        .transaction_effects
        .map(|hashes| hashes.iter().map(|hash| hash.to_vec()).collect());
    let messages: Vec<_> = errors().map(|e| e.map(|e| e.message.clone())).collect();
    call.record(&[
        cell(&block.hash()[..]),
        cell(block.encode()),
        cell(block.outcomes.as_bytes()),
        cell(rows),
        cell(sqlstates),
        cell(messages),
        cell::<Vec<Vec<u8>>>(transaction_effects),
    ])
}
