//! Runs one block of transactions (spec/sql-api.md, `chainify_node.execute_block`).
use chainify_codec::Hash;
use chainify_ledger::{block_buffer, Transaction};

use super::session::{self, Mode};
use super::transaction::{self, Outcome};
use super::{conflict, effects, groups, seal};
use crate::pg::block_settings::{at_time, pinned, show_activity};
use crate::pg::catalog::relation_named;
use crate::pg::error::{OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call};
use crate::pg::memory::Context;
use crate::pg::relation::{Lock, Relation};
use crate::pg::spi::{connected, query};

crate::sql_function!(
    chainify_execute_block,
    pg_finfo_chainify_execute_block,
    execute_block
);

/// A block to run, checked.
pub struct Request<'a> {
    pub chain_id: String,
    pub number: i64,
    pub order_height: i64,
    pub block_time: i64,
    pub previous: Hash,
    pub transactions: Vec<Transaction>,
    /// Their bytes as ordered.
    pub bodies: Vec<&'a [u8]>,
    pub quarantined: Vec<i32>,
    pub quarantine_all: bool,
    /// Asked for where organisations differed about the block: what each transaction did.
    pub effect_hashes: bool,
}

fn execute_block(call: &mut Call) -> Answer {
    let buffer: Vec<u8> = call.required(4, "transactions");
    let (sealed, outcomes) = session::with(Mode::Internal, || {
        connected(|| {
            let request = check_request(call, &buffer);
            effects::start();
            conflict::before_locals(request.number, || {
                let outcomes = run(&request);
                (seal::seal(&request, &outcomes), outcomes)
            })
        })
    });
    let rows: Vec<i64> = outcomes
        .iter()
        .map(|o| o.as_ref().map_or(0, |rows| *rows as i64))
        .collect();
    let errors = || outcomes.iter().map(|o| o.as_ref().err());
    let sqlstates: Vec<_> = errors()
        .map(|e| e.map(|e| e.sqlstate.as_str().to_owned()))
        .collect();
    let block = &sealed.block;
    let transaction_effects: Option<Vec<Vec<u8>>> = sealed
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

fn out_of_turn(message: String) -> PgError {
    PgError::new(b"55000", message)
}

fn malformed(error: impl std::fmt::Display) -> PgError {
    PgError::new(b"22023", format!("malformed block: {error}"))
}

fn check_request<'a>(call: &Call, buffer: &'a [u8]) -> Request<'a> {
    let chain_id = lock_chain();
    let (number, previous): (i64, Vec<u8>) = (
        call.required(0, "number"),
        call.required(3, "previous_hash"),
    );
    let (last, last_hash) = position();
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

fn run(request: &Request) -> Vec<Outcome> {
    let memory = Context::child(c"chainify transaction");
    let count = request.transactions.len();
    let mut outcomes = Vec::with_capacity(count);
    pinned(|| {
        at_time(request.block_time, || {
            while outcomes.len() < count {
                match run_group(request, outcomes.len(), &memory) {
                    Some(group) => outcomes.extend(group),
                    None => {
                        pgrx::check_for_interrupts!();
                        let outcome = memory.enter(|| run_one(request, outcomes.len()));
                        memory.reset();
                        groups::ran_alone(outcome.is_ok());
                        outcomes.push(outcome);
                    }
                }
            }
        })
    });
    show_activity(None);
    outcomes
}

/// Runs the transactions that share a subtransaction with the one at `first`. None: it has one of its own.
fn run_group(request: &Request, first: usize, memory: &Context) -> Option<Vec<Outcome>> {
    let members = groups::from(request, first)?;
    let count = members.len();
    let each = |index: u32, run: &mut dyn FnMut()| {
        pgrx::check_for_interrupts!();
        show(request, index as usize);
        memory.enter(run);
        memory.reset();
    };
    let outcomes = transaction::run_together(request, members, each)
        .unwrap_or_else(|(index, error)| raise_at(request.number, index as usize, error));
    groups::ran_together(count, outcomes.is_some());
    outcomes
}

fn show(request: &Request, index: usize) {
    show_activity(Some(&format!(
        "chainify block {} tx {index}",
        request.number
    )));
}

/// Raises an error of the machine with the transaction in its detail: the node votes stuck at one that keeps failing.
fn raise_at(number: i64, index: usize, mut error: PgError) -> ! {
    show_activity(None);
    let at = format!("chainify block {number} tx {index}");
    error.detail = Some(match error.detail.take() {
        Some(detail) => format!("{at}\n{detail}"),
        None => at,
    });
    error.raise()
}

fn run_one(request: &Request, index: usize) -> Outcome {
    if is_quarantined(request, index) {
        return Err(PgError::new(
            b"CH001",
            "quarantined: its effects differed between organisations",
        ));
    }
    show(request, index);
    transaction::run(request, index as u32)
        .unwrap_or_else(|error| raise_at(request.number, index, error))
}

/// Whether the node said not to run it.
pub fn is_quarantined(request: &Request, index: usize) -> bool {
    request.quarantine_all || request.quarantined.contains(&(index as i32))
}
