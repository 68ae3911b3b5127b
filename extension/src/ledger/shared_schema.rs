//! Tables in the words that all database engines share (spec/engines.md, "Schema text 2"), read
//! from PostgreSQL's catalogues. The text itself is made in `chainify_codec::schema`.
use chainify_codec::schema::{
    schema_hash_2, schema_text_2, Column, ForeignKey, OnDelete, Table, Undescribed,
};
use chainify_sqltext::{check, constant, logical_type, Constant};

use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi::{connected, query, query_once};

crate::pg::sql_function!(
    chainify_shared_schema_text,
    pg_finfo_chainify_shared_schema_text,
    text
);
crate::pg::sql_function!(
    chainify_shared_schema_hash,
    pg_finfo_chainify_shared_schema_hash,
    hash
);

/// Why tables of this block cannot be attached with ENCODING 2.
pub fn obstacle(block: i64) -> Option<String> {
    let mut why = None;
    let sql = "SELECT chainify_ledger.shared_obstacle($1)";
    query(sql, &[cell(block)], |row| why = row.get(1));
    why
}

/// `shared_schema_hash(text)` of a schema text 2.
fn hash(call: &mut Call) -> Answer {
    let text: String = call.required(0, "schema text");
    call.value(&schema_hash_2(&text)[..])
}

/// `shared_schema_text(version)`: of a version of a table as the catalogues have it now. Errors:
/// 0A000.
fn text(call: &mut Call) -> Answer {
    let version: i32 = call.required(0, "version");
    let text = connected(|| text_of(version).or_raise());
    call.value(text)
}

fn text_of(version: i32) -> Result<String, PgError> {
    let mut table = Table::default();
    let (mut relation, mut part) = (String::new(), None);
    let sql = "SELECT name, relation::text, chainify_ledger.undescribed_part(relation)
        FROM chainify_ledger.ledger_table WHERE id = $1";
    query(sql, &[cell(version)], |row| {
        (table.name, relation, part) = (row.must(1), row.must(2), row.get::<String>(3));
    });
    let refused = |name: &str, part: &str| {
        let message =
            format!("table \"{name}\" cannot be put on the ledger with ENCODING 2: {part}");
        PgError::new(b"0A000", message)
    };
    if let Some(part) = part {
        return Err(refused(&table.name, &part));
    }
    let defaults = read_columns(version, &mut table);
    read_keys(version, &mut table);
    let checks = read_checks(version);
    let described = |table: &Table| {
        schema_text_2(table).map_err(|Undescribed(part)| refused(&table.name, &part))
    };
    let text = described(&table)?; // types of PostgreSQL's own, whose input functions may run
    if defaults.is_empty() && checks.is_empty() {
        return Ok(text);
    }
    for (name, expression) in checks {
        let typed = |column: &Column, text: &str| encoded(version, &relation, column, text);
        let read = check(&expression, &table.columns, typed);
        let named = |why| refused(&table.name, &format!("check \"{name}\": {why}"));
        table.checks.push(read.map_err(named)?);
    }
    for (at, expression, words) in defaults {
        let column = &table.columns[at];
        let constant = constant(&expression, &words).ok_or_else(|| {
            let part = format!("column {} with the default {expression}", column.name);
            refused(&table.name, &part)
        })?;
        if let Constant::Text(text) = constant {
            table.columns[at].default = encoded(version, &relation, column, &text);
        }
    }
    described(&table)
}

/// A column with a default: its place, the expression, and its type without length and precision.
type Default = (usize, String, String);

fn read_columns(version: i32, table: &mut Table) -> Vec<Default> {
    let mut defaults = Vec::new();
    let sql = "SELECT c.ordinal, c.name, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            pg_get_expr(d.adbin, d.adrelid), format_type(a.atttypid, NULL)
        FROM chainify_ledger.ledger_column c JOIN chainify_ledger.ledger_table t ON t.id = c.table_id
        JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum = c.attnum
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.table_id = $1 ORDER BY c.ordinal";
    query(sql, &[cell(version)], |row| {
        if let Some(expression) = row.get(5) {
            defaults.push((table.columns.len(), expression, row.must(6)));
        }
        table.columns.push(Column {
            ordinal: row.must::<i16>(1) as u16,
            name: row.must(2),
            logical: logical_type(&row.must::<String>(3)),
            not_null: row.must(4),
            default: None,
        });
    });
    defaults
}

fn read_keys(version: i32, table: &mut Table) {
    let sql = "SELECT i.indisprimary, ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k (attnum, place)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place)
        FROM pg_index i JOIN chainify_ledger.ledger_table t ON t.relation = i.indrelid WHERE t.id = $1 AND i.indisunique";
    query(sql, &[cell(version)], |row| match row.must(1) {
        true => table.primary_key = row.must(2),
        false => table.unique.push(row.must(2)),
    });
    let sql = "SELECT n.nspname || '.' || r.relname,
            ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u (attnum, place)
                JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum ORDER BY u.place),
            ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u (attnum, place)
                JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.attnum ORDER BY u.place),
            k.confdeltype::text
        FROM pg_constraint k JOIN chainify_ledger.ledger_table t ON t.relation = k.conrelid
        JOIN pg_class r ON r.oid = k.confrelid JOIN pg_namespace n ON n.oid = r.relnamespace
        WHERE t.id = $1 AND k.contype = 'f'";
    query(sql, &[cell(version)], |row| {
        table.foreign_keys.push(ForeignKey {
            table: row.must(1),
            columns: row.must(2),
            refers: row.must(3),
            on_delete: match row.must::<String>(4).as_str() {
                "c" => OnDelete::Cascade,
                "n" => OnDelete::SetNull,
                _ => OnDelete::Refuse,
            },
        })
    });
}

/// The names and expressions of checks. The order is for messages alone.
fn read_checks(version: i32) -> Vec<(String, String)> {
    let mut checks = Vec::new();
    let sql = "SELECT k.conname::text, pg_get_expr(k.conbin, k.conrelid)
        FROM pg_constraint k JOIN chainify_ledger.ledger_table t ON t.relation = k.conrelid
        WHERE t.id = $1 AND k.contype = 'c' ORDER BY k.conname COLLATE \"C\"";
    query(sql, &[cell(version)], |row| {
        checks.push((row.must(1), row.must(2)))
    });
    checks
}

/// The bytes of a row before its first value: the number of columns, and the ordinal.
const ROW_HEAD: usize = 4;

/// A default as the column has it, encoded. Raises what the input function of its type raises.
fn encoded(version: i32, relation: &str, column: &Column, text: &str) -> Option<Vec<u8>> {
    let sql = format!(
        "SELECT chainify_ledger.encoded_row($1, jsonb_populate_record(NULL::{relation},
            jsonb_build_object($2, CASE WHEN $3 THEN $4::jsonb ELSE to_jsonb($4) END)))"
    );
    let json = column.logical == "json";
    let args = [
        cell(version),
        cell(column.name.clone()),
        cell(json),
        cell(text.to_owned()),
    ];
    let mut row: Option<Vec<u8>> = None;
    query_once(&sql, &args, |found| row = found.get(1));
    row.map(|row| row[ROW_HEAD.min(row.len())..].to_vec())
}
