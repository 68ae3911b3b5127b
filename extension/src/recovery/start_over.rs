//! The last step of recovery without another organisation takes the ledger back to before its first
//! block. Then the node executes all blocks of its block store again, as in a new database.
//!
//! Invariant R9: only objects of the ledger are taken back. A check comes first: the database must
//! have the rows with which tables were attached, under the definitions of that time, since no
//! block contains them.

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::Scan;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::certified::{beyond_repair, check_definitions};
use crate::recovery::cured::Cured;
use crate::recovery::row_repair::put_rows_right;

/// Takes the ledger back because of block `until`, which had other effects than certified. CH002
/// when the rows at the beginning are gone. Cost: two scans of the attached tables; dropped objects
/// are not read.
pub fn start_over(
    client: &SpiClient<'_>,
    until: i64,
    found: Option<Vec<u8>>,
) -> Result<(), PgError> {
    check_definitions(client)?;
    spi::connected(|| {
        spi::query(
            "SELECT chainify_ledger.drop_copies(), chainify_ledger.drop_made()",
            &[],
            |_| (),
        )
    });
    if let Some(why) = obstacle(client) {
        return Err(beyond_repair(why));
    }
    for table in ledger_tables::all(client, Sees::Latest) {
        if let Some(initial) = Initial::of(client, &table) {
            initial.put_back(client, &table)?;
        }
    }
    let sql = "SELECT chainify_ledger.forget_blocks($1, $2)";
    spi::connected(|| spi::query(sql, &[cell(until), cell::<Vec<u8>>(found)], |_| ()));
    pgrx::log!("chainify: took the ledger back to before block 1; blocks are executed again");
    Ok(())
}

fn obstacle(client: &SpiClient<'_>) -> Option<String> {
    let sql = "SELECT chainify_ledger.start_over_obstacle()";
    Cursor::open(client, Sees::Latest, sql, &[])
        .next_row()
        .and_then(|row| row.text(1))
}

/// The rows of a table when it was attached.
struct Initial {
    /// Where the rows are kept; `None`: there were none.
    rows: Option<String>,
    schema_hash: Vec<u8>,
    table_state: Vec<u8>,
}

impl Initial {
    fn of(client: &SpiClient<'_>, table: &LedgerTable) -> Option<Self> {
        let sql = "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), i.schema_hash, i.table_state
            FROM chainify_ledger.initial_table i
            LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) ON c.oid = i.rows WHERE i.name = $1";
        let mut rows = Cursor::open(client, Sees::Latest, sql, &[table.name.as_str().into()]);
        let row = rows.next_row()?;
        Some(Initial {
            rows: row.text(1),
            schema_hash: row.bytes(2).unwrap_or_default(),
            table_state: row.bytes(3).unwrap_or_default(),
        })
    }

    fn put_back(&self, client: &SpiClient<'_>, table: &LedgerTable) -> Result<Vec<Cured>, PgError> {
        let lock = format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
            table.live_name()
        );
        spi::connected(|| spi::execute(&lock, &[]));
        let rows = table.rows_of(self.rows.as_deref());
        let told = Scan::of_query(client, table, &rows);
        if table.state_hash_by(&self.schema_hash, &told.state)[..] != self.table_state[..] {
            return Err(beyond_repair(format!(
                "The rows with which table {} was attached are not those kept.",
                table.name
            )));
        }
        put_rows_right(client, table, &rows, &told)
    }
}
