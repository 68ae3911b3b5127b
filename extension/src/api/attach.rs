//! Puts tables on the ledger and takes them off: transactions of kind DEPLOY.
//!
//! The checks and the DDL are in `chainify_ledger.attach_tables` and `detach_tables` (extension/sql/30_attach.sql).
use chainify_codec::Lanes;
use pgrx::pg_sys::Oid;

use super::deploy::At;
use super::tables;
use super::transaction::Outcome;
use crate::pg::encode::{LedgerColumn, RowEncoder};
use crate::pg::error::{attempt, OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call};
use crate::pg::relation::{Lock, Relation};
use crate::pg::spi::query;

crate::sql_function!(
    chainify_scan_state,
    pg_finfo_chainify_scan_state,
    scan_state
);
crate::sql_function!(
    chainify_announce_tables,
    pg_finfo_chainify_announce_tables,
    announce
);
crate::sql_function!(
    chainify_schema_hash,
    pg_finfo_chainify_schema_hash,
    schema_hash
);
crate::sql_function!(chainify_settled, pg_finfo_chainify_settled, settled);

/// The reason is in the detail; an outcome keeps the message alone.
fn with_reason(mut error: PgError) -> PgError {
    if let Some(detail) = error.detail.take_if(|_| error.sqlstate.as_str() == "CH005") {
        error.message = format!("{}: {detail}", error.message);
    }
    error
}

/// Whether the text is a command of this module rather than SQL.
pub fn is_command(sql: &str) -> bool {
    let first = word(&mut sql.trim());
    matches!(first.as_deref(), Some("attach" | "detach"))
}

/// Runs `ATTACH TABLE a.b, …` or `DETACH TABLE a.b, …`.
pub fn deploy(sql: &str, at: At) -> Outcome {
    let command = Command::parse(sql)?;
    let statement = match command.verb {
        Verb::Attach => "SELECT chainify_ledger.attach_tables($1, $2, $3, $4)",
        Verb::Detach => "SELECT chainify_ledger.detach_tables($1, $2, $3, $4)",
    };
    let (schemas, names) = command
        .tables
        .into_iter()
        .unzip::<String, String, Vec<_>, Vec<_>>();
    let count = names.len() as u64;
    let args = [
        cell(schemas),
        cell(names),
        cell(at.block),
        cell(at.tx as i32),
    ];
    attempt(|| query(statement, &args, |_| ())).map_err(with_reason)?;
    Ok(count)
}

/// Tables of one command.
const TABLES_MAX: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Attach,
    Detach,
}

#[derive(Debug)]
struct Command {
    verb: Verb,
    /// Schema and name.
    tables: Vec<(String, String)>,
}

fn syntax() -> PgError {
    PgError::new(
        b"42601",
        "neither ATTACH TABLE nor DETACH TABLE with a list of tables",
    )
    .hint("Write ATTACH TABLE schema.table, … with names quoted as SQL does.")
}

impl Command {
    fn parse(sql: &str) -> Result<Command, PgError> {
        let mut rest = sql.trim();
        let verb = match word(&mut rest).as_deref() {
            Some("attach") => Verb::Attach,
            Some("detach") => Verb::Detach,
            _ => return Err(syntax()),
        };
        if word(&mut rest).as_deref() != Some("table") {
            return Err(syntax());
        }
        let mut tables = Vec::new();
        loop {
            let schema = word(&mut rest).ok_or_else(syntax)?;
            symbol(&mut rest, '.').ok_or_else(syntax)?;
            tables.push((schema, word(&mut rest).ok_or_else(syntax)?));
            if symbol(&mut rest, ',').is_none() {
                break;
            }
        }
        if !rest.is_empty() || tables.len() > TABLES_MAX {
            return Err(syntax());
        }
        Ok(Command { verb, tables })
    }
}

/// Takes the symbol, if it comes next.
pub(super) fn symbol(rest: &mut &str, symbol: char) -> Option<()> {
    *rest = rest.strip_prefix(symbol)?.trim_start();
    Some(())
}

/// A plain word in lower case, or a quoted one as it stands.
pub(super) fn word(rest: &mut &str) -> Option<String> {
    let (word, length) = if let Some(quoted) = rest.strip_prefix('"') {
        let mut end = 0;
        loop {
            end += quoted[end..].find('"')?;
            if !quoted[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        (quoted[..end].replace("\"\"", "\""), end + 2)
    } else {
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
            .unwrap_or(rest.len());
        (rest[..end].to_lowercase(), end)
    };
    if word.is_empty() {
        return None;
    }
    *rest = rest[length..].trim_start();
    Some(word)
}

/// `scan_state(relations oid[], name text, columns text[], ordinals smallint[])`: row count and lanes of a full scan of the
/// relations that hold the table's rows.
fn scan_state(call: &mut Call) -> Answer {
    let (relations, name): (Vec<Oid>, String) =
        (call.required(0, "relations"), call.required(1, "name"));
    let (names, ordinals): (Vec<String>, Vec<i16>) =
        (call.required(2, "columns"), call.required(3, "ordinals"));
    let columns: Vec<_> = names
        .into_iter()
        .zip(ordinals)
        .map(|(name, o)| LedgerColumn {
            ordinal: o as u16,
            name,
            key: false,
        })
        .collect();
    let hasher = chainify_codec::LaneHasher::new(&name);
    let (mut lanes, mut rows, mut row) = (Lanes::zero(), 0i64, Vec::new());
    for relation in relations {
        let relation = Relation::open(relation, Lock::AccessShare);
        let encoder = RowEncoder::new(&relation, &columns).or_raise();
        relation.scan(|tuple| {
            row.clear();
            encoder.row(tuple, &mut row);
            hasher.add(&mut lanes, &row);
            rows += 1;
        });
    }
    call.record(&[cell(rows), cell(&lanes.to_bytes()[..])])
}

/// `announce_tables()`: the list of ledger tables changed.
fn announce(call: &mut Call) -> Answer {
    tables::announce_change();
    call.void()
}

/// `settled(text)` of the text of a definition: the same before and after pg_restore.
fn settled(call: &mut Call) -> Answer {
    let text: String = call.required(0, "text");
    call.value(chainify_sqltext::settled(&text))
}

/// `schema_hash(text)` of a schema text.
fn schema_hash(call: &mut Call) -> Answer {
    let text: String = call.required(0, "schema text");
    call.value(&chainify_codec::schema_hash(&text)[..])
}
