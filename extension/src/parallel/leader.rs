//! Executes a block in parts that run beside each other (spec/parallel.md). This session leads and
//! runs the first part.
//!
//! * P1 The order of the block is the semantics: in parts or not, a block has the same LedgerBlock.
//! * P2 An unforeseen event rolls back every part. Then the block runs in the leader alone. So a
//!   wrong schedule costs time and nothing else.
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use chainify_ledger::parts::{PartReport, PartRequest, RefusedTransaction};
use chainify_sched::cost::fill_up;
use chainify_sched::division::{self, Division};
use chainify_sched::reorder::{Counts, LIMITS};
use chainify_sched::{graph, AccessSet, Place, Target};
use chainify_worker::parts::{paid, Pause};

use crate::block::part;
use crate::block::part::Company;
use crate::block::seal;
use crate::block::seal::Ran;
use crate::parallel::block_access;
use crate::parallel::block_access::Sets;
use crate::parallel::declared_access;
use crate::parallel::team;
use crate::pg::base::error::PgError;
use crate::pg::base::settings;
use crate::pg::base::settings::DebugParts;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::planner::block_settings::pinned;
use crate::pg::run::commit::nothing_written;
use crate::running::block_state::ByTransaction;
use crate::running::declared;
use crate::running::effects;
use crate::running::request::{may_deploy, Refused, Request};

/// The cost of a part beside its transactions, in transactions: telling it, merging and
/// committing it.
const PART_COST: u64 = 20;

thread_local! {
    static PAUSE: RefCell<Pause> = RefCell::default();
    /// The block this session ran last.
    static LAST: Cell<i64> = const { Cell::new(0) };
}

/// Runs the block in parts, when that pays; None: nothing was done, or it was undone, and the block
/// runs alone.
pub fn run(request: &Request) -> Option<Ran> {
    let started = Instant::now();
    let parts = parts_of(request)?;
    match subtransaction(|| beside(request, &parts)) {
        Ok((ran, own)) => {
            let paid = paid(started.elapsed(), own, parts.first, parts.whole);
            PAUSE.with_borrow_mut(|pause| match paid || settings::debug_parts().is_some() {
                true => pause.went_well(),
                false => pause.failed(),
            });
            Some(ran)
        }
        Err(error) => {
            team::abandon();
            if is_for_this_session(&error) {
                error.raise();
            }
            team::settle();
            PAUSE.with_borrow_mut(Pause::failed);
            pgrx::log!(
                "block {} runs again in one process: {}",
                request.number,
                error.message
            );
            None
        }
    }
}

/// Somebody wants this session's statement to end.
fn is_for_this_session(error: &PgError) -> bool {
    error.sqlstate.as_str().starts_with("57")
}

/// How a block is divided.
struct Parts {
    /// By part, as positions in the request.
    members: Vec<Vec<usize>>,
    /// The declared access that their transactions have to keep to.
    declared: ByTransaction,
    /// The time that the first part is expected to take, and the whole block, in one unit.
    first: u64,
    whole: u64,
}

impl Parts {
    fn of(division: &Division, declared: ByTransaction) -> Self {
        let positions = |part: &Vec<u32>| part.iter().map(|tx| *tx as usize).collect();
        Parts {
            members: division.parts().iter().map(positions).collect(),
            declared,
            first: division.loads()[0].max(1),
            whole: division
                .loads()
                .iter()
                .copied()
                .fold(0, u64::saturating_add),
        }
    }
}

/// The parts; None when the block runs in the leader alone.
fn parts_of(request: &Request) -> Option<Parts> {
    let again = LAST.replace(request.number) == request.number;
    let workers = settings::executor_workers() as u32;
    if workers < 2 || !nothing_written() || is_deploy(request) || request.effect_hashes {
        return None;
    }
    let debug = settings::debug_parts();
    if debug.is_none() && !may_pay(request, again) {
        return None;
    }
    let parts = divided(request, workers, debug);
    if parts.is_none() {
        PAUSE.with_borrow_mut(Pause::failed);
    }
    parts
}

/// The parts that the transactions fall into; None when they fall into none that pay.
fn divided(request: &Request, workers: u32, debug: Option<DebugParts>) -> Option<Parts> {
    let transactions = &request.transactions;
    let equal = |sets: Sets| (vec![1; sets.sets.len()], sets);
    let (costs, Sets { sets, declared }) = match debug {
        Some(DebugParts::Position(parts)) => equal(Sets {
            sets: by_position(request, parts),
            declared: ByTransaction::new(),
        }),
        Some(DebugParts::Access) => equal(pinned(|| block_access::of_block(transactions))),
        Some(DebugParts::KeptKeys) | None => {
            let promising = |sets: &[AccessSet], costs: &[u64]| {
                debug.is_some()
                    || division::is_promising(&division::assign(
                        &graph::build(sets),
                        costs,
                        workers,
                    ))
            };
            let found = pinned(|| block_access::of_promising_block(transactions, promising));
            let (sets, costs) = found?;
            (fill_up(&costs), sets)
        }
    };
    let graph = graph::build(&sets);
    let mut division = division::assign(&graph, &costs, workers);
    if debug.is_none() && !division::worth_it(&division, PART_COST * mean(&costs)) {
        return None;
    }
    let workers = workers_for(division.parts().len() - 1) as u32;
    if workers as usize + 1 < division.parts().len() {
        division = division::assign(&graph, &costs, workers + 1);
    }
    (division.parts().len() > 1).then(|| Parts::of(&division, declared))
}

fn mean(costs: &[u64]) -> u64 {
    let sum = costs.iter().copied().fold(0, u64::saturating_add);
    (sum / costs.len().max(1) as u64).max(1)
}

/// Whether to look for parts at all.
fn may_pay(request: &Request, again: bool) -> bool {
    let transactions = request.transactions.len();
    PAUSE.with_borrow_mut(|pause| pause.may_pay(transactions, again))
}

/// How many workers there are, up to `wanted`; starts those that are missing.
fn workers_for(wanted: usize) -> usize {
    if team::size() >= wanted {
        return wanted;
    }
    match subtransaction(|| Ok(team::start(wanted))) {
        Ok(started) => started,
        Err(error) if is_for_this_session(&error) => error.raise(),
        Err(error) => {
            pgrx::log!("no executor workers: {}", error.message);
            0
        }
    }
}

/// Whether the block may change definitions.
pub fn is_deploy(request: &Request) -> bool {
    request.transactions.iter().any(|t| may_deploy(t.kind()))
}

/// For tests: access sets that make the block fall into `parts` by position.
fn by_position(request: &Request, parts: u32) -> Vec<AccessSet> {
    let apart = |tx: u32| {
        let mut set = AccessSet::new();
        set.write(Target::Rows(tx % parts), Place::whole());
        set
    };
    (0..request.transactions.len() as u32).map(apart).collect()
}

/// Runs the first part here and the others in workers; says how long the first one took.
fn beside(
    request: &Request,
    Parts {
        members: parts,
        declared,
        ..
    }: &Parts,
) -> Result<(Ran, Duration), PgError> {
    team::begin();
    for (part, members) in parts.iter().enumerate().skip(1) {
        team::run(part, request_of(request, part, members, declared))?;
    }
    effects::start();
    let started = Instant::now();
    let run = || part::run(request, &parts[0], Company::Beside);
    let ran = declared::checked(declared.clone(), run);
    let own = part::finish(request, &parts[0], &ran).report;
    let took = started.elapsed();
    let members: Vec<usize> = parts[1..].iter().map(Vec::len).collect();
    let mut reports = vec![own];
    reports.extend(team::collect(request.number, &members)?);
    crate::pg::base::crash::point("parts_ready");
    Ok((merge(parts, reports)?, took))
}

fn request_of(
    request: &Request,
    part: usize,
    members: &[usize],
    declared: &ByTransaction,
) -> PartRequest {
    let indices: Vec<u32> = members.iter().map(|at| request.indices[*at]).collect();
    PartRequest {
        declared: declared_access::messages(declared, &indices),
        chain_id: request.chain_id.clone(),
        number: request.number,
        order_height: request.order_height,
        block_time: request.block_time,
        previous: request.previous.to_vec(),
        tx_root: seal::root_of_ids(request).to_vec(),
        part: part as i32,
        members: indices,
        bodies: members
            .iter()
            .map(|at| request.bodies[*at].to_vec())
            .collect(),
        runs: members.iter().map(|at| request.runs[*at]).collect(),
        quarantined: request.quarantined.clone(),
        refused: request.refused.iter().map(refused).collect(),
        quarantine_all: request.quarantine_all,
    }
}

fn refused((index, reason): &Refused) -> RefusedTransaction {
    RefusedTransaction {
        transaction: *index as u32,
        sqlstate: reason.sqlstate.as_str().to_owned(),
        message: reason.message.clone(),
    }
}

/// The sums of what the orders in the parts counted.
fn orders(reports: &[PartReport]) -> Counts {
    let mut sums = Counts::default();
    reports.iter().for_each(|report| {
        sums.add(&Counts {
            accesses: report.order_accesses,
            cut_steps: report.order_cut_steps,
            chance_steps: report.order_chance_steps,
        })
    });
    sums
}

/// The result of the parts together; Err when they turn out not to have been independent.
fn merge(parts: &[Vec<usize>], reports: Vec<PartReport>) -> Result<Ran, PgError> {
    let unforeseen = |why: &str| PgError::new(b"40001", why);
    let (changes, bytes) = reports.iter().fold((0, 0), |(changes, bytes), report| {
        (changes + report.changes_peak, bytes + report.bytes_peak)
    });
    if effects::exceeds_block(changes, bytes) {
        return Err(unforeseen(
            "together its parts may exceed the bounds of a block",
        ));
    }
    if !orders(&reports).fit(&LIMITS) {
        return Err(unforeseen(
            "the orders of its EFFECTS transactions together may exceed the limits of one",
        ));
    }
    let merged = chainify_ledger::seal::merge(parts, reports)
        .ok_or_else(|| unforeseen("two parts changed the same row"))?;
    Ok(Ran {
        outcomes: merged.outcomes.iter().map(part::from_report).collect(),
        effects_root: merged.effects_root,
        effects_count: merged.effects_count,
        nets: merged.nets,
        transaction_effects: None,
        workers: parts.len() - 1,
    })
}
