//! Rows that cannot be read, because their TOAST values are damaged: a chunk is missing, is there
//! twice, or does not decompress.
//!
//! A scan leaves these rows out, as if they were not there. Recovery takes them away and puts in
//! those that should be there.
use pgrx::{pg_sys, JsonB};

use crate::ledger::ledger_tables::{json_object, LedgerTable};
use crate::ledger::row_bytes;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::encode::RowEncoder;
use crate::pg::base::error::{OrRaise, PgError, SqlState};
use crate::pg::base::relation::{Lock, Relation, Tuple};
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;

/// Rows named of one table; a repair takes as many away at once.
const NAMED_MAX: usize = 10_000;

/// A row that cannot be read.
pub struct DamagedRow {
    /// The table or partition that holds it.
    pub part: pg_sys::Oid,
    /// Its place there, as PostgreSQL writes a `ctid`.
    pub place: String,
    /// Its key, where that can be read.
    pub key: Option<JsonB>,
    /// The words of PostgreSQL's error.
    pub why: String,
}

/// Appends the row to `out`. Err: it cannot be read, and `out` is as before. Raises any
/// other error.
/// Cost: a row with values outside of it is read in a subtransaction.
pub fn row(encoder: &RowEncoder, tuple: &Tuple, out: &mut Vec<u8>) -> Result<(), PgError> {
    if !tuple.has_values_outside() {
        encoder.row(tuple, out);
        return Ok(());
    }
    let before = out.len();
    let read = subtransaction(|| {
        encoder.row(tuple, out);
        Ok(())
    });
    let Err(error) = read else { return Ok(()) };
    if !tells_of_damage(error.sqlstate) {
        error.raise();
    }
    out.truncate(before);
    Err(error)
}

/// Corrupted data, and what PostgreSQL does not expect of a TOAST table.
fn tells_of_damage(sqlstate: SqlState) -> bool {
    matches!(sqlstate.as_str(), "XX000" | "XX001" | "XX002")
}

/// The rows of a table that cannot be read, at most as many as are named. Cost: one read of
/// its pages, and of the values outside of them.
pub fn of_table(client: &SpiClient<'_>, sees: Sees, table: &LedgerTable) -> Vec<DamagedRow> {
    let mut damaged = Vec::new();
    let columns = row_bytes::columns(table.id);
    let mut bytes = Vec::new();
    for part in table.leaves(client, sees) {
        let relation = Relation::open(part, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &columns).or_raise();
        relation.scan_seen(sees, |tuple| {
            if !tuple.has_values_outside() {
                return; // nothing of it can be gone
            }
            bytes.clear();
            let read = row(&encoder, tuple, &mut bytes);
            if let (Err(error), Some((block, at))) = (read, tuple.place()) {
                if damaged.len() < NAMED_MAX {
                    damaged.push(DamagedRow {
                        part,
                        place: format!("({block},{at})"),
                        key: None,
                        why: error.message,
                    });
                }
            }
        });
    }
    for row in &mut damaged {
        row.key = key_of(client, sees, table, row);
    }
    damaged
}

fn key_of(
    client: &SpiClient<'_>,
    sees: Sees,
    table: &LedgerTable,
    row: &DamagedRow,
) -> Option<JsonB> {
    let key = table.columns.iter().filter(|column| column.key);
    let shown = key.map(|column| (&*column.name, &*column.quoted, column.built_in));
    let sql = format!(
        "SELECT {} FROM {} t WHERE t.tableoid = {}::oid AND t.ctid = '{}'::tid",
        json_object("t.", shown),
        table.live_name(),
        row.part.to_u32(),
        row.place,
    );
    let read = subtransaction(|| {
        let mut rows = Cursor::open(client, sees, &sql, &[]);
        Ok(rows.next_row().and_then(|row| row.json(1)))
    });
    match read {
        Ok(key) => key,
        Err(error) if tells_of_damage(error.sqlstate) => None,
        Err(error) => error.raise(),
    }
}
