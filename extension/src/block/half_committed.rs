//! The half-committed block: some parts of a block are committed and its LedgerBlock is not,
//! because the server stopped or a worker was lost between the commits. Enough organisations had
//! voted for the block, so it is finished as it was executed (P6).
use std::collections::BTreeMap;
use std::rc::Rc;

use chainify_codec::{leaf, merkle, transaction_effects, Change, Hash, Op};
use chainify_ledger::parts::{Net, Nets};

use crate::block::part;
use crate::block::part::Company;
use crate::block::restored;
use crate::block::seal::{root_of_ids, Ran};
use crate::ledger::outcome::Outcome;
use crate::ledger::row_bytes;
use crate::ledger::tables;
use crate::ledger::tables::LedgerTable;
use crate::pg::base::catalog::display_name;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::spi::{connected, execute, query, query_once};
use crate::pg::planner::block_settings::pinned;
use crate::running::effects;
use crate::running::request::Request;

/// The block that parts are committed of and that is not there, if any, as `sees` shows it.
pub fn number(client: &SpiClient<'_>, sees: Sees) -> Option<i64> {
    let sql = "SELECT max(block) FROM chainify_ledger.part
        WHERE block > coalesce((SELECT max(number) FROM chainify_ledger.block), 0)";
    let mut rows = Cursor::open(client, sees, sql, &[]);
    rows.next_row().and_then(|row| row.bigint(1))
}

/// Raises 55000 when the ledger seen is not this database's at the end of a block. Such a ledger
/// includes a part of a block without the rest, or was restored and is not adopted.
pub fn refuse(client: &SpiClient<'_>, sees: Sees) {
    restored::refuse(client, sees);
    if let Some(number) = number(client, sees) {
        PgError::new(b"55000", format!("block {number} is being committed"))
            .detail("Some of its effects are visible, and the block is not.")
            .hint("Try again. After a crash the node first has to finish the block.")
            .raise();
    }
}

/// The traces of the block's committed parts.
struct Committed {
    nets: Vec<Net>,
    /// By index in the block.
    outcomes: BTreeMap<u32, Outcome>,
}

/// The request as it was when parts of the block were committed. Needs [`connected`]. Raises XX001
/// when it has other transactions.
pub fn authoritative(mut request: Request) -> Request {
    let mut others = false;
    query(
        "SELECT order_height, block_time, previous_hash, tx_root, quarantined, quarantine_all
         FROM chainify_ledger.part WHERE block = $1",
        &[cell(request.number)],
        |row| {
            (request.order_height, request.block_time) = (row.must(1), row.must(2));
            others |= row.must::<Vec<u8>>(3) != request.previous;
            others |= row.must::<Vec<u8>>(4) != root_of_ids(&request);
            request.quarantined = row.must(5);
            request.quarantine_all = row.must(6);
        },
    );
    if others {
        let message = format!(
            "block {} is half committed with other transactions",
            request.number
        );
        PgError::new(b"XX001", message).raise();
    }
    request
}

/// Runs what is missing of a block that is half committed.
pub fn complete(request: &Request) -> Ran {
    let mut committed = committed(request.number);
    let is_missing = |at: &usize| !committed.outcomes.contains_key(&request.indices[*at]);
    let missing: Vec<usize> = (0..request.transactions.len()).filter(is_missing).collect();
    effects::start();
    let ran = part::run(request, &missing, Company::Alone);
    let report = part::finish(request, &missing, &ran).report;
    let indices = missing.iter().map(|at| request.indices[*at]);
    committed.outcomes.extend(indices.zip(ran.outcomes));
    committed.nets.extend(report.nets);
    pgrx::log!(
        "block {} was half committed: ran {} of its {} transactions and finished it",
        request.number,
        missing.len(),
        request.transactions.len()
    );
    let outcomes: Vec<Outcome> = committed.outcomes.into_values().collect();
    let kept = pinned(|| history(request.number));
    let changes: Vec<Change> = kept.iter().map(change).collect();
    let order: Vec<u32> = (0..changes.len() as u32).collect();
    let succeeded: Vec<bool> = outcomes.iter().map(Outcome::is_ok).collect();
    Ran {
        effects_root: merkle::root(&changes.iter().map(leaf).collect::<Vec<_>>()),
        effects_count: changes.len() as u32,
        nets: committed.nets,
        transaction_effects: request
            .effect_hashes
            .then(|| transaction_effects(&changes, &order, &succeeded)),
        outcomes,
        workers: 0,
    }
}

fn committed(number: i64) -> Committed {
    let mut nets = Vec::new();
    query(
        "SELECT nets FROM chainify_ledger.part WHERE block = $1 ORDER BY part",
        &[cell(number)],
        |row| {
            let of_part = Nets::read(&row.must::<Vec<u8>>(1))
                .map_err(|error| PgError::new(b"XX001", error.to_string()))
                .or_raise();
            nets.extend(of_part.nets);
        },
    );
    let mut outcomes = BTreeMap::new();
    query(
        "SELECT index, rows, sqlstate, message FROM chainify_ledger.transaction WHERE block = $1",
        &[cell(number)],
        |row| {
            let failure = row.get::<String>(3);
            let message = || row.get::<String>(4).unwrap_or_default();
            let failure = failure.map(|state| PgError::told(&state, message()));
            let outcome = failure.map_or(Ok(row.must::<i64>(2) as u64), Err);
            outcomes.insert(row.must::<i32>(1) as u32, outcome);
        },
    );
    Committed { nets, outcomes }
}

/// A change as the history keeps it.
struct Kept {
    table: Rc<LedgerTable>,
    pk: Vec<u8>,
    serial: u32,
    tx: u32,
    op: Op,
    row_hash: Hash,
}

/// The effects of the block, from what its parts wrote into the history; sorted by (table, pk,
/// serial).
fn history(number: i64) -> Vec<Kept> {
    row_bytes::forget();
    let mut kept = Vec::new();
    for (_, table) in tables::all() {
        let sql = format!(
            "SELECT chainify_ledger.encoded_key({}, h.*), h._serial, h._tx, h._op::text, h._hash
             FROM {} h WHERE h._block = $1",
            table.id,
            history_name(table.history)
        );
        query_once(&sql, &[cell(number)], |row| {
            let op: String = row.must(4);
            let hash = Hash::try_from(row.must::<Vec<u8>>(5));
            let (Ok(row_hash), Some(op)) = (hash, op.bytes().next().and_then(Op::from_byte)) else {
                PgError::new(b"XX001", "history of a half committed block is malformed").raise()
            };
            kept.push(Kept {
                table: table.clone(),
                pk: row.must(1),
                serial: row.must::<i32>(2) as u32,
                tx: row.must::<i32>(3) as u32,
                op,
                row_hash,
            });
        });
    }
    kept.sort_by(|a, b| (&a.table.name, &a.pk, a.serial).cmp(&(&b.table.name, &b.pk, b.serial)));
    kept
}

fn change(kept: &Kept) -> Change<'_> {
    Change {
        table: &kept.table.name,
        pk: &kept.pk,
        serial: kept.serial,
        tx: kept.tx,
        op: kept.op,
        row_hash: kept.row_hash,
    }
}

/// Forgets what is kept of a half committed block after `number`; its rows in the tables are for
/// the repair to put right.
pub fn take_back(number: i64) {
    let half = spi::connect(|client| self::number(client, Sees::Latest));
    if half.is_none() {
        return;
    }
    let after = [cell(number)];
    connected(|| {
        query(
            "DELETE FROM chainify_ledger.part WHERE block > $1",
            &after,
            |_| (),
        );
        query(
            "DELETE FROM chainify_ledger.transaction WHERE block > $1",
            &after,
            |_| (),
        );
        for (_, table) in tables::all() {
            let history = history_name(table.history);
            execute(&format!("DELETE FROM {history} WHERE _block > $1"), &after);
        }
    });
}

fn history_name(history: pgrx::pg_sys::Oid) -> String {
    let quoted = display_name(history).replace('"', "\"\"");
    format!("chainify_history.\"{quoted}\"")
}
