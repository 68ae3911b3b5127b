//! A row through time: `chainify.history`, the rows that `chainify.as_of` gives, and a row's last
//! change, for its receipt.
//!
//! Keys are compared by PostgreSQL's own operators, or, where a type is not PostgreSQL's own, by
//! what values print. Queries run with the rights of the extension's owner and call nothing that a
//! user could have defined.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys;
use pgrx::JsonB;

use crate::block::half_committed;
use crate::ledger::dropped;
use crate::ledger::history;
use crate::ledger::history::History;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::{json_object, literal, LedgerTable};
use crate::ledger::row_bytes;
use crate::ledger::stored_blocks;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::pieces::Query;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::variadic::{variadic_from, TextValue};

crate::pg::sql_function!(chainify_history, pg_finfo_chainify_history, history);
crate::pg::sql_function!(chainify_rows_at, pg_finfo_chainify_rows_at, rows_at);
crate::pg::sql_function!(
    chainify_mirror_changes,
    pg_finfo_chainify_mirror_changes,
    mirror_changes
);
crate::pg::sql_function!(
    chainify_mirror_rows,
    pg_finfo_chainify_mirror_rows,
    mirror_rows
);
crate::pg::sql_function!(chainify_as_of, pg_finfo_chainify_as_of, as_of);

/// A column of one version of a table, as its history has it.
struct Column {
    name: String,
    quoted: String,
    key: bool,
    /// The type's name, where it is one of PostgreSQL itself.
    built_in: Option<String>,
}

/// A version of a table: its history and columns, those of the key first, in the order of the key.
struct Version {
    history: History,
    columns: Vec<Column>,
}

const COLUMNS: &str = "
    SELECT c.name, quote_ident(c.name), c.key_part IS NOT NULL,
        CASE WHEN a.atttypid < 16384::oid THEN format_type(a.atttypid, -1) END
    FROM chainify_ledger.ledger_column c JOIN chainify_ledger.ledger_table t ON t.id = c.table_id
    JOIN pg_attribute a ON a.attrelid = t.history AND a.attname::text = c.name AND NOT a.attisdropped
    WHERE t.id = $1 ORDER BY c.key_part NULLS LAST, c.ordinal";

/// The versions of a table, the newest first. Raises 42P01 when it never was on the ledger.
fn versions(client: &SpiClient<'_>, relation: pg_sys::Oid) -> Vec<Version> {
    let sql = "SELECT id FROM chainify_ledger.ledger_table WHERE relation = $1 ORDER BY id DESC";
    let mut ids = Vec::new();
    let mut found = Cursor::open(client, Sees::Statement, sql, &[relation.into()]);
    while let Some(row) = found.next_row() {
        ids.extend(row.int(1));
    }
    if ids.is_empty() {
        PgError::new(b"42P01", "table is not on the ledger").raise();
    }
    let mut histories = history::readable(client, &mut |_, _| ());
    histories.retain(|history| ids.contains(&history.id));
    histories.sort_by_key(|history| std::cmp::Reverse(history.id));
    let version = |history: History| Version {
        columns: columns(client, history.id),
        history,
    };
    histories.into_iter().map(version).collect()
}

fn columns(client: &SpiClient<'_>, id: i32) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut rows = Cursor::open(client, Sees::Statement, COLUMNS, &[id.into()]);
    while let Some(row) = rows.next_row() {
        columns.push(Column {
            name: row.text(1).unwrap_or_default(),
            quoted: row.text(2).unwrap_or_default(),
            key: row.boolean(3).unwrap_or_default(),
            built_in: row.text(4),
        });
    }
    columns
}

impl Version {
    /// A condition on the rows of history `h`: that they are of this version and have this key.
    fn with_key(&self, key: &[TextValue]) -> String {
        let columns: Vec<_> = self.columns.iter().filter(|column| column.key).collect();
        if columns.len() != key.len() {
            let names: Vec<_> = columns.iter().map(|column| &column.name[..]).collect();
            let message = format!("{} key values, want {}", key.len(), columns.len());
            PgError::new(b"22023", message)
                .detail(format!("The primary key is ({}).", names.join(", ")))
                .raise();
        }
        let equal = |(column, value): (&&Column, &TextValue)| {
            let Some(text) = &value.text else {
                PgError::new(b"22004", "a key has no null").raise()
            };
            let (name, text) = (&column.quoted, literal(text));
            match &column.built_in {
                Some(type_name) => format!(" AND h.{name} = {text}::{type_name}"),
                None => format!(" AND format('%s', h.{name}) = {text}"),
            }
        };
        let key: String = columns.iter().zip(key).map(equal).collect();
        format!("{}{key}", self.history.span("h"))
    }

    /// The changes of a key: block, transaction, serial, operation, the row as jsonb.
    fn changes(&self, key: &[TextValue]) -> String {
        let shown = self
            .columns
            .iter()
            .map(|c| (&*c.name, &*c.quoted, c.built_in.is_some()));
        format!(
            "SELECT h._block, h._tx, h._serial, h._op::text AS op, {} AS v FROM {} h WHERE {}",
            json_object("h.", shown),
            self.history.relation,
            self.with_key(key)
        )
    }
}

/// Where a row's last change is.
pub struct LastChange {
    pub table: String,
    pub block: i64,
    pub serial: i32,
    /// Row encoding of the primary key's columns.
    pub key: Vec<u8>,
}

/// The last change of the row with this key, in the newest version of the table that has one.
/// Raises 42P01 and 22023.
pub fn last_change(
    client: &SpiClient<'_>,
    relation: pg_sys::Oid,
    key: &[TextValue],
) -> Option<LastChange> {
    versions(client, relation).iter().find_map(|version| {
        let sql = format!(
            "SELECT h._block, h._serial, chainify_ledger.encoded_key({}, h.*) FROM {} h WHERE {}
            ORDER BY h._block DESC, h._serial DESC LIMIT 1",
            version.history.id,
            version.history.relation,
            version.with_key(key)
        );
        let mut rows = Cursor::open(client, Sees::Statement, &sql, &[]);
        rows.next_row().map(|row| LastChange {
            table: version.history.name.clone(),
            block: row.bigint(1).unwrap_or_default(),
            serial: row.int(2).unwrap_or_default(),
            key: row.bytes(3).unwrap_or_default(),
        })
    })
}

/// `chainify.history(ledger_table, VARIADIC key)`: every change of the row with this key, the
/// oldest first. Cost: an index look-up for keys of PostgreSQL's own types, else a scan of the
/// history.
fn history(call: &mut Call) -> Answer {
    let relation: pg_sys::Oid = call.required(0, "ledger_table");
    let key = variadic_from(call, 1);
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let gone = dropped::read(client, Sees::Statement);
            let versions = versions(client, relation);
            if versions.iter().any(|version| version.history.starts_before(gone.block)) {
                pgrx::notice!("{}", gone.says().trim_end_matches('.'));
            }
            for version in versions.iter().rev() {
                let sql = format!(
                    "SELECT c._block, c._tx, c._serial, c.op, c.v,
                        timestamptz 'epoch' + b.block_time * interval '1 microsecond', t.id, d.organisation, d.role
                    FROM ({}) c
                    LEFT JOIN chainify_ledger.block b ON b.number = c._block
                    LEFT JOIN chainify_ledger.transaction t ON (t.block, t.index) = (c._block, c._tx)
                    LEFT JOIN LATERAL chainify_ledger.decode_transaction(t.body) d ON true
                    ORDER BY 1, 3",
                    version.changes(&key)
                );
                let mut changes = Cursor::open(client, Sees::Statement, &sql, &[]);
                while let Some(change) = changes.next_row() {
                    row(&[
                        cell::<i64>(change.bigint(1)),
                        cell::<i32>(change.int(2)),
                        cell::<String>(change.text(4)),
                        cell::<JsonB>(change.json(5)),
                        cell::<TimestampWithTimeZone>(change.timestamptz(6)),
                        cell::<Vec<u8>>(change.bytes(7)),
                        cell::<String>(change.text(8)),
                        cell::<String>(change.text(9)),
                    ]);
                }
            }
        })
    })
}

/// `chainify_ledger.rows_at(relation, block)`: the query, with one column of the table's type, of
/// its rows at the end of a block. Raises 42P01, 22023, and 55000 when they cannot be told any
/// more.
fn rows_at(call: &mut Call) -> Answer {
    let relation: pg_sys::Oid = call.required(0, "relation");
    let number: i64 = call.required(1, "block");
    let query = spi::connect(|client| rows_of_block(client, relation, number));
    call.value(query)
}

/// `chainify.mirror_changes(table_id, after, up_to)`: the changes of blocks in their order, for the
/// analytics worker (spec/analytics.md). Cost: a scan of the blocks' part of the history.
fn mirror_changes(call: &mut Call) -> Answer {
    let id: Option<i32> = call.arg(0);
    call.pieces(
        |call, client| {
            mirrored_relation(id);
            let (after, up_to): (i64, i64) = (call.required(1, "after"), call.required(2, "up_to"));
            dropped::read(client, Sees::Statement).refuse(after.saturating_add(1));
            row_bytes::forget();
            let Some(of) = history::of_version(id.unwrap_or_default()) else {
                PgError::new(b"42P01", "history of the table cannot be read").raise()
            };
            let query = format!(
                "SELECT h._op, h FROM {} h WHERE h._block > $1 AND h._block <= $2 AND {} ORDER BY h._block, h._serial",
                of.relation,
                of.span("h")
            );
            Query::kept(query, vec![cell(after), cell(up_to)])
        },
        row_bytes::mirrored_changes(id.unwrap_or_default()),
    )
}

/// `chainify.mirror_rows(table_id, block)`: the rows at the end of a block, for the analytics
/// worker (spec/analytics.md). Those after the last block are the table's own: the worker compares
/// their digest with the state root. Cost: a scan of the table; of an earlier block, of its base
/// and history.
fn mirror_rows(call: &mut Call) -> Answer {
    let id: Option<i32> = call.arg(0);
    call.pieces(
        |call, client| {
            let relation = mirrored_relation(id);
            let number: i64 = call.required(1, "block");
            let (table, last) = table_at(client, relation, number);
            let query = match number == last {
                true => format!("SELECT v FROM ({}) r", table.live_rows()),
                false => rows_of(client, &table, number),
            };
            Query::once(query)
        },
        row_bytes::mirrored_rows(id.unwrap_or_default()),
    )
}

/// The relation of a version of a table; raises 55000 when that is not to be mirrored.
fn mirrored_relation(id: Option<i32>) -> pg_sys::Oid {
    let mut relation = None;
    let sql = "SELECT chainify_ledger.check_mirrored($1)";
    spi::query(sql, &[cell::<i32>(id)], |row| relation = row.get(1));
    relation.unwrap_or(pg_sys::InvalidOid)
}

/// `chainify.as_of(of, block)`; contract in spec/sql-api.md.
fn as_of(call: &mut Call) -> Answer {
    let relation = call.table_of_arg(0);
    let number: i64 = call.required(1, "block");
    spi::connect(|client| {
        let query = format!(
            "SELECT (v).* FROM ({}) r",
            rows_of_block(client, relation, number)
        );
        call.rows_as_they_are(&mut Cursor::open(client, Sees::Statement, &query, &[]))
    })
}

/// The query of a table's rows at the end of a block, with one column.
fn rows_of_block(client: &SpiClient<'_>, relation: pg_sys::Oid, number: i64) -> String {
    let (table, _) = table_at(client, relation, number);
    rows_of(client, &table, number)
}

/// A table whose rows at the end of a block can be told, and the last block. Raises as
/// [`rows_at`].
fn table_at(client: &SpiClient<'_>, relation: pg_sys::Oid, number: i64) -> (LedgerTable, i64) {
    row_bytes::forget();
    half_committed::refuse(client, Sees::Statement);
    let last = stored_blocks::last_block(client, Sees::Statement).unwrap_or_default();
    if number > last {
        let message = format!("there is no block {number} yet: the last one is {last}");
        PgError::new(b"22023", message).raise();
    }
    let tables = ledger_tables::all(client, Sees::Statement);
    let Some(table) = tables.into_iter().find(|table| table.relation == relation) else {
        PgError::new(b"42P01", "table is not on the ledger").raise()
    };
    let (since, _) = table.since;
    if number < since {
        let message = format!("table {} was not what it is at block {number}", table.name);
        PgError::new(b"55000", message)
            .detail(format!(
                "It was put on the ledger, or its definition was changed, by block {since}."
            ))
            .hint("Its history has the rows of earlier blocks.")
            .raise();
    }
    if let Some(why) = table.unreadable() {
        PgError::new(b"55000", format!("table {} cannot be read", table.name))
            .detail(format!("Table {}: {why}.", table.name))
            .raise();
    }
    (table, last)
}

fn rows_of(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> String {
    if number >= table.base_block {
        return format!("SELECT v FROM ({}) r", table.expected_rows(number));
    }
    let gone = dropped::read(client, Sees::Statement);
    gone.refuse(number + 1);
    let rows = table.rows_before_base(number);
    let lost = format!("SELECT count(*) FROM ({rows}) r WHERE op = 'U'");
    let mut counted = Cursor::open(client, Sees::Statement, &lost, &[]);
    let lost = counted
        .next_row()
        .and_then(|row| row.bigint(1))
        .unwrap_or_default();
    if lost > 0 {
        let message = format!("rows of {} at block {number} are not known", table.name);
        let mut unknown = PgError::new(b"55000", message);
        if gone.block > 0 {
            unknown = unknown.hint(gone.says());
        }
        unknown
            .detail(format!(
                "{lost} of them were there before their first change after it, which keeps what they became only. All blocks from {} on can be told.",
                table.base_block
            ))
            .raise();
    }
    format!("SELECT v FROM ({rows}) r")
}
