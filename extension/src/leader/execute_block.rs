//! Runs one block of transactions (spec/sql-api.md, `chainify_node.execute_block`).
use chainify_codec::{merged_root, Hash};
use chainify_ledger::{block_buffer, LedgerBlock, Transaction};

use crate::block::part;
use crate::block::part::{Company, Finished};
use crate::block::seal;
use crate::block::seal::Ran;
use crate::block::{half_committed, lock_conflicts, restored};
use crate::leader::commit;
use crate::ledger::checkpoints;
use crate::ledger::session;
use crate::ledger::session::Mode;
use crate::parallel::{leader, team};
use crate::pg::base::catalog::relation_named;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::{connected, query};
use crate::pg::run::executor_cache;
use crate::recovery::repair_by_key;
use crate::transaction::request::Request;
use crate::transaction::{deploy, effects};

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
    call.value(executor_cache::uses() as i64)
}

fn execute_block(call: &mut Call) -> Answer {
    let buffer: Vec<u8> = call.required(4, "transactions");
    let (block, ran) = session::with(Mode::Internal, || {
        connected(|| {
            let standing = Standing::locked();
            let mut request = check_request(call, &buffer, &standing);
            if standing.half {
                request = half_committed::authoritative(request);
            }
            let certified: Option<Vec<u8>> = call.arg(8).filter(|_| !standing.half);
            let run = match standing.half {
                true => half_committed::complete,
                false => run,
            };
            lock_conflicts::before_locals(request.number, || {
                if leader::is_deploy(&request) || certified.is_some() {
                    checkpoints::lock_bases();
                }
                let (block, ran) = certified
                    .and_then(|hash| {
                        repair_by_key::run(&request, &hash, || sealed(&request, alone))
                    })
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
    lock_conflicts::before_locals(request.number, || sealed(request, alone).0)
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

fn check_request<'a>(call: &Call, buffer: &'a [u8], standing: &Standing) -> Request<'a> {
    let (number, previous): (i64, Vec<u8>) = (
        call.required(0, "number"),
        call.required(3, "previous_hash"),
    );
    let (last, last_hash) = (standing.last, standing.last_hash);
    restored::check(last, standing.own);
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
        chain_id: standing.chain_id.clone(),
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

/// Where the ledger stands before a block.
struct Standing {
    chain_id: String,
    /// Number and hash of the last LedgerBlock; 0 and zeros before the first.
    last: i64,
    last_hash: Hash,
    /// The blocks were executed in this database.
    own: bool,
    /// Parts of the next block are committed.
    half: bool,
}

impl Standing {
    /// One block at a time: the lock is held until the caller commits or rolls back, and nothing of an earlier block is open.
    fn locked() -> Standing {
        let Some(blocks) = relation_named("chainify_ledger", "block") else {
            out_of_turn("extension chainify is not installed in this database".into()).raise()
        };
        drop(Relation::open(blocks, Lock::ShareRowExclusive));
        commit::check_nothing_open();
        team::settle();
        Standing::read().unwrap_or_else(|| {
            out_of_turn("this database belongs to no chain yet".into())
                .hint("Call chainify_node.init first.")
                .raise()
        })
    }

    fn read() -> Option<Standing> {
        let sql = "SELECT c.chain_id, b.number, b.hash, EXISTS (SELECT FROM chainify_ledger.here),
                EXISTS (SELECT FROM chainify_ledger.part WHERE block > coalesce(b.number, 0))
            FROM chainify_ledger.chain c
            LEFT JOIN LATERAL (SELECT number, hash FROM chainify_ledger.block ORDER BY number DESC LIMIT 1) b ON true";
        let mut standing = None;
        query(sql, &[], |row| {
            let hash = row.get::<Vec<u8>>(3).map(Hash::try_from).transpose();
            let Ok(hash) = hash else {
                PgError::new(b"XX001", "hash of the last ledger block is malformed").raise()
            };
            standing = Some(Standing {
                chain_id: row.must(1),
                last: row.get(2).unwrap_or_default(),
                last_hash: hash.unwrap_or_default(),
                own: row.must(4),
                half: row.must(5),
            });
        });
        standing
    }
}

fn run(request: &Request) -> Ran {
    leader::run(request).unwrap_or_else(|| alone(request))
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
