//! The end of a block: its effects become leaves, lanes, history and a LedgerBlock.
use std::borrow::Cow;
use std::collections::HashMap;

use chainify_codec::{
    effects_root, state_root, table_state, transaction_effects, Change, Hash, Lanes, DEFINITIONS,
};
use chainify_ledger::messages::Kind;
use chainify_ledger::{tx_root, LedgerBlock, Outcomes};
use pgrx::pg_sys::Oid;

use super::checkpoint;
use super::effects::{self, Effects, Recorded};
use super::execute::Request;
use super::sequences;
use super::tables::{self, Leaf};
use super::transaction::Outcome;
use crate::pg::bulk::BulkInsert;
use crate::pg::catalog::relation_named;
use crate::pg::error::PgError;
use crate::pg::function::{cell, Cell};
use crate::pg::relation::Scratch;
use crate::pg::spi::query;

/// What sealing gave.
pub struct Sealed {
    pub block: LedgerBlock,
    /// What each transaction did, when the request asks for it.
    pub transaction_effects: Option<Vec<Hash>>,
}

/// Writes everything the block leaves behind and returns the LedgerBlock. Cost: per change two SHA-256, at most two
/// BLAKE3 expansions and one history row; per ledger table one SHA-256 over its lanes.
pub fn seal(request: &Request, outcomes: &[Outcome]) -> Sealed {
    let (effects_root, effects_count, transaction_effects) = effects::with(|effects| {
        let hashes = effects
            .changes
            .iter()
            .map(|c| row_hash(effects, c))
            .collect::<Vec<_>>();
        let mut changes: Vec<_> = effects
            .changes
            .iter()
            .zip(&hashes)
            .map(|(c, h)| change(effects, c, *h))
            .collect();
        let sorted = effects_root(&mut changes);
        write_states(&net_changes(effects, &changes, &sorted.order));
        write_history(request.number, effects, &changes, &sorted.order);
        let succeeded = || outcomes.iter().map(Outcome::is_ok).collect::<Vec<_>>();
        let apart = request
            .effect_hashes
            .then(|| transaction_effects(&changes, &sorted.order, &succeeded()));
        (sorted.root, changes.len() as u32, apart)
    });
    sequences::follow_ledger();
    let mut bitmap = Outcomes::failed(outcomes.len() as u32);
    for (i, _) in outcomes.iter().enumerate().filter(|(_, o)| o.is_ok()) {
        bitmap.succeed(i as u32);
    }
    let ids: Vec<Hash> = request.transactions.iter().map(|t| t.id).collect();
    let block = LedgerBlock {
        chain_id: request.chain_id.clone(),
        number: request.number as u64,
        order_height: request.order_height as u64,
        block_time: request.block_time,
        tx_root: tx_root(&ids),
        outcomes: bitmap,
        effects_root,
        effects_count,
        state_root: current_state_root(),
        previous: request.previous,
    };
    write_transactions(request, outcomes);
    write_block(&block);
    checkpoint::at_seal(request.number, deploys(request, outcomes));
    Sealed {
        block,
        transaction_effects,
    }
}

fn deploys(request: &Request, outcomes: &[Outcome]) -> bool {
    let succeeded = request
        .transactions
        .iter()
        .zip(outcomes)
        .filter(|(_, o)| o.is_ok());
    succeeded
        .into_iter()
        .any(|(t, _)| t.proposal.kind == Kind::Deploy as i32)
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

/// What a block does to one table's running state.
#[derive(Default)]
struct Net {
    lanes: Lanes,
    rows: i64,
}

/// Per table, by id: the first row before and the last row after of each key; what lies between cancels out.
fn net_changes(effects: &Effects, changes: &[Change], order: &[u32]) -> HashMap<i32, Net> {
    let mut nets: HashMap<i32, Net> = HashMap::new();
    // A DEPLOY transaction in between starts a new version of the table, whose state counts from there.
    let version = |at: &u32| {
        effects.leaves[effects.changes[*at as usize].leaf as usize]
            .table
            .id
    };
    let same = |a: &u32, b: &u32| {
        let (left, right) = (&changes[*a as usize], &changes[*b as usize]);
        left.pk == right.pk && left.table == right.table && version(a) == version(b)
    };
    for key in order.chunk_by(same) {
        let first = &effects.changes[key[0] as usize];
        let last = &effects.changes[key[key.len() - 1] as usize];
        let (before, after) = (
            first.before.map(|s| effects.bytes(s)),
            last.after.map(|s| effects.bytes(s)),
        );
        if before == after {
            continue;
        }
        let table = &effects.leaves[first.leaf as usize].table;
        let net = nets.entry(table.id).or_default();
        if let Some(row) = before {
            table.lanes.sub(&mut net.lanes, row);
            net.rows -= 1;
        }
        if let Some(row) = after {
            table.lanes.add(&mut net.lanes, row);
            net.rows += 1;
        }
    }
    nets
}

fn write_states(nets: &HashMap<i32, Net>) {
    for (id, net) in nets {
        let mut lanes = None;
        query(
            "SELECT lanes FROM chainify_ledger.table_state WHERE table_id = $1",
            &[cell(*id)],
            |row| {
                lanes = Lanes::from_bytes(&row.must::<Vec<u8>>(1));
            },
        );
        let Some(mut lanes) = lanes else { continue }; // detached in this block
        lanes.merge(&net.lanes);
        let bytes = lanes.to_bytes();
        let args = [cell(*id), cell(net.rows), cell(&bytes[..])];
        query("UPDATE chainify_ledger.table_state SET row_count = row_count + $2, lanes = $3 WHERE table_id = $1", &args, |_| ());
    }
}

/// The state root over what `table_state` holds now.
pub fn current_state_root() -> Hash {
    let mut states: Vec<(String, Hash)> = Vec::new();
    query(
        "SELECT t.name, t.schema_hash, s.row_count, s.lanes FROM chainify_ledger.ledger_table t
         JOIN chainify_ledger.table_state s ON s.table_id = t.id WHERE t.detached_at IS NULL",
        &[],
        |row| {
            let name: String = row.must(1);
            let (Ok(schema), Some(lanes)) = (
                Hash::try_from(row.must::<Vec<u8>>(2)),
                Lanes::from_bytes(&row.must::<Vec<u8>>(4)),
            ) else {
                PgError::new(
                    b"XX001",
                    format!("running state of ledger table \"{name}\" is malformed"),
                )
                .raise()
            };
            let state = table_state(&name, &schema, row.must::<i64>(3) as u64, &lanes);
            states.push((name, state));
        },
    );
    if let Some(hash) = definitions() {
        states.push((DEFINITIONS.to_owned(), hash));
    }
    state_root(states.iter().map(|(name, state)| (name.as_str(), *state)))
}

/// What a column of a history holds.
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
    // Columns may have been given other names since the leaf was read, by a DEPLOY transaction later in the block.
    let current = tables::leaf_is_current(leaf);
    let columns = match current {
        true => Cow::Borrowed(&leaf.table.columns),
        false => Cow::Owned(super::rows::columns(leaf.table.id)),
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

/// The hash of the definitions; None before the first DEPLOY of statements.
fn definitions() -> Option<Hash> {
    let mut found = None;
    query("SELECT hash FROM chainify_ledger.definitions", &[], |row| {
        let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>(1)) else {
            PgError::new(b"XX001", "hash of the definitions is malformed").raise()
        };
        found = Some(hash);
    });
    found
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
            finish(open.replace((history, BulkInsert::open(history))));
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
    finish(open);
}

fn finish(open: Option<(Oid, BulkInsert)>) {
    if let Some((_, bulk)) = open {
        bulk.finish();
    }
}

fn write_transactions(request: &Request, outcomes: &[Outcome]) {
    let table = relation_named("chainify_ledger", "transaction").unwrap_or_else(|| {
        PgError::new(
            b"42P01",
            "relation \"chainify_ledger.transaction\" does not exist",
        )
        .raise()
    });
    let mut bulk = BulkInsert::open(table);
    for (i, outcome) in outcomes.iter().enumerate() {
        bulk.row(|row| {
            row.push(cell(request.number));
            row.push(cell(i as i32));
            row.push(cell(&request.transactions[i].id[..]));
            row.push(cell(request.bodies[i]));
            row.push(cell(outcome.is_ok()));
            row.push(cell(outcome.as_ref().map_or(0, |rows| *rows as i64)));
            row.push(error_cell(outcome, |e| e.sqlstate.as_str()));
            row.push(error_cell(outcome, |e| e.message.as_str()));
        });
    }
    bulk.finish();
}

fn error_cell<'o>(outcome: &'o Outcome, f: impl Fn(&'o PgError) -> &'o str) -> Cell {
    cell::<&str>(outcome.as_ref().err().map(f))
}

fn write_block(block: &LedgerBlock) {
    let args = [
        cell(block.number as i64),
        cell(block.order_height as i64),
        cell(block.block_time),
        cell(&block.tx_root[..]),
        cell(block.outcomes.count() as i32),
        cell(block.outcomes.as_bytes()),
        cell(&block.effects_root[..]),
        cell(block.effects_count as i32),
        cell(&block.state_root[..]),
        cell(&block.previous[..]),
        cell(&block.hash()[..]),
    ];
    query(
        "INSERT INTO chainify_ledger.block VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &args,
        |_| (),
    );
}
