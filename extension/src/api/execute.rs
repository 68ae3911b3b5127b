//! Runs one block of transactions (spec/sql-api.md, `chainify_node.execute_block`).
use chainify_codec::{merged_root, Hash};
use chainify_ledger::{block_buffer, LedgerBlock, Transaction};

use super::part::{self, Company, Finished};
use super::seal::{self, Ran};
use super::session::{self, Mode};
use super::{commit, conflict, deploy, effects, half, parallel, restored, team, touched};
use crate::pg::catalog::relation_named;
use crate::pg::error::{OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call};
use crate::pg::kept;
use crate::pg::relation::{Lock, Relation};
use crate::pg::spi::{connected, query};

crate::sql_function!(
    chainify_execute_block,
    pg_finfo_chainify_execute_block,
    execute_block
);

crate::sql_function!(
    chainify_kept_executions,
    pg_finfo_chainify_kept_executions,
    kept_executions
);

/// `chainify_node.kept_executions`: executions of this session that began with a kept state of the executor (X10).
fn kept_executions(call: &mut Call) -> Answer {
    call.value(kept::uses() as i64)
}

/// A block to run, checked.
pub struct Request<'a> {
    pub chain_id: String,
    pub number: i64,
    pub order_height: i64,
    pub block_time: i64,
    pub previous: Hash,
    pub transactions: Vec<Transaction>,
    /// Their positions in the block: all of them, but for a worker, which is given those of its part.
    pub indices: Vec<u32>,
    /// Their bytes as ordered.
    pub bodies: Vec<&'a [u8]>,
    pub quarantined: Vec<i32>,
    pub quarantine_all: bool,
    /// Asked for where organisations differed about the block: what each transaction did.
    pub effect_hashes: bool,
}

fn execute_block(call: &mut Call) -> Answer {
    let buffer: Vec<u8> = call.required(4, "transactions");
    let (block, ran) = session::with(Mode::Internal, || {
        connected(|| {
            let request = half::authoritative(check_request(call, &buffer));
            let certified: Option<Vec<u8>> = call.arg(8).filter(|_| !half::is(request.number));
            conflict::before_locals(request.number, || {
                let (block, ran) = certified
                    .and_then(|hash| touched::run(&request, &hash, || sealed(&request, alone)))
                    .unwrap_or_else(|| sealed(&request, run));
                commit::executed(request.number, ran.workers);
                (block, ran)
            })
        })
    });
    let rows: Vec<i64> = ran
        .outcomes
        .iter()
        .map(|o| o.as_ref().map_or(0, |rows| *rows as i64))
        .collect();
    let errors = || ran.outcomes.iter().map(|o| o.as_ref().err());
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

/// Runs and seals a block that follows the last one within a recovery: in this process alone, where what recovery has written
/// is seen, and with no COMMIT of its own. Needs [`connected`], in the mode of the ledger's own work.
pub fn again(request: &Request) -> LedgerBlock {
    conflict::before_locals(request.number, || sealed(request, alone).0)
}

fn sealed(request: &Request, run: fn(&Request) -> Ran) -> (LedgerBlock, Ran) {
    let ran = run(request);
    (seal::seal(request, &ran), ran)
}

fn out_of_turn(message: String) -> PgError {
    PgError::new(b"55000", message)
}

fn malformed(error: impl std::fmt::Display) -> PgError {
    PgError::new(b"22023", format!("malformed block: {error}"))
}

fn check_request<'a>(call: &Call, buffer: &'a [u8]) -> Request<'a> {
    let chain_id = lock_chain();
    commit::check_nothing_open();
    team::settle();
    let (number, previous): (i64, Vec<u8>) = (
        call.required(0, "number"),
        call.required(3, "previous_hash"),
    );
    let (last, last_hash) = position();
    restored::check(last);
    if number != last + 1 {
        out_of_turn(format!(
            "block {number} is out of turn, want block {}",
            last + 1
        ))
        .raise();
    }
    if previous != last_hash {
        out_of_turn(format!(
            "previous hash of block {number} is not that of block {last}"
        ))
        .detail(format!(
            "Previous hash {}, want {}.",
            hex(&previous),
            hex(&last_hash)
        ))
        .raise();
    }
    let bodies = block_buffer::split(buffer).map_err(malformed).or_raise();
    if bodies.is_empty() {
        malformed("it has no transaction").raise();
    }
    let transactions = bodies.iter().enumerate().map(|(i, body)| {
        Transaction::decode(body)
            .map_err(|e| malformed(format!("transaction {i}: {e}")))
            .or_raise()
    });
    let order_height: i64 = call.required(1, "order_height");
    if order_height < 0 {
        malformed("order_height is negative").raise();
    }
    Request {
        chain_id,
        number,
        order_height,
        block_time: call.required(2, "block_time"),
        previous: last_hash,
        transactions: transactions.collect(),
        indices: (0..bodies.len() as u32).collect(),
        bodies,
        quarantined: call.arg(5).unwrap_or_default(),
        quarantine_all: call.arg(6).unwrap_or_default(),
        effect_hashes: call.arg(7).unwrap_or_default(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// One block at a time: the lock is held until the caller commits or rolls back.
fn lock_chain() -> String {
    let Some(blocks) = relation_named("chainify_ledger", "block") else {
        out_of_turn("extension chainify is not installed in this database".into()).raise()
    };
    drop(Relation::open(blocks, Lock::ShareRowExclusive));
    let mut chain_id = None;
    query("SELECT chain_id FROM chainify_ledger.chain", &[], |row| {
        chain_id = row.get::<String>(1)
    });
    chain_id.unwrap_or_else(|| {
        out_of_turn("this database belongs to no chain yet".into())
            .hint("Call chainify_node.init first.")
            .raise()
    })
}

/// Number and hash of the last LedgerBlock; 0 and zeros before the first.
fn position() -> (i64, Hash) {
    let mut last = (0, [0; 32]);
    query(
        "SELECT number, hash FROM chainify_ledger.block ORDER BY number DESC LIMIT 1",
        &[],
        |row| {
            let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>(2)) else {
                PgError::new(b"XX001", "hash of the last ledger block is malformed").raise()
            };
            last = (row.must(1), hash);
        },
    );
    last
}

fn run(request: &Request) -> Ran {
    half::complete(request)
        .or_else(|| parallel::run(request))
        .unwrap_or_else(|| alone(request))
}

fn alone(request: &Request) -> Ran {
    effects::start();
    deploy::start();
    let positions: Vec<usize> = (0..request.transactions.len()).collect();
    let outcomes = part::run(request, &positions, Company::Alone);
    let Finished {
        report,
        transaction_effects,
    } = part::finish(request, &positions, &outcomes);
    Ran {
        outcomes,
        effects_root: merged_root([report.leaves()]).expect("one part shares no key with another"),
        effects_count: report.leaves().count() as u32,
        nets: report.nets,
        transaction_effects,
        workers: 0,
    }
}
