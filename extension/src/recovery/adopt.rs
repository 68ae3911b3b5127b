//! The step *adopt*: takes a certified block from another organisation when this database gets
//! other effects for it although its tables are as certified. The block's changes are applied as
//! rows, in place of its transactions.
//!
//! Invariant R15: a block is adopted only when its header hashes to the certified LedgerBlockHash
//! and its transactions and history are those of that header (R7). The running states with its
//! changes have to give that header's state root. Else everything is undone.

use chainify_codec::Hash;
use chainify_ledger::messages::Kind;
use chainify_ledger::parts::Net;
use chainify_ledger::LedgerBlock;

use crate::block::part;
use crate::block::seal;
use crate::block::seal::Ran;
use crate::leader::execute_block::Executed;
use crate::ledger::checkpoints;
use crate::ledger::history;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::outcome::Outcome;
use crate::ledger::row_bytes;
use crate::ledger::running_state::{change_states, root_of, states};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::planned;
use crate::recovery::certified::beyond_repair;
use crate::recovery::row_repair::repair_rows;
use crate::recovery::take_over_block::{first_fault, put_history};
use crate::running::request::{is_quarantined, Request};

/// The word of the other organisation is not as certified, whatever is the matter here.
fn told_falsely(number: i64, why: impl std::fmt::Display) -> PgError {
    let message = format!("what was told of block {number} is not what was agreed");
    PgError::new(b"22023", message).detail(format!("{why}."))
}

/// Applies a block whose changes were staged, and gives it as executing it would. Raises 22023
/// when what was told is not as certified, CH002 when it is and cannot be applied here. Needs
/// [`connected`](crate::pg::base::spi::connected), in the mode of the ledger's own work, foreign
/// keys off. Cost: the block's history twice, and the rows that it changes by their keys.
pub fn run(request: &Request, certified: &[u8], header: &[u8]) -> Executed {
    let header = told_header(request, certified, header).or_raise();
    let outcomes = outcomes(request, &header).or_raise();
    planned::start();
    row_bytes::forget();
    let positions: Vec<usize> = (0..outcomes.len()).collect();
    part::write_transactions(request, &positions, &outcomes);
    seal::write_block(&header);
    let nets = spi::connect(|client| {
        let number = request.number;
        let histories = history::readable(client, &mut |_, _| ());
        put_history(client, number, &histories);
        if let Some(fault) = first_fault(client, number, &histories) {
            told_falsely(number, fault).raise();
        }
        let tables = ledger_tables::all(client, Sees::Latest);
        let changed = tables.iter().filter(|table| changes(client, table, number));
        changed
            .map(|table| apply(client, table, number))
            .collect::<Result<Vec<_>, _>>()
            .or_raise()
    });
    let mut states = states();
    change_states(&mut states, &nets);
    if root_of(&states) != header.state_root {
        let why = "With the block's changes, the tables have another state than the certified one.";
        beyond_repair(why.into()).raise();
    }
    checkpoints::at_seal(request.number, false);
    let ran = Ran {
        outcomes,
        effects_root: header.effects_root,
        effects_count: header.effects_count,
        nets,
        transaction_effects: None,
        workers: 0,
    };
    (header, ran)
}

fn told_header(request: &Request, certified: &[u8], header: &[u8]) -> Result<LedgerBlock, PgError> {
    let false_ = |why: String| told_falsely(request.number, why);
    let header = LedgerBlock::decode(header).map_err(|error| false_(format!("{error}")))?;
    if header.hash()[..] != *certified {
        return Err(false_("The header is another".into()));
    }
    let asked: (u64, Hash, Hash) = (
        request.number as u64,
        request.previous,
        seal::root_of_ids(request),
    );
    if (header.number, header.previous, header.tx_root) != asked
        || header.outcomes.count() as usize != request.transactions.len()
    {
        let why = "The certified block has other transactions, or follows another one.";
        return Err(beyond_repair(why.into()));
    }
    Ok(header)
}

/// The transactions' outcomes elsewhere. A DEPLOY transaction that succeeded changed
/// definitions, which no row tells.
fn outcomes(request: &Request, header: &LedgerBlock) -> Result<Vec<Outcome>, PgError> {
    let outcome = |at: usize| {
        let succeeded = header.outcomes.succeeded(at as u32) == Some(true);
        match (succeeded, request.transactions[at].kind()) {
            (true, Kind::Deploy) => Err(beyond_repair(format!(
                "Transaction {at} of the block is a DEPLOY transaction, whose definitions cannot be taken over."
            ))),
            (true, _) => Ok(Ok(0)),
            (false, _) => Ok(Err(failed(request, at))),
        }
    };
    (0..request.transactions.len()).map(outcome).collect()
}

fn failed(request: &Request, at: usize) -> PgError {
    match is_quarantined(request, at) {
        true => part::quarantined(request, at),
        false => PgError::new(
            b"CH012",
            "failed at the other organisations: this database adopted the block, and does not know why",
        ),
    }
}

fn changes(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> bool {
    let Some(history) = &table.history else {
        return false;
    };
    let sql = format!("SELECT EXISTS (SELECT FROM {history} WHERE _block = $1)");
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[number.into()]);
    rows.next_row().and_then(|row| row.boolean(1)) == Some(true)
}

/// Keys that the block changed, where PostgreSQL's own operators compare them.
const KEYS: &str = "pg_temp.chainify_adopted";

/// Brings the rows that the block changed to what its history says, and gives by how much the
/// table's state changed.
fn apply(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> Result<Net, PgError> {
    if let Some(why) = table.unreadable() {
        return Err(beyond_repair(format!("Table {}: {why}.", table.name)));
    }
    let keyed = table
        .columns
        .iter()
        .all(|column| column.built_in || !column.key);
    if keyed {
        keep_keys(table, number);
    }
    let rows = table.around_block(number, keyed.then_some(KEYS));
    let before = table.state_by(client, Sees::Latest, &rows.before);
    let after = table.state_by(client, Sees::Latest, &rows.after);
    repair_rows(client, table, &rows.differences, false);
    if keyed {
        spi::connected(|| spi::execute(&format!("DROP TABLE {KEYS}"), &[]));
    }
    let mut lanes = after.lanes;
    lanes.remove(&before.lanes);
    Ok(Net {
        table_id: table.id,
        rows: after.row_count as i64 - before.row_count as i64,
        lanes: lanes.to_bytes().to_vec(),
    })
}

fn keep_keys(table: &LedgerTable, number: i64) {
    let key = table.columns.iter().filter(|column| column.key);
    let key: Vec<_> = key.map(|column| column.quoted.as_str()).collect();
    let make = format!(
        "CREATE TEMPORARY TABLE chainify_adopted ON COMMIT DROP AS SELECT DISTINCT {} FROM {} WHERE _block = {number}",
        key.join(", "),
        table.history.as_deref().unwrap_or_default(),
    );
    spi::connected(|| {
        spi::execute(&make, &[]);
        spi::execute(&format!("ANALYZE {KEYS}"), &[]);
    });
}
