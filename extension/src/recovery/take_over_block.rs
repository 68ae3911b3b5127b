//! Transfers a whole block between organisations: reads one for another organisation, and takes one
//! over when the block stored here is damaged. The changes travel as the text of each column, as
//! rows do (recovery/repair_from_peer.rs).
//!
//! Invariant R7: a block is taken over only when its header hashes to the certified
//! LedgerBlockHash, and its transactions and history are those of that header; else everything is
//! undone.

use std::collections::BTreeMap;

use chainify_ledger::audit::Finding;
use chainify_ledger::change::{self, Travelling};
use chainify_ledger::{block_buffer, cells, LedgerBlock, Transaction};
use pgrx::pg_sys;

use crate::block::seal;
use crate::ledger::checkpoints;
use crate::ledger::dropped;
use crate::ledger::history;
use crate::ledger::history::History;
use crate::ledger::row_bytes;
use crate::ledger::stored_blocks;
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::planner::block_settings::under_path;
use crate::verify::ledger;

crate::pg::sql_function!(
    chainify_block_parts,
    pg_finfo_chainify_block_parts,
    block_parts
);
crate::pg::sql_function!(
    chainify_stage_changes,
    pg_finfo_chainify_stage_changes,
    stage_changes
);
crate::pg::sql_function!(
    chainify_restore_block,
    pg_finfo_chainify_restore_block,
    restore_block
);

fn malformed(what: impl std::fmt::Display) -> PgError {
    PgError::new(b"22023", format!("malformed block: {what}"))
}

fn not_agreed(number: i64, why: impl std::fmt::Display) -> PgError {
    PgError::new(
        b"CH002",
        format!("what was told of block {number} is not what was agreed"),
    )
    .detail(format!("{why}."))
}

/// A column of a version of a table, in its history.
struct Column {
    quoted: String,
    /// With its modifier.
    kind: String,
    /// A type of PostgreSQL itself: its input runs nobody's code.
    built_in: bool,
}

/// The columns by ordinal: names and physical orders differ between databases and times.
fn columns(client: &SpiClient<'_>, table: &History) -> Vec<Column> {
    let sql = format!(
        "SELECT quote_ident(c.name), format_type(a.atttypid, a.atttypmod), a.atttypid < 16384
        FROM chainify_ledger.ledger_column c JOIN pg_attribute a ON a.attrelid = '{}'::regclass AND a.attname::text = c.name
        WHERE c.table_id = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.ordinal",
        table.relation.replace('\'', "''")
    );
    let mut columns = Vec::new();
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[table.id.into()]);
    while let Some(row) = rows.next_row() {
        columns.push(Column {
            quoted: row.text(1).unwrap_or_default(),
            kind: row.text(2).unwrap_or_default(),
            built_in: row.boolean(3).unwrap_or_default(),
        });
    }
    columns
}

/// `chainify_node.block_parts(number, hash)`; contract in spec/sql-api.md. Cost: reads the block's
/// history.
fn block_parts(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let hash: Vec<u8> = call.required(1, "hash");
    row_bytes::forget();
    call.rows(|part| {
        spi::connect(|client| {
            let header = stored_blocks::block(client, Sees::Statement, number).and_then(|kept| {
                let header = kept
                    .header(&stored_blocks::chain_id(client, Sees::Statement))
                    .ok()?;
                (header.hash()[..] == hash[..]).then_some(header)
            });
            let Some(header) = header else {
                PgError::new(b"55000", format!("block {number} of that hash is not here")).raise()
            };
            dropped::read(client, Sees::Statement).refuse(number);
            part(&[cell(0), cell(header.encode())]);
            let mut place = 0;
            for table in history::readable(client, &mut |_, _| ()) {
                tell(client, number, &table, &mut |change| {
                    place += 1;
                    part(&[cell(place), cell(change)]);
                });
            }
        })
    })
}

fn tell(client: &SpiClient<'_>, number: i64, table: &History, part: &mut dyn FnMut(Vec<u8>)) {
    let columns = columns(client, table);
    // num_nulls, since IS NOT NULL looks into composite values; format prints without looking for a
    // cast.
    let shown = columns.iter().map(|Column { quoted, .. }| {
        format!(", CASE WHEN num_nulls(h.{quoted}) = 0 THEN format('%s', h.{quoted}) END")
    });
    let sql = format!(
        "SELECT h._tx, h._serial, h._op::text, h._hash{} FROM {} h WHERE h._block = $1 AND {}",
        shown.collect::<String>(),
        table.relation,
        table.span("h"),
    );
    let mut rows = Cursor::open(client, Sees::Statement, &sql, &[number.into()]);
    while let Some(row) = rows.next_row() {
        let texts: Vec<_> = (0..columns.len()).map(|i| row.text(i + 5)).collect();
        part(change::encode(&Travelling {
            table: &table.name,
            tx: row.int(1).unwrap_or_default(),
            serial: row.int(2).unwrap_or_default(),
            op: row
                .text(3)
                .and_then(|op| op.bytes().next())
                .unwrap_or_default(),
            hash: &row.bytes(4).unwrap_or_default(),
            cells: &cells::encode(&texts),
        }));
    }
}

/// Where changes received wait for the rest; until the end of the transaction.
fn staged_name(table: &History) -> String {
    format!("chainify_changes_{}", table.id)
}

fn is_staged(client: &SpiClient<'_>, table: &History) -> bool {
    let sql = format!(
        "SELECT to_regclass('pg_temp.{}') IS NOT NULL",
        staged_name(table)
    );
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    rows.next_row().and_then(|row| row.boolean(1)) == Some(true)
}

/// `chainify_node.stage_changes(number, changes)`; contract in spec/sql-api.md.
fn stage_changes(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let buffer: Vec<u8> = call.required(1, "changes");
    let parts = block_buffer::split(&buffer).map_err(malformed).or_raise();
    let received: Result<Vec<_>, _> = parts.into_iter().map(change::decode).collect();
    let received = received.map_err(malformed).or_raise();
    unrecorded(|| {
        spi::connect(|client| {
            let tables = history::readable(client, &mut |_, _| ());
            let mut of_table: BTreeMap<usize, Vec<&Travelling>> = BTreeMap::new();
            for change in &received {
                let covers =
                    |table: &History| table.name == change.table && table.covers(number, change.tx);
                let Some(table) = tables.iter().position(covers) else {
                    not_agreed(
                        number,
                        format!("Table {} was not on the ledger", change.table),
                    )
                    .raise()
                };
                of_table.entry(table).or_default().push(change);
            }
            for (table, changes) in of_table {
                stage(client, number, &tables[table], &changes).or_raise();
            }
        })
    });
    call.void()
}

/// Reads the texts with the rights of the table's owner, since input functions of domains run
/// constraints; where the table is gone, types of PostgreSQL itself only.
fn stage(
    client: &SpiClient<'_>,
    number: i64,
    table: &History,
    changes: &[&Travelling],
) -> Result<(), PgError> {
    let columns = columns(client, table);
    let owner = owner(client, table);
    if owner.is_none() && columns.iter().any(|column| !column.built_in) {
        return Err(not_agreed(
            number,
            format!(
                "Table {} is gone, and with it whose types its history has",
                table.name
            ),
        ));
    }
    let mut texts = vec![Vec::with_capacity(changes.len()); columns.len()];
    for change in changes {
        let row = cells::decode_any(change.cells).map_err(malformed)?;
        if row.iter().skip(columns.len()).any(Option::is_some) {
            return Err(malformed(format!(
                "a change of {} has more columns than it",
                table.name
            )));
        }
        for (place, column) in texts.iter_mut().enumerate() {
            column.push(row.get(place).copied().flatten().map(str::to_owned));
        }
    }
    make_stage(client, table, owner);
    let insert = || insert(number, table, &columns, changes, texts);
    match owner {
        Some(owner) => owner.run(insert),
        None => insert(),
    }
    Ok(())
}

/// The owner of the live table; `None` when that is gone.
fn owner(client: &SpiClient<'_>, table: &History) -> Option<Role> {
    let sql = "SELECT c.oid::int8 FROM chainify_ledger.ledger_table l JOIN pg_class c ON c.oid = l.relation WHERE l.id = $1";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[table.id.into()]);
    let oid = rows.next_row().and_then(|row| row.bigint(1))?;
    Some(Role::owner_of(pg_sys::Oid::from(oid as u32)))
}

fn make_stage(client: &SpiClient<'_>, table: &History, owner: Option<Role>) {
    if is_staged(client, table) {
        return;
    }
    let stage = staged_name(table);
    spi::connected(|| {
        let sql = format!(
            "CREATE TEMPORARY TABLE {stage} (LIKE {}) ON COMMIT DROP",
            table.relation
        );
        spi::execute(&sql, &[]);
        if let Some(owner) = owner {
            let owner = owner.name().replace('"', "\"\"");
            spi::execute(
                &format!("GRANT INSERT ON pg_temp.{stage} TO \"{owner}\""),
                &[],
            );
        }
    });
}

fn insert(
    number: i64,
    table: &History,
    columns: &[Column],
    changes: &[&Travelling],
    texts: Vec<Vec<Option<String>>>,
) {
    let list = |part: &dyn Fn(usize, &Column) -> String| -> String {
        columns
            .iter()
            .enumerate()
            .map(|(place, column)| part(place, column))
            .collect()
    };
    let sql = format!(
        "INSERT INTO pg_temp.{} (_block, _tx, _serial, _op, _hash{}) SELECT {number}, u.tx, u.serial, u.op::pg_catalog.\"char\", u.hash{}
        FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.int4[]), pg_catalog.unnest($2::pg_catalog.int4[]), pg_catalog.unnest($3::pg_catalog.text[]),
            pg_catalog.unnest($4::pg_catalog.bytea[]){}) u (tx, serial, op, hash{})",
        staged_name(table),
        list(&|_, column| format!(", {}", column.quoted)),
        list(&|place, column| format!(", u.c{place}::{}", column.kind)),
        list(&|place, _| format!(", pg_catalog.unnest(${}::pg_catalog.text[])", place + 5)),
        list(&|place, _| format!(", c{place}")),
    );
    let mut arguments = vec![
        cell(changes.iter().map(|change| change.tx).collect::<Vec<_>>()),
        cell(
            changes
                .iter()
                .map(|change| change.serial)
                .collect::<Vec<_>>(),
        ),
        cell(
            changes
                .iter()
                .map(|change| char::from(change.op).to_string())
                .collect::<Vec<_>>(),
        ),
        cell(
            changes
                .iter()
                .map(|change| change.hash.to_vec())
                .collect::<Vec<_>>(),
        ),
    ];
    arguments.extend(texts.into_iter().map(cell));
    spi::connected(|| under_path(|| spi::as_caller(&sql, &arguments, |_| ())));
}

/// `chainify_node.restore_block(number, certified_hash, header, transactions)`; contract in
/// spec/sql-api.md.
fn restore_block(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let certified: Vec<u8> = call.required(1, "certified_hash");
    let header: Vec<u8> = call.required(2, "header");
    let buffer: Vec<u8> = call.required(3, "transactions");
    let header = LedgerBlock::decode(&header).map_err(malformed).or_raise();
    let bodies = block_buffer::split(&buffer).map_err(malformed).or_raise();
    row_bytes::forget();
    unrecorded(|| {
        checkpoints::lock_bases();
        spi::connect(|client| {
            let here = header.chain_id == stored_blocks::chain_id(client, Sees::Latest);
            if !here || header.hash()[..] != certified[..] || header.number as i64 != number {
                not_agreed(number, "The header is another").raise();
            }
            let tables = history::readable(client, &mut |_, _| ());
            put_header(&header);
            put_transactions(&header, &bodies).or_raise();
            put_history(client, number, &tables);
            if let Some(fault) = first_fault(client, number, &tables) {
                not_agreed(number, fault).raise();
            }
            record(number);
        })
    });
    call.void()
}

/// The first fault of a block as it is kept now: transactions or history unlike its header's.
pub fn first_fault(client: &SpiClient<'_>, number: i64, tables: &[History]) -> Option<String> {
    let mut first = None;
    let mut report = |_, finding: Finding| {
        first.get_or_insert_with(|| format!("{}: {}", finding.what, finding.detail));
    };
    ledger::check_blocks(client, Sees::Latest, tables, number, number, &mut report);
    first
}

fn put_header(header: &LedgerBlock) {
    spi::connected(|| {
        let sql = "DELETE FROM chainify_ledger.block WHERE number = $1";
        spi::query(sql, &[cell(header.number as i64)], |_| ());
        seal::write_block(header);
    });
}

/// The transactions as ordered. The facts that are not hashed, rows and error of each, stay where
/// it is kept.
fn put_transactions(header: &LedgerBlock, bodies: &[&[u8]]) -> Result<(), PgError> {
    let decoded: Result<Vec<_>, _> = bodies
        .iter()
        .map(|body| Transaction::decode(body))
        .collect();
    let ids: Vec<_> = decoded
        .map_err(malformed)?
        .iter()
        .map(|transaction| transaction.id.to_vec())
        .collect();
    let succeeded: Vec<_> = (0..bodies.len() as u32)
        .map(|index| header.outcomes.succeeded(index).unwrap_or_default())
        .collect();
    let bodies: Vec<_> = bodies.iter().map(|body| body.to_vec()).collect();
    let sql = "WITH gone AS (DELETE FROM chainify_ledger.transaction WHERE block = $1 RETURNING index, succeeded, rows, sqlstate, message)
        INSERT INTO chainify_ledger.transaction (block, index, id, body, succeeded, rows, sqlstate, message)
        SELECT $1, u.place - 1, u.id, u.body, u.succeeded, coalesce(g.rows, 0), g.sqlstate, g.message
        FROM unnest($2::bytea[], $3::bytea[], $4::boolean[]) WITH ORDINALITY u (id, body, succeeded, place)
        LEFT JOIN (SELECT DISTINCT ON (index) * FROM gone ORDER BY index) g ON g.index = u.place - 1 AND g.succeeded = u.succeeded
        ORDER BY u.place";
    let arguments = [
        cell(header.number as i64),
        cell(ids),
        cell(bodies),
        cell(succeeded),
    ];
    spi::connected(|| spi::query(sql, &arguments, |_| ()));
    Ok(())
}

/// Puts the changes that were staged in place of the block's history.
pub fn put_history(client: &SpiClient<'_>, number: i64, tables: &[History]) {
    for table in tables {
        let sql = format!("DELETE FROM {} WHERE _block = $1", table.relation);
        spi::connected(|| spi::query(&sql, &[cell(number)], |_| ()));
    }
    for table in tables.iter().filter(|table| is_staged(client, table)) {
        let (relation, stage) = (&table.relation, staged_name(table));
        spi::connected(|| {
            let sql =
                format!("INSERT INTO {relation} SELECT * FROM pg_temp.{stage} WHERE _block = $1");
            spi::query(&sql, &[cell(number)], |_| ());
            spi::execute(&format!("DROP TABLE pg_temp.{stage}"), &[]);
        });
    }
}

/// A deviation that was cured, as `chainify.deviations` shows it.
fn record(number: i64) {
    let sql = "WITH known AS (DELETE FROM chainify_ledger.false_block WHERE number = $1 RETURNING what, found_at),
        made AS (
            INSERT INTO chainify_ledger.deviation (block, found_by, rows_total, cured_by, started_at, took)
            SELECT $1, 'scrubber', 1, 'history', found_at, clock_timestamp() - found_at FROM known RETURNING id)
        INSERT INTO chainify_ledger.deviation_row (deviation, tbl, found) SELECT made.id, 'chainify_history', to_jsonb(known.what) FROM made, known";
    spi::connected(|| spi::query(sql, &[cell(number)], |_| ()));
}
