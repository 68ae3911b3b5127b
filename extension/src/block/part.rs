//! A part of a block: runs its transactions, writes their history, and computes those hashes that
//! need no other part.
//!
//! A block that is executed by its leader alone is one part with all of its transactions.
use std::borrow::Cow;
use std::collections::HashMap;

use chainify_codec::{leaf, sort_changes, transaction_effects, Change, Hash, KeyedLeaf};
use chainify_ledger::messages::Kind;
use chainify_ledger::parts::{LeafList, Net, PartOutcome, PartReport};
use chainify_ledger::seal::{nets, Step};
use chainify_sched::reorder::Counts;
use pgrx::pg_sys::Oid;

use crate::certification::effects_order::{self, Turns};
use crate::definitions::deploy;
use crate::ledger::outcome::Outcome;
use crate::ledger::tables;
use crate::ledger::tables::Leaf;
use crate::pg::base::catalog::relation_named;
use crate::pg::base::constraints;
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::memory::Context;
use crate::pg::base::memory_limit::explained;
use crate::pg::base::relation::Scratch;
use crate::pg::planner::block_settings::show_activity;
use crate::pg::planner::planned_access;
use crate::pg::run::bulk::BulkInsert;
use crate::pg::run::step;
use crate::pg::run::step::enter;
use crate::pg::shared::pool;
use crate::planned;
use crate::running::declared;
use crate::running::effects;
use crate::running::recorded::{Effects, Recorded};
use crate::running::request::{is_quarantined, refusal, Request};
use crate::sequences;
use crate::transaction::groups;
use crate::transaction::run;

/// Whether other parts of the block run at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// None: whatever is in the way gives way.
    Alone,
    /// Others: waiting for a lock may mean waiting for one of them, so the part gives up at once.
    Beside,
}

/// A part that has run.
pub struct HasRun {
    /// By position.
    pub outcomes: Vec<Outcome>,
    /// The sums of the orders of its EFFECTS transactions.
    pub order: Counts,
}

/// Runs the transactions of `request` at `positions`, in that order. Raises an error of the machine
/// with the transaction in its detail: the node votes stuck at one that keeps failing.
pub fn run(request: &Request, positions: &[usize], company: Company) -> HasRun {
    planned_access::note(declared::exist());
    let memory = Context::child(c"chainify transaction");
    let mut outcomes = Vec::with_capacity(positions.len());
    let mut order = Counts::default();
    let block = step::Step::Block {
        time: request.block_time,
        impatient: company == Company::Beside,
    };
    enter(block, || {
        // A constraint that waited for the transaction's end would wait for that of the block.
        constraints::check_at_once();
        sequences::begin_block();
        while outcomes.len() < positions.len() {
            let rest = &positions[outcomes.len()..];
            check_company(company);
            match run_group(request, rest, Kind::Sql, &memory) {
                Some(group) => outcomes.extend(group),
                None if let Some(turns) = effects_order::of(request, rest) => {
                    order.add(&turns.counts);
                    outcomes.extend(run_in_turns(request, rest, turns, company, &memory));
                }
                None => outcomes.push(run_alone(request, rest[0], &memory)),
            }
        }
    });
    pool::show_running(None);
    show_activity(None);
    HasRun { outcomes, order }
}

/// Raises when another part of the block gave up.
fn check_company(company: Company) {
    if company == Company::Beside && pool::parts_stopped() {
        PgError::new(b"40001", "another part of the block gave up").raise();
    }
}

/// Runs the transactions that share a subtransaction with the first at `positions`. None: it has
/// one of its own.
fn run_group(
    request: &Request,
    positions: &[usize],
    kind: Kind,
    memory: &Context,
) -> Option<Vec<Outcome>> {
    let count = groups::from(request, positions, kind)?;
    let each = |at: usize, run: &mut dyn FnMut()| {
        pgrx::check_for_interrupts!();
        show(request, at);
        memory.enter(run);
        memory.reset();
    };
    let outcomes = run::run_together(request, &positions[..count], each)
        .unwrap_or_else(|(at, error)| raise_at(request, at, error));
    groups::ran_together(count, outcomes.is_some());
    outcomes
}

/// Runs the EFFECTS transactions at the beginning of `positions` in the order of their turns.
fn run_in_turns(
    request: &Request,
    positions: &[usize],
    turns: Turns,
    company: Company,
    memory: &Context,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = vec![Ok(0); turns.count()];
    for (at, conflict) in turns.lost {
        outcomes[at] = Err(conflict);
    }
    let order: Vec<usize> = turns.order.iter().map(|at| positions[*at]).collect();
    let mut done = 0;
    while done < order.len() {
        check_company(company);
        let rest = &order[done..];
        let ran = run_group(request, rest, Kind::Effects, memory)
            .unwrap_or_else(|| vec![run_alone(request, rest[0], memory)]);
        for (at, outcome) in turns.order[done..].iter().zip(ran) {
            outcomes[*at] = outcome;
            done += 1;
        }
    }
    outcomes
}

fn run_alone(request: &Request, at: usize, memory: &Context) -> Outcome {
    pgrx::check_for_interrupts!();
    let outcome = memory.enter(|| run_one(request, at));
    memory.reset();
    groups::ran_alone(outcome.is_ok());
    outcome
}

fn run_one(request: &Request, at: usize) -> Outcome {
    if is_quarantined(request, at) {
        return Err(quarantined(request, at));
    }
    show(request, at);
    run::run(request, at).unwrap_or_else(|error| raise_at(request, at, error))
}

/// The outcome of a transaction that the node said not to run.
pub fn quarantined(request: &Request, at: usize) -> PgError {
    refusal(request, at).unwrap_or_else(|| PgError::new(
        b"CH001",
        "quarantined: organisations did not agree on its effects, or it did not end in the time of a block",
    ))
}

fn show(request: &Request, at: usize) {
    let index = request.indices[at];
    pool::show_running(Some(index));
    show_activity(Some(&activity(request.number, index)));
}

/// How the node learns which transaction runs.
pub fn activity(number: i64, index: u32) -> String {
    format!("chainify block {number} tx {index}")
}

fn raise_at(request: &Request, at: usize, error: PgError) -> ! {
    let mut error = explained(error);
    show_activity(None);
    let at = activity(request.number, request.indices[at]);
    error.detail = Some(match error.detail.take() {
        Some(detail) => format!("{at}\n{detail}"),
        None => at,
    });
    error.raise()
}

/// What [`finish`] gives.
pub struct Finished {
    pub report: PartReport,
    /// The effects of each transaction, when the request asks for it; of a part that is the whole
    /// block.
    pub transaction_effects: Option<Vec<Hash>>,
}

/// Writes history and transactions of a part that has run, and returns what sealing the block needs
/// of it. Cost: per change two SHA-256, at most two BLAKE3 expansions and one history row.
pub fn finish(request: &Request, positions: &[usize], ran: &HasRun) -> Finished {
    let HasRun {
        outcomes,
        order: counted,
    } = ran;
    write_transactions(request, positions, outcomes);
    sequences::follow_ledger();
    effects::with(|effects| {
        let changes = effects.changes.iter();
        let mut changes: Vec<_> = changes
            .map(|c| change(effects, c, row_hash(effects, c)))
            .collect();
        let order = sort_changes(&mut changes);
        write_history(request.number, effects, &changes, &order);
        let mut leaves = LeafList::default();
        for change in order.iter().map(|at| &changes[*at as usize]) {
            leaves.push(&KeyedLeaf {
                table: change.table,
                pk: change.pk,
                hash: leaf(change),
            });
        }
        let (changes_peak, bytes_peak) = effects.peak();
        let succeeded = || outcomes.iter().map(Outcome::is_ok).collect::<Vec<_>>();
        let apart = request.effect_hashes && positions.len() == request.transactions.len();
        let report = PartReport {
            outcomes: outcomes.iter().map(to_report).collect(),
            nets: net_changes(effects, &changes, &order),
            leaves: Some(leaves),
            changes_peak,
            bytes_peak,
            order_accesses: counted.accesses,
            order_cut_steps: counted.cut_steps,
            order_chance_steps: counted.chance_steps,
        };
        Finished {
            report,
            transaction_effects: apart.then(|| {
                let effects = transaction_effects(&changes, &order, &succeeded());
                deploy::with_states(effects, &succeeded())
            }),
        }
    })
}

fn to_report(outcome: &Outcome) -> PartOutcome {
    match outcome {
        Ok(rows) => PartOutcome {
            rows: *rows,
            ..PartOutcome::default()
        },
        Err(error) => PartOutcome {
            rows: 0,
            sqlstate: error.sqlstate.as_str().to_owned(),
            message: error.message.clone(),
        },
    }
}

/// The outcome that [`finish`] reported of one transaction.
pub fn from_report(outcome: &PartOutcome) -> Outcome {
    match outcome.sqlstate.as_str() {
        "" => Ok(outcome.rows),
        state => Err(PgError::told(state, outcome.message.clone())),
    }
}

fn row_hash(effects: &Effects, c: &Recorded) -> Hash {
    let row = c
        .after
        .or(c.before)
        .expect("a change has a row after or before it");
    effects.leaves[c.leaf as usize]
        .table
        .rows
        .hash(effects.bytes(row))
}

fn change<'e>(effects: &'e Effects, c: &Recorded, row_hash: Hash) -> Change<'e> {
    let table = &effects.leaves[c.leaf as usize].table.name;
    Change {
        table,
        pk: effects.bytes(c.pk),
        serial: 0,
        tx: c.tx,
        op: c.op,
        row_hash,
    }
}

/// The part's change of the running state of each table.
fn net_changes(effects: &Effects, changes: &[Change], order: &[u32]) -> Vec<Net> {
    nets(order.iter().map(|at| {
        let recorded = &effects.changes[*at as usize];
        let change = &changes[*at as usize];
        let table = &effects.leaves[recorded.leaf as usize].table;
        Step {
            table_id: table.id,
            table: change.table,
            pk: change.pk,
            hasher: &table.lanes,
            before: recorded.before.map(|s| effects.bytes(s)),
            after: recorded.after.map(|s| effects.bytes(s)),
        }
    }))
}

/// The contents of a column of a history.
#[derive(Clone, Copy)]
enum Field {
    /// Column of this number of the changed row.
    Column(i16),
    Block,
    Tx,
    Serial,
    Op,
    Hash,
    /// Of a column that the table did not have when the row changed, or has no more.
    Nothing,
}

/// The fields of a history for rows of `leaf`, in the order of the history's columns.
fn fields(leaf: &Leaf, history: &BulkInsert) -> Vec<Field> {
    // Columns may have been given other names since the leaf was read, by a DEPLOY transaction
    // later in the block.
    let current = tables::leaf_is_current(leaf);
    let columns = match current {
        true => Cow::Borrowed(&leaf.table.columns),
        false => Cow::Owned(crate::ledger::row_bytes::columns(leaf.table.id)),
    };
    let field = |name: String| match name.as_str() {
        "_block" => Field::Block,
        "_tx" => Field::Tx,
        "_serial" => Field::Serial,
        "_op" => Field::Op,
        "_hash" => Field::Hash,
        _ => {
            let column = columns.iter().find(|c| c.name == name);
            let number = column.and_then(|c| leaf.encoder.number_of(c.ordinal));
            number.map_or(Field::Nothing, Field::Column)
        }
    };
    history.columns().map(field).collect()
}

fn write_history(block: i64, effects: &Effects, changes: &[Change], order: &[u32]) {
    let mut fields_of: HashMap<u32, Vec<Field>> = HashMap::new();
    let mut open: Option<(Oid, BulkInsert)> = None;
    let mut scratch = Scratch::default();
    for at in order.iter().map(|at| *at as usize) {
        let (recorded, change) = (&effects.changes[at], &changes[at]);
        let leaf = &effects.leaves[recorded.leaf as usize];
        let history = leaf.table.history;
        if open.as_ref().is_none_or(|(current, _)| *current != history) {
            close(open.replace((history, BulkInsert::open(history))));
        }
        let image = effects
            .images
            .get(recorded.image, &leaf.shape, &mut scratch);
        let (_, bulk) = open.as_mut().expect("opened above");
        let fields = fields_of
            .entry(recorded.leaf)
            .or_insert_with(|| fields(leaf, bulk));
        bulk.row(|row| {
            for field in fields.iter() {
                match field {
                    Field::Column(number) => row.copy(&image, *number),
                    Field::Block => row.push(cell(block)),
                    Field::Tx => row.push(cell(change.tx as i32)),
                    Field::Serial => row.push(cell(change.serial as i32)),
                    Field::Op => row.push(cell(change.op as u8 as i8)),
                    Field::Hash => row.push(cell(&change.row_hash[..])),
                    Field::Nothing => row.skip(),
                }
            }
        });
    }
    close(open);
}

fn close(open: Option<(Oid, BulkInsert)>) {
    if let Some((_, bulk)) = open {
        bulk.finish();
    }
}

/// Keeps the transactions of `request` at `positions`, with their outcomes.
pub fn write_transactions(request: &Request, positions: &[usize], outcomes: &[Outcome]) {
    let table = relation_named("chainify_ledger", "transaction").unwrap_or_else(|| {
        PgError::new(
            b"42P01",
            "relation \"chainify_ledger.transaction\" does not exist",
        )
        .raise()
    });
    let mut bulk = BulkInsert::open(table);
    for (at, outcome) in positions.iter().copied().zip(outcomes) {
        bulk.row(|row| {
            row.push(cell(request.number));
            row.push(cell(request.indices[at] as i32));
            row.push(cell(&request.transactions[at].id[..]));
            row.push(cell(request.bodies[at]));
            row.push(cell(outcome.is_ok()));
            row.push(cell(outcome.as_ref().map_or(0, |rows| *rows as i64)));
            let reason = planned::reason(outcome, request.indices[at]);
            let reason = reason.as_ref();
            row.push(cell::<&str>(reason.map(|e| e.sqlstate.as_str())));
            row.push(cell::<&str>(reason.map(|e| e.message.as_str())));
        });
    }
    bulk.finish();
}
