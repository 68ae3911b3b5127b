//! Runs the next block of transactions, and one that recovery executes again.
use chainify_codec::{hex, merged_root, Hash};
use chainify_ledger::{block_buffer, LedgerBlock, Transaction};

use crate::block::part;
use crate::block::part::{Company, Finished, HasRun};
use crate::block::seal;
use crate::block::seal::Ran;
use crate::block::{half_committed, lock_conflicts, restored};
use crate::definitions::deploy;
use crate::leader::commit;
use crate::ledger::checkpoints;
use crate::ledger::outcome::Outcome;
use crate::ledger::own_tables::OwnTable;
use crate::ledger::tables;
use crate::parallel::{leader, team};
use crate::pg::base::catalog::relation_named;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::query;
use crate::pg::base::subtransaction::is_read_only;
use crate::planned;
use crate::running::effects;
use crate::running::request::{Refused, Request};

/// A block as the node asks for it.
pub struct Asked<'a> {
    pub number: i64,
    pub order_height: i64,
    pub block_time: i64,
    pub previous: Vec<u8>,
    /// The transactions' bytes as ordered (spec/formats.md, block buffer).
    pub transactions: &'a [u8],
    pub quarantined: Vec<i32>,
    pub quarantine_all: bool,
    pub effect_hashes: bool,
    /// Transactions that are not run, with their outcomes; None: the node has not judged.
    pub refused: Option<Vec<Refused>>,
}

/// A block that was executed.
pub type Executed = (LedgerBlock, Ran);

/// Executes a block in this process alone, by its second argument and as often as it needs; None
/// when that does not give the certified block.
pub type Cure<'c> = &'c dyn Fn(&Request, &dyn Fn() -> Executed) -> Option<Executed>;

/// Drops what this database has alone and that would show, given the block's number; whether it
/// changed definitions.
pub type DropSurplus = fn(i64) -> bool;

/// Runs and seals the block that is next, in parts where that pays. With a `cure` the block came
/// out otherwise than certified before. Needs [`connected`](crate::pg::base::spi::connected), in
/// the mode of the ledger's own work.
pub fn execute(asked: Asked, cure: Option<Cure>, drop_surplus: DropSurplus) -> Executed {
    let standing = Standing::locked();
    let mut request = check_request(asked, &standing);
    if standing.half {
        request = half_committed::authoritative(request);
    }
    let request = request.with_runs();
    let cure = cure.filter(|_| !standing.half);
    lock_conflicts::before_locals(request.number, || {
        // Other processes would not see what changed here.
        let run = match (standing.half, || drop_surplus(request.number)) {
            (true, _) => half_committed::complete,
            (false, dropped) if dropped() => alone,
            (false, _) => run,
        };
        if leader::is_deploy(&request) || cure.is_some() {
            checkpoints::lock_bases();
        }
        let (block, ran) = cure
            .and_then(|cure| cure(&request, &|| sealed(&request, alone)))
            .unwrap_or_else(|| sealed(&request, run));
        commit::executed(request.number, ran.workers);
        (block, ran)
    })
}

/// Runs and seals a block that follows the last one within a recovery: in this process alone, where
/// what recovery has written is seen, and with no COMMIT of its own. Needs [`connected`], in the
/// mode of the ledger's own work.
pub fn again(request: &Request) -> LedgerBlock {
    lock_conflicts::before_locals(request.number, || sealed(request, alone).0)
}

/// Runs some transactions of a block for what they define, and keeps nothing else of the block: no
/// history and no states. Needs [`connected`], in the mode of the ledger's own work.
pub fn defined_by(request: &Request) -> Vec<Outcome> {
    lock_conflicts::before_locals(request.number, || {
        let (ran, _) = ran_alone(request);
        effects::start();
        ran.outcomes
    })
}

fn sealed(request: &Request, run: fn(&Request) -> Ran) -> (LedgerBlock, Ran) {
    let ran = run(request);
    (seal::seal(request, &ran), ran)
}

/// Of a transaction of the block, 25006 is its own doing: the block itself may write.
fn want_writable() {
    if is_read_only() {
        PgError::new(
            b"25006",
            "cannot execute a block in a read-only transaction",
        )
        .hint("Begin it with BEGIN READ WRITE.")
        .raise()
    }
}

fn out_of_turn(message: String) -> PgError {
    PgError::new(b"55000", message)
}

fn malformed(error: impl std::fmt::Display) -> PgError {
    PgError::new(b"22023", format!("malformed block: {error}"))
}

fn check_request<'a>(asked: Asked<'a>, standing: &Standing) -> Request<'a> {
    let number = asked.number;
    let (last, last_hash) = (standing.last, standing.last_hash);
    restored::check(last, standing.own);
    if number != last + 1 {
        out_of_turn(format!(
            "block {number} is out of turn, want block {}",
            last + 1
        ))
        .raise();
    }
    if asked.previous != last_hash {
        out_of_turn(format!(
            "previous hash of block {number} is not that of block {last}"
        ))
        .detail(format!(
            "Previous hash {}, want {}.",
            hex(&asked.previous),
            hex(&last_hash)
        ))
        .raise();
    }
    let bodies = block_buffer::split(asked.transactions)
        .map_err(malformed)
        .or_raise();
    if bodies.is_empty() {
        malformed("it has no transaction").raise();
    }
    let transactions = bodies.iter().enumerate().map(|(i, body)| {
        Transaction::decode(body)
            .map_err(|e| malformed(format!("transaction {i}: {e}")))
            .or_raise()
    });
    if asked.order_height < 0 {
        malformed("order_height is negative").raise();
    }
    let refused = judged(asked.refused);
    let mut quarantined = asked.quarantined;
    quarantined.extend(refused.iter().map(|(index, _)| *index));
    Request {
        chain_id: standing.chain_id.clone(),
        number,
        order_height: asked.order_height,
        block_time: asked.block_time,
        previous: last_hash,
        transactions: transactions.collect(),
        indices: (0..bodies.len() as u32).collect(),
        bodies,
        runs: Vec::new(),
        quarantined,
        refused,
        quarantine_all: asked.quarantine_all,
        effect_hashes: asked.effect_hashes,
    }
}

/// In a ledger of several engines each node refuses what one engine alone executes.
fn judged(refused: Option<Vec<Refused>>) -> Vec<Refused> {
    if refused.is_none() && tables::is_shared() {
        out_of_turn(
            "the ledger has tables of ENCODING 2, and the node has not judged the block".into(),
        )
        .hint("Install a node of the extension's version.")
        .raise();
    }
    refused.unwrap_or_default()
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
    /// One block at a time: the lock is held until the caller commits or rolls back, and nothing of
    /// an earlier block is open.
    fn locked() -> Standing {
        want_writable();
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
        let mut standing = None;
        OwnTable::read("chain").rows(|row| {
            standing = Some(Standing {
                chain_id: row.must("chain_id"),
                last: 0,
                last_hash: Hash::default(),
                own: false,
                half: false,
            });
        });
        let mut standing = standing?;
        let sql = "SELECT number, hash FROM chainify_ledger.block ORDER BY number DESC LIMIT 1";
        query(sql, &[], |row| {
            let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>(2)) else {
                PgError::new(b"XX001", "hash of the last ledger block is malformed").raise()
            };
            (standing.last, standing.last_hash) = (row.must(1), hash);
        });
        standing.own = OwnTable::read("here").has_rows();
        OwnTable::read("part")
            .rows(|row| standing.half |= row.must::<i64>("block") > standing.last);
        Some(standing)
    }
}

fn run(request: &Request) -> Ran {
    leader::run(request).unwrap_or_else(|| alone(request))
}

fn ran_alone(request: &Request) -> (HasRun, Vec<usize>) {
    effects::start();
    deploy::start();
    planned::start();
    let positions: Vec<usize> = (0..request.transactions.len()).collect();
    (part::run(request, &positions, Company::Alone), positions)
}

fn alone(request: &Request) -> Ran {
    let (ran, positions) = ran_alone(request);
    let Finished {
        report,
        transaction_effects,
    } = part::finish(request, &positions, &ran);
    Ran {
        outcomes: ran.outcomes,
        effects_root: merged_root([report.leaves()]).expect("one part shares no key with another"),
        effects_count: report.leaves().count() as u32,
        nets: report.nets,
        transaction_effects,
        workers: 0,
    }
}
