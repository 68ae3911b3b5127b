//! Executes a block again that had other effects than certified, after repairing the rows that it
//! changed. They are looked up by their keys in base and history, which takes milliseconds however
//! large the tables are. All other differences are left to `chainify_node.repair`, which scans the
//! tables.
//!
//! Invariant R8: repaired rows stay only when the block then has its certified hash and changes
//! each of them. Otherwise everything is undone. So base and history need no proof here.

use std::collections::{BTreeSet, HashSet};

use chainify_codec::Hash;
use chainify_ledger::LedgerBlock;
use pgrx::JsonB;

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::{row_bytes, table_scans};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::connected;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::recovery::deviations;
use crate::recovery::row_repair::repair_rows;
use crate::recovery::scrub;
use crate::running::effects;
use crate::running::recorded::Recorded;
use crate::running::request::Request;

crate::pg::sql_function!(
    chainify_changed_keys,
    pg_finfo_chainify_changed_keys,
    changed_keys
);
crate::pg::sql_function!(
    chainify_put_keys_right,
    pg_finfo_chainify_put_keys_right,
    put_keys_right
);

/// Changes of a block in one table that are looked up one by one; of more a scan is not much
/// dearer.
const CHANGES_MAX: i64 = 10_000;

/// The keys being looked up.
const KEYS: &str = "pg_temp.chainify_keys";

/// A key: its table, its canonical bytes.
type Key = (i32, Vec<u8>);

/// Executes a block by `once`, in this process alone, and again with the rows that it changed put
/// right; None, and nothing done, when it has the hash `certified` neither way.
pub fn run<T>(
    request: &Request,
    certified: &[u8],
    once: &dyn Fn() -> (LedgerBlock, T),
) -> Option<(LedgerBlock, T)> {
    let first = attempt(|| {
        let (block, ran) = once();
        let hash = block.hash();
        match hash[..] == *certified {
            true => Ok((block, ran)),
            false => Err((hash, keys_changed(request.number))),
        }
    });
    let (found, (tables, keys)) = match first {
        Ok(done) => return Some(done),
        Err(other) => other,
    };
    if tables.is_empty() {
        return None;
    }
    attempt(|| {
        let put_right = put_right(request.number, &found, tables, keys);
        if put_right.is_empty() {
            return Err(());
        }
        let (block, ran) = once();
        match block.hash()[..] == *certified && put_right.is_subset(&changed()) {
            true => Ok((block, ran)),
            false => Err(()),
        }
    })
    .ok()
}

/// Runs `f` and undoes what it did when it says so; raises what it raises.
fn attempt<T, E>(f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let mut undone = None;
    let tried = subtransaction(|| {
        connected(f).map_err(|why| {
            undone = Some(why);
            PgError::new(b"XX000", "undone")
        })
    });
    match (tried, undone) {
        (Ok(done), _) => Ok(done),
        (Err(_), Some(why)) => Err(why),
        (Err(error), None) => error.raise(),
    }
}

/// Of the block just executed in this process.
fn changed() -> BTreeSet<Key> {
    effects::with(|effects| {
        let changes = effects.changes.iter();
        let key = |change: &Recorded| {
            let table = effects.leaves[change.leaf as usize].table.id;
            (table, effects.bytes(change.pk).to_vec())
        };
        changes.map(key).collect()
    })
}

/// The same as columns, by table.
fn keys_changed(number: i64) -> (Vec<i32>, Vec<JsonB>) {
    let sql = "SELECT table_id, keys FROM chainify_ledger.changed_keys($1)";
    let (mut tables, mut keys) = (Vec::new(), Vec::new());
    spi::query(sql, &[cell(number)], |row| {
        tables.push(row.must(1));
        keys.push(row.must(2));
    });
    (tables, keys)
}

fn put_right(number: i64, found: &Hash, tables: Vec<i32>, keys: Vec<JsonB>) -> BTreeSet<Key> {
    let sql = "SELECT table_id, key FROM chainify_ledger.put_keys_right($1, $2, $3, $4)";
    let arguments = [cell(number), cell(&found[..]), cell(tables), cell(keys)];
    let mut put_right = BTreeSet::new();
    spi::query(sql, &arguments, |row| {
        put_right.insert((row.must(1), row.must(2)));
    });
    put_right
}

/// `chainify_ledger.changed_keys(number)`: of each table the keys that block `number` changed, an
/// array of objects of texts. Tables with too many changes, or with a type of a user's in their
/// key, are left out: their keys are not looked up by an index.
fn changed_keys(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    row_bytes::forget();
    call.rows(|row| {
        spi::connect(|client| {
            for table in ledger_tables::all(client, Sees::Latest) {
                if let Some(keys) = keys_of(client, &table, number) {
                    row(&[cell(table.id), cell(keys)]);
                }
            }
        })
    })
}

fn keys_of(client: &SpiClient<'_>, table: &LedgerTable, number: i64) -> Option<JsonB> {
    let key: Vec<_> = table.columns.iter().filter(|column| column.key).collect();
    if table.unreadable().is_some() || !key.iter().all(|column| column.built_in) {
        return None;
    }
    let members: Vec<_> = key
        .iter()
        .map(|column| {
            format!(
                "{}, format('%s', h.{})",
                ledger_tables::literal(&column.name),
                column.quoted
            )
        })
        .collect();
    let sql = format!(
        "SELECT jsonb_agg(DISTINCT jsonb_build_object({})) FROM {} h WHERE h._block = $1 HAVING count(*) BETWEEN 1 AND $2",
        members.join(", "),
        table.history.as_deref().unwrap_or_default(),
    );
    Cursor::open(
        client,
        Sees::Latest,
        &sql,
        &[number.into(), CHANGES_MAX.into()],
    )
    .next_row()
    .and_then(|row| row.json(1))
}

/// `chainify_ledger.put_keys_right(number, found_hash, table_ids, keys)`: puts the rows of these
/// keys right for block `number`, records what differed, and returns their canonical keys.
fn put_keys_right(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let found: Vec<u8> = call.required(1, "found_hash");
    let ids: Vec<i32> = call.required(2, "table_ids");
    let keys: Vec<JsonB> = call.required(3, "keys");
    row_bytes::forget();
    let (mut put_right, mut cured) = (Vec::new(), Vec::new());
    unrecorded(|| {
        spi::connect(|client| {
            let tables = ledger_tables::all(client, Sees::Latest);
            for (id, keys) in ids.into_iter().zip(keys) {
                let Some(table) = tables.iter().find(|table| table.id == id) else {
                    continue; // attached by the block
                };
                stage(table, keys);
                let differing = table.differences_of(number - 1, KEYS);
                let keys = canonical(client, table, &differing);
                // R13: a row that is there and was not found; it is the index that has to be put
                // right.
                if !keys.is_empty()
                    && table_scans::keys_there(client, table, &missing(client, &differing))
                        .is_empty()
                {
                    put_right.extend(keys);
                    cured.extend(repair_rows(client, table, &differing, false));
                    scrub::soon(table);
                }
                connected(|| spi::execute(&format!("DROP TABLE {KEYS}"), &[]));
            }
        });
        deviations::record(&cured, number - 1, number, Some(found), "");
    });
    call.rows(|row| {
        put_right
            .iter()
            .for_each(|(table, key)| row(&[cell(*table), cell(&key[..])]))
    })
}

fn stage(table: &LedgerTable, keys: JsonB) {
    let key = table.columns.iter().filter(|column| column.key);
    let key: Vec<_> = key.map(|column| column.quoted.as_str()).collect();
    let key = key.join(", ");
    connected(|| {
        let make = format!(
            "CREATE TEMPORARY TABLE chainify_keys ON COMMIT DROP AS SELECT {key} FROM {} WITH NO DATA",
            table.live_name()
        );
        spi::execute(&make, &[]);
        let fill = format!(
            "INSERT INTO {KEYS} SELECT r.* FROM jsonb_populate_recordset(NULL::{KEYS}, $1) r"
        );
        spi::execute(&fill, &[cell(keys)]);
        spi::execute(&format!("ANALYZE {KEYS}"), &[]);
    });
}

/// The canonical keys for which no row was found.
fn missing(client: &SpiClient<'_>, differing: &str) -> HashSet<Vec<u8>> {
    let sql = format!("SELECT k FROM ({differing}) d WHERE place IS NULL");
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    let mut keys = HashSet::new();
    while let Some(row) = rows.next_row() {
        keys.extend(row.bytes(1));
    }
    keys
}

fn canonical(client: &SpiClient<'_>, table: &LedgerTable, differing: &str) -> Vec<Key> {
    let sql = format!("SELECT DISTINCT k FROM ({differing}) d");
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    let mut keys = Vec::new();
    while let Some(row) = rows.next_row() {
        keys.push((table.id, row.bytes(1).unwrap_or_default()));
    }
    keys
}
