//! The step *reindex*: rebuilds indexes that do not agree with their tables.
use pgrx::pg_sys;
use serde_json::json;

use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::live_state;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::recovery::certified::{certified_header, locked, same};
use crate::recovery::cured::Cured;
use crate::recovery::scrub;
use crate::verify::indexes::{defects, of_ledger, of_relation, read_by_index, Defect, Index};

/// The step of recovery before rows: indexes that are not as their tables are built anew. Those of
/// ledger tables that cannot be compared are, too, while a block waits for it: something made it
/// come out otherwise. Returns what was built anew; nothing is said of rows. Cost: two scans of
/// each relation for each of its indexes; the locks that building one takes.
pub fn reindex(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
    waiting: bool,
) -> Result<Vec<Cured>, PgError> {
    certified_header(client, number, certified)?;
    let tables = locked(client)?;
    let mut cured = rebuilt(
        client,
        "chainify_ledger",
        &of_ledger(client, Sees::Latest),
        &[],
    )?;
    for table in &tables {
        let mut relations = read_by_index(client, Sees::Latest, table);
        relations.push(table.history_relation);
        let leaves = match waiting {
            true => unseen(client, table),
            false => Vec::new(),
        };
        let of_table = rebuilt(client, &table.name, &relations, &leaves)?;
        if of_table.iter().any(Option::is_none) {
            scrub::soon(table); // an index that could not be built is looked at again
        }
        cured.extend(of_table);
    }
    Ok(cured.into_iter().flatten().collect())
}

/// The relations of a table whose rows are all there as they should be, so that it may be an index
/// that cannot be compared. Where they are not, rows come first.
fn unseen(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<pg_sys::Oid> {
    let leaves = table.leaves(client, Sees::Latest);
    let as_running = || {
        let live = live_state(client, table);
        table
            .running_state()
            .is_some_and(|running| same(table, &running, &live))
    };
    match compared_in_part(client, &leaves).is_empty() || !as_running() {
        true => Vec::new(),
        false => leaves,
    }
}

/// Builds anew each index of these relations that has a defect, and those of `unseen` that cannot
/// be compared. Gives what was cured of each; None where rows that are there twice forbid it.
fn rebuilt(
    client: &SpiClient<'_>,
    of: &str,
    relations: &[pg_sys::Oid],
    unseen: &[pg_sys::Oid],
) -> Result<Vec<Option<Cured>>, PgError> {
    let mut wanted = defects(client, Sees::Latest, relations, &mut || ());
    wanted.extend(compared_in_part(client, unseen));
    let rebuilt = wanted.into_iter().map(|defect| {
        let done = rebuild(&defect.index)?;
        Ok(done.then(|| Cured::of_finding(of, defect.finding())))
    });
    rebuilt.collect()
}

/// Indexes of kinds that are asked for some rows only.
fn compared_in_part(client: &SpiClient<'_>, relations: &[pg_sys::Oid]) -> Vec<Defect> {
    let sql = "SELECT a.amname::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
        WHERE c.oid = $1 AND a.amname IN ('gin', 'brin')";
    let kind = |index: &Index| {
        Cursor::open(client, Sees::Latest, sql, &[index.oid.into()])
            .next_row()
            .and_then(|row| row.text(1))
    };
    let mut indexes = Vec::new();
    for relation in relations {
        indexes.extend(of_relation(client, Sees::Latest, *relation));
    }
    let as_defect = |index: Index| {
        let found = json!(format!("of kind {}, compared in part", kind(&index)?));
        let unused = index.left_out.is_some(); // found as such
        (!unused).then_some(Defect {
            index,
            expected: json!("in use"),
            found,
        })
    };
    indexes.into_iter().filter_map(as_defect).collect()
}

/// The facts of the constraint about its index. The columns that it includes beside stay as they
/// are.
const AS_CONSTRAINT: &str = "
    UPDATE pg_catalog.pg_index i SET indisunique = true, indimmediate = true, indisprimary = k.contype = 'p',
        indkey = pg_catalog.array_to_string(k.conkey || (i.indkey::int2[])[i.indnkeyatts:], ' ')::int2vector
    FROM pg_catalog.pg_constraint k
    WHERE i.indexrelid = $1 AND k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
        AND NOT k.condeferrable AND pg_catalog.cardinality(k.conkey) = i.indnkeyatts";

/// Builds an index anew; false when rows that are there twice forbid it: they have to be put right
/// first. PostgreSQL runs what users wrote as the table's owner.
fn rebuild(index: &Index) -> Result<bool, PgError> {
    let built = subtransaction(|| {
        spi::connected(|| {
            if index.of_constraint && index.left_out.is_some() {
                spi::query(AS_CONSTRAINT, &[cell(index.oid)], |_| ());
            }
            spi::execute(&format!("REINDEX INDEX {}", index.name), &[]);
        });
        Ok(())
    });
    match built {
        Ok(()) => {
            pgrx::log!("chainify: built index {} anew", index.name);
            Ok(true)
        }
        Err(error) if index.is_unique && error.sqlstate.as_str() == "23505" => Ok(false),
        Err(error) => Err(error),
    }
}
