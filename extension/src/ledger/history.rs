//! The history tables as `verify_ledger` reads them, those of detached tables included.

use chainify_ledger::audit::Finding;
use pgrx::pg_sys;

use crate::pg::base::cursor::{Cursor, Row, Sees};
use crate::pg::base::function::cell;
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::{self, SpiClient};

/// Takes findings: the block, what, and detail.
pub type Report<'r> = dyn FnMut(i64, Finding) + 'r;

/// The history of one version of a ledger table, from the transaction that started it to the one
/// that ended it.
pub struct History {
    pub id: i32,
    /// `schema.name`, unquoted: what is hashed.
    pub name: String,
    /// Quoted name of the history table, which is locked against another one.
    pub relation: String,
    /// Block and transaction; changes between them are of this version.
    since: (i64, i32),
    until: (i64, i32),
}

impl History {
    /// Whether the changes of this transaction of a block are of this version.
    pub fn covers(&self, block: i64, tx: i32) -> bool {
        self.since < (block, tx) && (block, tx) < self.until
    }

    /// Whether changes of this block or an earlier one can be of this version.
    pub fn starts_before(&self, block: i64) -> bool {
        self.since.0 <= block
    }

    /// A condition on `_block` and `_tx`.
    pub fn span(&self, alias: &str) -> String {
        let ((b, t), (to_b, to_t)) = (self.since, self.until);
        let at = format!("({alias}._block, {alias}._tx)");
        format!("{at} > ({b}, {t}) AND {at} < ({to_b}, {to_t})")
    }
}

const TABLES: &str = "
    SELECT l.id, l.name, l.attached_at, l.attached_tx, coalesce(l.detached_at, 9223372036854775807),
        coalesce(l.detached_tx, 2147483647), l.history::int8,
        (SELECT string_agg(c.name, ', ' ORDER BY c.ordinal) FROM chainify_ledger.ledger_column c
         WHERE c.table_id = l.id AND NOT EXISTS (
            SELECT FROM pg_attribute a WHERE a.attrelid = l.history AND a.attname::text = c.name AND NOT a.attisdropped))
    FROM chainify_ledger.ledger_table l
    ORDER BY l.id";

/// Every history that can be read; what keeps others from it is reported, as is history outside of
/// its table's time.
pub fn all(client: &SpiClient<'_>, report: &mut Report) -> Vec<History> {
    let tables = readable(client, report);
    report_strays(client, &tables, report);
    tables
}

/// Every history that can be read; what keeps others from it is reported. Each is locked until the
/// transaction ends. A deployment may give its name to another table as soon as it can, so a name
/// that was read before the lock could be that of another history.
pub fn readable(client: &SpiClient<'_>, report: &mut Report) -> Vec<History> {
    let mut tables = Vec::new();
    let mut rows = Cursor::open(client, Sees::Statement, TABLES, &[]);
    while let Some(row) = rows.next_row() {
        let name = row.text(2).unwrap_or_default();
        let attached_at = row.bigint(3).unwrap_or_default();
        let mut unreadable = |why: String| {
            report(
                attached_at,
                Finding::new("history table", format!("{name}: {why}")),
            )
        };
        let history = pg_sys::Oid::from(row.bigint(7).unwrap_or_default() as u32);
        match (Relation::try_open(history, Lock::AccessShare), row.text(8)) {
            (None, _) => unreadable("its history table is gone".into()),
            (Some(_), Some(columns)) => unreadable(format!("its history table lacks {columns}")),
            (Some(relation), None) => {
                let tx = |column| row.int(column).unwrap_or_default();
                tables.push(History {
                    id: row.int(1).unwrap_or_default(),
                    name,
                    relation: relation.quoted_name(),
                    since: (attached_at, tx(4)),
                    until: (row.bigint(5).unwrap_or_default(), tx(6)),
                });
            }
        }
    }
    tables
}

/// The history of one version of a table, locked in the same way; None where it is gone.
pub fn of_version(id: i32) -> Option<History> {
    let mut found = None;
    spi::query(VERSION, &[cell(id)], |row| {
        let relation = Relation::try_open(row.must(6), Lock::AccessShare);
        found = relation.map(|relation| History {
            id,
            name: row.must(1),
            relation: relation.quoted_name(),
            since: (row.must(2), row.must(3)),
            until: (row.must(4), row.must(5)),
        });
    });
    found
}

const VERSION: &str = "SELECT name, attached_at, attached_tx, coalesce(detached_at, 9223372036854775807),
    coalesce(detached_tx, 2147483647), history::oid FROM chainify_ledger.ledger_table WHERE id = $1";

/// A history table may have served a name more than once; each row must fall into one of those
/// times.
fn report_strays(client: &SpiClient<'_>, tables: &[History], report: &mut Report) {
    let mut relations: Vec<_> = tables.iter().map(|table| &table.relation).collect();
    relations.sort();
    relations.dedup();
    for relation in relations {
        let times = tables.iter().filter(|table| table.relation == *relation);
        let times: Vec<_> = times.map(|table| table.span("h")).collect();
        let sql = format!(
            "SELECT _block, count(*) FROM {relation} h WHERE ({}) IS NOT TRUE GROUP BY 1 ORDER BY 1",
            times.join(" OR ")
        );
        let mut rows = Cursor::open(client, Sees::Statement, &sql, &[]);
        while let Some(row) = rows.next_row() {
            let detail = format!(
                "{} rows of {relation} are of a block in which the table was not attached",
                row.bigint(2).unwrap_or_default()
            );
            report(
                row.bigint(1).unwrap_or_default(),
                Finding::new("history row", detail),
            );
        }
    }
}

/// A row of history as kept, with its table's place in the list of histories.
pub struct Kept {
    pub table: usize,
    pub tx: i32,
    pub serial: i32,
    pub op: u8,
    pub hash: Vec<u8>,
    pub key: Vec<u8>,
    pub row: Vec<u8>,
}

/// The changes of block `number`, by table and serial.
pub fn of_block(client: &SpiClient<'_>, tables: &[History], number: i64) -> Vec<Kept> {
    let arguments = [number.into(), number.into()];
    let mut rows = Cursor::open(client, Sees::Statement, &changes(tables), &arguments);
    let mut kept = Vec::new();
    while let Some(row) = rows.next_row() {
        kept.push(kept_change(&row));
    }
    kept
}

/// All changes of blocks `$1` to `$2`, by block, table and serial.
pub fn changes(tables: &[History]) -> String {
    format!("{} ORDER BY 1, 2, 4", unordered(tables, |place| place))
}

/// All changes of blocks `$1` to `$2`, by block, table's name, key and serial, bytewise: as the
/// leaves of their effects are. Tables have to be by name, and [`Kept::table`] is the place of the
/// first table of that name.
pub fn in_order_of_leaves(tables: &[History]) -> String {
    let first = |place: usize| tables.partition_point(|table| table.name < tables[place].name);
    format!("{} ORDER BY 1, 2, 5, 4", unordered(tables, first))
}

/// All changes of blocks `$1` to `$2`; `place_of` a table's place is what each has for it. Columns
/// to order by come first, where a sort finds them without reading others.
fn unordered(tables: &[History], place_of: impl Fn(usize) -> usize) -> String {
    let of = |(place, table): (usize, &History)| {
        let (History { id, relation, .. }, span) = (table, table.span("h"));
        format!(
            "SELECT h._block, {}::int4, h._tx, h._serial, chainify_ledger.encoded_key({id}, h.*),
                chainify_ledger.encoded_row({id}, h.*), h._op::text, h._hash
            FROM {relation} h
            WHERE h._block BETWEEN $1 AND $2 AND {span}",
            place_of(place)
        )
    };
    let none = "SELECT 0::int8, 0::int4, 0::int4, 0::int4, ''::bytea, ''::bytea, ''::text, ''::bytea WHERE $1 > $2 AND false";
    let all: Vec<_> = tables
        .iter()
        .enumerate()
        .map(of)
        .chain([none.to_owned()])
        .collect();
    all.join(" UNION ALL ")
}

pub fn kept_change(row: &Row<'_>) -> Kept {
    let bytes = |column| row.bytes(column).unwrap_or_default();
    let op = row.text(7).and_then(|op| op.bytes().next());
    Kept {
        table: row.int(2).unwrap_or_default() as usize,
        tx: row.int(3).unwrap_or(-1),
        serial: row.int(4).unwrap_or(-1),
        op: op.unwrap_or_default(),
        hash: bytes(8),
        key: bytes(5),
        row: bytes(6),
    }
}
