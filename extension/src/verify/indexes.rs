//! Compares indexes with their tables. Hashes cover the rows of the tables, but a block finds rows
//! by indexes. So an index that misses a row, or finds it under an old key, makes an organisation
//! deviate although all its rows are as agreed.

use pgrx::pg_sys;
use pgrx::JsonB;
use serde_json::{json, Value};

use crate::ledger::ledger_tables::LedgerTable;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::role::Role;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::indexes::check as index_check;
use crate::pg::indexes::check::Compared;
use crate::verify::finding::Finding;

/// An index of a relation that holds rows.
pub struct Index {
    pub oid: pg_sys::Oid,
    pub table: pg_sys::Oid,
    /// Quoted, with its schema.
    pub name: String,
    pub owner: String,
    /// The reason why PostgreSQL does not tell it of rows, or does not ask it, if there is one.
    pub left_out: Option<String>,
    pub is_unique: bool,
    /// Of a primary key or a unique constraint, which says what it has to be.
    pub of_constraint: bool,
}

/// The faults of an index.
pub struct Defect {
    pub index: Index,
    pub expected: Value,
    pub found: Value,
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

/// The indexes of a relation, by name.
pub fn of_relation(client: &SpiClient<'_>, sees: Sees, relation: pg_sys::Oid) -> Vec<Index> {
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

/// The relations of a table that are read by their indexes: those that hold its rows, and the base
/// of its checkpoints.
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

/// Indexes of these relations that do not find the rows, each once, that a scan does. `pace` is
/// told of each row read. Cost: as [`index_check::compare`] for each index. GIN and
/// BRIN indexes are asked for some rows only.
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
    // Its conditions and comparisons may be a user's. Class XX: what PostgreSQL says of an index
    // that it cannot read.
    let compared = match Role::find(&index.owner) {
        None => return None, // the role was just dropped with its tables
        Some(owner) => subtransaction(|| {
            Ok(owner.run(|| index_check::compare(index.table, index.oid, sees, pace)))
        }),
    };
    match compared {
        Ok(Some(Compared::Differs(other))) => {
            let mut found = json!({ "rows": other.found });
            for (what, many) in [
                ("wrong", other.wrong),
                ("disordered", other.disordered),
                ("not by value", other.not_by_value),
            ] {
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
