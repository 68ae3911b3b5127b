//! Recovery from another organisation: rows of the ranges of keys in which the tables differ from
//! those of an organisation that consented, laid over the rest of the tables. The sender need not
//! be trusted: together the rows have to hash to the certified state (R1), or everything is undone.
//! The tables then become the base of new checkpoints.

use chainify_codec::{key_range, state_root};
use chainify_ledger::told::{self, ToldTable};
use chainify_ledger::{block_buffer, cells};

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::Scan;
use crate::ledger::{definitions, row_bytes};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::planner::block_settings::under_path;
use crate::recovery::certified::{beyond_repair, certified_header, check_definitions, locked};
use crate::recovery::checkpoint_repair;
use crate::recovery::cured::Cured;
use crate::recovery::repair::Recovery;
use crate::recovery::row_repair::put_right_from;
use crate::recovery::tell_rows::{by_name, range_bits};

crate::pg::sql_function!(
    chainify_stage_rows,
    pg_finfo_chainify_stage_rows,
    stage_rows
);
crate::pg::sql_function!(chainify_restore, pg_finfo_chainify_restore, restore);
crate::pg::sql_function!(
    chainify_key_range,
    pg_finfo_chainify_key_range,
    range_of_key
);

/// Where rows received wait for the rest; until the end of the transaction.
fn staged_name(table: &LedgerTable) -> String {
    format!("chainify_state_{}", table.id)
}

/// `chainify_node.stage_rows(tbl, rows)`; contract in spec/sql-api.md. Types are read with the
/// rights of the table's owner: input functions of arrays and rows run the constraints of domains
/// in them.
fn stage_rows(call: &mut Call) -> Answer {
    let name: String = call.required(0, "tbl");
    let buffer: Vec<u8> = call.required(1, "rows");
    let received = block_buffer::split(&buffer)
        .map_err(|error| PgError::new(b"22023", format!("malformed rows: {error}")))
        .or_raise();
    row_bytes::forget();
    unrecorded(|| {
        spi::connect(|client| {
            let tables = ledger_tables::all(client, Sees::Latest);
            let Some(table) = tables.iter().find(|table| table.name == name) else {
                PgError::new(b"42P01", format!("table \"{name}\" is not on the ledger")).raise()
            };
            if let Some(why) = table.unreadable() {
                beyond_repair(format!("Table {name}: {why}.")).raise();
            }
            let owner = Role::owner_of(table.relation);
            make_stage(client, table, owner);
            let cells = by_column(table, &received).or_raise();
            let types = types(client, table);
            let into = format!("pg_temp.{}", staged_name(table));
            owner.run(|| insert(table, (&into, ""), false, &types, cells));
        })
    });
    call.void()
}

fn make_stage(client: &SpiClient<'_>, table: &LedgerTable, owner: Role) {
    let stage = staged_name(table);
    let there = Cursor::open(
        client,
        Sees::Latest,
        &format!("SELECT to_regclass('pg_temp.{stage}') IS NOT NULL"),
        &[],
    )
    .next_row()
    .and_then(|row| row.boolean(1));
    if there == Some(true) {
        return;
    }
    let base = table.checkpoint.as_deref().unwrap_or_default();
    let owner = owner.name().replace('"', "\"\"");
    spi::connected(|| {
        spi::execute(
            &format!("CREATE TEMPORARY TABLE {stage} (LIKE {base}) ON COMMIT DROP"),
            &[],
        );
        spi::execute(
            &format!("GRANT INSERT ON pg_temp.{stage} TO \"{owner}\""),
            &[],
        );
    });
}

/// The texts of each column, by name. Raises 22023 when a row is malformed or has other columns.
pub fn by_column(
    table: &LedgerTable,
    received: &[&[u8]],
) -> Result<Vec<Vec<Option<String>>>, PgError> {
    let mut columns = vec![Vec::with_capacity(received.len()); table.columns.len()];
    for row in received {
        let cells = cells::decode(row, columns.len())
            .map_err(|error| PgError::new(b"22023", format!("malformed row: {error}")))?;
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.push(cell.map(str::to_owned));
        }
    }
    Ok(columns)
}

/// The columns' types, by name of column.
pub fn types(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<String> {
    let sql = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attname::text COLLATE \"C\"";
    let mut types = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[table.base.into()]);
    while let Some(row) = rows.next_row() {
        types.push(row.text(1).unwrap_or_default());
    }
    types
}

/// Adds rows to a relation that has the table's columns, of which it may compute some. The second
/// part of `into` says what happens to rows that are there.
pub fn insert(
    table: &LedgerTable,
    (into, conflicts): (&str, &str),
    computes: bool,
    types: &[String],
    cells: Vec<Vec<Option<String>>>,
) {
    let columns = by_name(table);
    let all: Vec<usize> = (1..=columns.len()).collect();
    let written = all.iter().copied();
    let written: Vec<usize> = written
        .filter(|n| !(computes && columns[n - 1].generated))
        .collect();
    let list = |of: &[usize], part: &dyn Fn(usize) -> String| -> String {
        let parts: Vec<_> = of.iter().map(|n| part(*n)).collect();
        parts.join(", ")
    };
    let sql = format!(
        "INSERT INTO {into} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM ROWS FROM ({}) u ({}){conflicts}",
        list(&written, &|n| columns[n - 1].quoted.clone()),
        list(&written, &|n| format!("u.c{n}::{}", types[n - 1])),
        list(&all, &|n| format!(
            "pg_catalog.unnest(${n}::pg_catalog.text[])"
        )),
        list(&all, &|n| format!("c{n}")),
    );
    let arguments: Vec<_> = cells.into_iter().map(cell).collect();
    spi::connected(|| under_path(|| spi::as_caller(&sql, &arguments, |_| ())));
}

/// `chainify_node.restore(number, certified_hash, deviating_block, found_hash, tables)`; contract
/// in spec/sql-api.md. Cost: three scans of each table, one of base and history, a copy of tables
/// whose base is no longer theirs.
fn restore(call: &mut Call) -> Answer {
    let recovery = Recovery::of(call);
    let tables: pgrx::JsonB = call.required(4, "tables");
    let told = told::tables(&tables.0)
        .map_err(|error| PgError::new(b"22023", format!("malformed list of tables: {error}")))
        .or_raise();
    recovery.run(call, "state", |client, number, certified| {
        put_together(client, number, certified, &told)
    })
}

fn put_together(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
    told: &[ToldTable],
) -> Result<Vec<Cured>, PgError> {
    let header = certified_header(client, number, certified)?;
    let tables = locked(client)?;
    let states = told.iter().map(|table| (table.name.as_str(), table.state));
    let root = state_root(states.chain(definitions::entry(client, Sees::Latest)));
    let names = |table: &LedgerTable| told.iter().find(|of| of.name == table.name);
    if root[..] != header.state_root[..] || tables.len() != told.len() {
        return Err(beyond_repair(format!(
            "The states received give another state root than block {number} has."
        )));
    }
    check_definitions(client)?;
    let mut cured = Vec::new();
    for table in &tables {
        let of = names(table).ok_or_else(|| {
            beyond_repair(format!("There is no state received of {}.", table.name))
        })?;
        cured.extend(put_table(client, table, of)?);
    }
    let based = checkpoint_repair::take_bases(client, number, &tables)?;
    // The earlier rows say more than that checkpoints followed them.
    cured.extend(based);
    Ok(cured)
}

fn put_table(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    of: &ToldTable,
) -> Result<Vec<Cured>, PgError> {
    let rows = match of.ranges.ranges().is_empty() {
        true => table.live_rows(),
        false => {
            make_stage(client, table, Role::owner_of(table.relation));
            table.rows_with(&format!("pg_temp.{}", staged_name(table)), &of.ranges)
        }
    };
    let told = Scan::of_query(client, table, &rows);
    if table.state_hash(&told.state) != of.state {
        return Err(beyond_repair(format!(
            "The rows received of table {} do not give its certified state.",
            table.name
        )));
    }
    put_right_from(client, table, &rows, &told)
}

/// `chainify_ledger.key_range(key, bits)`: the range that a canonical key is in.
fn range_of_key(call: &mut Call) -> Answer {
    let key: Vec<u8> = call.required(0, "key");
    let bits = range_bits(call.required(1, "bits")).or_raise();
    call.value(key_range(&key, bits) as i32)
}
