//! Indexes beside their tables. What hashes say of rows was read from the tables; a block finds rows by indexes, so one that misses a row,
//! or finds it under a key that it has no longer, makes an organisation deviate whose rows are all as agreed.

use crate::pg::base::spi::SpiClient;
use pgrx::pg_sys;
use pgrx::JsonB;
use serde_json::{json, Value};

use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::live_state;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::run::index_check;
use crate::pg::run::index_check::Compared;
use crate::recovery::deviations::Cured;
use crate::recovery::repair::{certified_header, locked, same};
use crate::recovery::scrub;
use crate::verify::table::Finding;

/// An index of a relation that holds rows.
struct Index {
    oid: pg_sys::Oid,
    table: pg_sys::Oid,
    /// Quoted, with its schema.
    name: String,
    owner: String,
    /// What keeps PostgreSQL from telling it of rows, or from asking it, if anything.
    left_out: Option<String>,
    is_unique: bool,
    /// Of a primary key or a unique constraint, which says what it has to be.
    of_constraint: bool,
}

/// What is wrong with an index.
pub struct Defect {
    index: Index,
    expected: Value,
    found: Value,
}

impl Defect {
    pub fn finding(self) -> Finding {
        Finding {
            what: "index",
            key: Some(JsonB(json!({ "index": self.index.name }))),
            expected: Some(JsonB(self.expected)),
            found: Some(JsonB(self.found)),
        }
    }
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Defect {
            index,
            expected,
            found,
        } = self;
        write!(f, "{}: expected {expected}, found {found}", index.name)
    }
}

const INDEXES: &str = "
    SELECT i.indexrelid::int8, i.indrelid::int8, q.name, pg_get_userbyid(r.relowner)::text,
        CASE WHEN NOT r.relhasindex THEN 'hidden by pg_class.relhasindex' WHEN NOT i.indislive THEN 'not live'
            WHEN NOT i.indisready THEN 'not ready' WHEN NOT i.indisvalid THEN 'not valid' WHEN k.oid IS NULL THEN NULL
            WHEN NOT i.indisunique THEN 'not unique' WHEN NOT i.indimmediate THEN 'not checked at once'
            WHEN i.indisprimary <> (k.contype = 'p') THEN 'not as its constraint is'
            WHEN array_to_string(k.conkey, ' ') <> array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ' ') THEN 'of other columns' END,
        i.indisunique OR k.oid IS NOT NULL, k.oid IS NOT NULL
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class r ON r.oid = i.indrelid
    LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u') AND NOT k.condeferrable
    CROSS JOIN LATERAL format('%I.%I', n.nspname, c.relname) q (name)
    WHERE i.indrelid = $1 AND c.relkind = 'i' ORDER BY q.name COLLATE \"C\"";

fn of_relation(client: &SpiClient<'_>, sees: Sees, relation: pg_sys::Oid) -> Vec<Index> {
    let oid = |number: Option<i64>| pg_sys::Oid::from(number.unwrap_or_default() as u32);
    let mut rows = Cursor::open(client, sees, INDEXES, &[relation.into()]);
    let mut indexes = Vec::new();
    while let Some(row) = rows.next_row() {
        indexes.push(Index {
            oid: oid(row.bigint(1)),
            table: oid(row.bigint(2)),
            name: row.text(3).unwrap_or_default(),
            owner: row.text(4).unwrap_or_default(),
            left_out: row.text(5),
            is_unique: row.boolean(6).unwrap_or_default(),
            of_constraint: row.boolean(7).unwrap_or_default(),
        });
    }
    indexes
}

/// The relations of a table that are read by their indexes: those that hold its rows, and the base of its checkpoints.
pub fn read_by_index(client: &SpiClient<'_>, sees: Sees, table: &LedgerTable) -> Vec<pg_sys::Oid> {
    let mut relations = table.leaves(client, sees);
    relations.push(table.base);
    relations
}

/// The ledger's own tables.
pub fn of_ledger(client: &SpiClient<'_>, sees: Sees) -> Vec<pg_sys::Oid> {
    let sql = "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'chainify_ledger' AND c.relkind = 'r' ORDER BY c.relname";
    let mut rows = Cursor::open(client, sees, sql, &[]);
    let mut relations = Vec::new();
    while let Some(row) = rows.next_row() {
        relations.push(pg_sys::Oid::from(row.bigint(1).unwrap_or_default() as u32));
    }
    relations
}

/// Indexes of these relations that do not find the rows, each once, that a scan does. `pace` is told of each row read. Cost: one scan of each
/// relation for each of its indexes, and one of that. Not compared are hash, GIN and BRIN indexes, beyond whether they are in use.
pub fn defects(
    client: &SpiClient<'_>,
    sees: Sees,
    relations: &[pg_sys::Oid],
    pace: &mut dyn FnMut(),
) -> Vec<Defect> {
    let mut defects = Vec::new();
    for relation in relations {
        for index in of_relation(client, sees, *relation) {
            if let Some((expected, found)) = look(&index, sees, pace) {
                defects.push(Defect {
                    index,
                    expected,
                    found,
                });
            }
        }
    }
    defects
}

fn look(index: &Index, sees: Sees, pace: &mut dyn FnMut()) -> Option<(Value, Value)> {
    if let Some(left_out) = &index.left_out {
        return Some((json!("in use"), json!(left_out)));
    }
    // Its conditions and comparisons may be a user's. Class XX: what PostgreSQL says of an index that it cannot read.
    let compared = match Role::find(&index.owner) {
        None => return None, // the role was just dropped with its tables
        Some(owner) => subtransaction(|| {
            Ok(owner.run(|| index_check::compare(index.table, index.oid, sees, pace)))
        }),
    };
    match compared {
        Ok(Some(Compared::Differs(other))) => {
            let mut found = json!({ "rows": other.found });
            for (what, many) in [("wrong", other.wrong), ("disordered", other.disordered)] {
                if many > 0 {
                    found[what] = json!(many);
                }
            }
            Some((json!({ "rows": other.rows }), found))
        }
        Ok(_) => None,
        Err(error) if error.sqlstate.as_str().starts_with("XX") => {
            Some((json!("readable"), json!(error.message)))
        }
        Err(error) => error.raise(),
    }
}

/// The step of recovery before rows: indexes that are not as their tables are built anew. Those of ledger tables that cannot be compared are,
/// too, while a block waits for it: something made it come out otherwise. Returns what was built anew; nothing is said of rows. Cost: two scans of each
/// relation for each of its indexes; the locks that building one takes.
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

/// The relations of a table whose rows are all there as they should be, so that it may be an index that cannot be compared. Where they are
/// not, rows come first.
fn unseen(client: &SpiClient<'_>, table: &LedgerTable) -> Vec<pg_sys::Oid> {
    let leaves = table.leaves(client, Sees::Latest);
    let as_running = || {
        let live = live_state(client, table);
        table
            .running_state()
            .is_some_and(|running| same(table, &running, &live))
    };
    match not_compared(client, &leaves).is_empty() || !as_running() {
        true => Vec::new(),
        false => leaves,
    }
}

/// Of each index of these relations that is to be built anew, and of those of `unseen` that cannot be compared, what was cured; None where rows that are there twice forbid it.
fn rebuilt(
    client: &SpiClient<'_>,
    of: &str,
    relations: &[pg_sys::Oid],
    unseen: &[pg_sys::Oid],
) -> Result<Vec<Option<Cured>>, PgError> {
    let mut wanted = defects(client, Sees::Latest, relations, &mut || ());
    wanted.extend(not_compared(client, unseen));
    let rebuilt = wanted.into_iter().map(|defect| {
        let done = rebuild(&defect.index)?;
        Ok(done.then(|| Cured::of_finding(of, defect.finding())))
    });
    rebuilt.collect()
}

/// Indexes of kinds that are not compared.
fn not_compared(client: &SpiClient<'_>, relations: &[pg_sys::Oid]) -> Vec<Defect> {
    let sql = "SELECT a.amname::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
        WHERE c.oid = $1 AND a.amname IN ('hash', 'gin', 'brin')";
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
        let found = json!(format!("of kind {}, not compared", kind(&index)?));
        let unused = index.left_out.is_some(); // found as such
        (!unused).then_some(Defect {
            index,
            expected: json!("in use"),
            found,
        })
    };
    indexes.into_iter().filter_map(as_defect).collect()
}

/// What the constraint says of its index. The columns that it includes beside stay as they are.
const AS_CONSTRAINT: &str = "
    UPDATE pg_catalog.pg_index i SET indisunique = true, indimmediate = true, indisprimary = k.contype = 'p',
        indkey = pg_catalog.array_to_string(k.conkey || (i.indkey::int2[])[i.indnkeyatts:], ' ')::int2vector
    FROM pg_catalog.pg_constraint k
    WHERE i.indexrelid = $1 AND k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
        AND NOT k.condeferrable AND pg_catalog.cardinality(k.conkey) = i.indnkeyatts";

/// Builds an index anew; false when rows that are there twice forbid it: they have to be put right first. PostgreSQL runs what users
/// wrote as the table's owner.
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
