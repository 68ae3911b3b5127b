//! Reads the foundation of a ledger for an organisation that joins with an empty database: headers,
//! the states of all tables, DEPLOY transactions with their proofs.

use chainify_codec::{state_root, State, DEFINITIONS};
use chainify_ledger::foundation::{encode, Part};

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::stored_blocks::{stored_block, BLOCKS};
use crate::ledger::table_scans::state_before;
use crate::ledger::{definitions, deployed, row_bytes, stored_blocks};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::tell_rows::{check_block, not_told};

crate::pg::sql_function!(
    chainify_foundation,
    pg_finfo_chainify_foundation,
    foundation
);

/// `chainify_node.foundation(number, hash)`; contract in spec/sql-api.md. Cost: reads all headers
/// and DEPLOY transactions; before the position also base and history of each table.
fn foundation(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let hash: Vec<u8> = call.required(1, "hash");
    row_bytes::forget();
    let mut place = 0;
    call.rows(|row| {
        let mut part = |part: &Part| {
            row(&[cell(place), cell(encode(part))]);
            place += 1;
        };
        spi::connect(|client| {
            let position = check_block(client, number, &hash).or_raise();
            headers(client, number, number, &mut part).or_raise();
            tables(client, number, position, &mut part).or_raise();
            headers(client, 1, number - 1, &mut part).or_raise();
            deployed::each(client, Sees::Statement, number, &mut |deploy| {
                part(&Part::Deploy(deploy))
            });
        })
    })
}

/// Headers from the last one down, so that each proves the next.
fn headers(
    client: &SpiClient<'_>,
    from: i64,
    to: i64,
    part: &mut dyn FnMut(&Part),
) -> Result<(), PgError> {
    let chain_id = stored_blocks::chain_id(client, Sees::Statement);
    let sql = format!("SELECT * FROM ({BLOCKS}) b ORDER BY number DESC");
    let mut rows = Cursor::open(client, Sees::Statement, &sql, &[from.into(), to.into()]);
    while let Some(row) = rows.next_row() {
        let header = stored_block(&row).header(&chain_id);
        let header = header.map_err(|error| not_told(format!("A header is none: {error}.")))?;
        part(&Part::Header(header));
    }
    Ok(())
}

/// The states, once they are shown to be those of the block: a definition may be younger.
fn tables(
    client: &SpiClient<'_>,
    number: i64,
    position: i64,
    part: &mut dyn FnMut(&Part),
) -> Result<(), PgError> {
    let tables = ledger_tables::all(client, Sees::Statement);
    let state = |table: &LedgerTable| state_before(client, table, number, position);
    let states: Option<Vec<State>> = tables.iter().map(state).collect();
    let states = states.ok_or_else(|| not_told("A table has no running state.".into()))?;
    let definitions = definitions::entry(client, Sees::Statement);
    let hashes = tables.iter().zip(&states);
    let hashes = hashes.map(|(table, state)| (table.name.as_str(), table.state_hash(state)));
    let root = state_root(hashes.chain(definitions));
    let kept = stored_blocks::block(client, Sees::Statement, number);
    if kept.is_none_or(|kept| kept.state_root[..] != root[..]) {
        return Err(not_told("Definitions changed since, or the tables.".into()));
    }
    for (table, state) in tables.iter().zip(states) {
        part(&Part::Table {
            name: &table.name,
            schema_hash: table.schema_hash.as_slice().try_into().unwrap_or_default(),
            state,
        });
    }
    match definitions {
        Some((DEFINITIONS, hash)) => part(&Part::Definitions(hash)),
        Some((_, hash)) => part(&Part::Procedures(hash)),
        None => {}
    }
    Ok(())
}
