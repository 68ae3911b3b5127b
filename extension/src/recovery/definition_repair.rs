//! The step of recovery that restores definitions: those of tables part by part, and those of other
//! deployed objects from the text that the ledger keeps. Rows are looked at only where one of them
//! keeps a constraint from being made.
//!
//! Invariant R12: a definition is compared with the certified state root before it is restored, and
//! again at the end. Statements that may run a user's code run as the owner of the table or object.

use pgrx::JsonB;
use serde_json::{json, Value};

use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::Scan;
use crate::ledger::{definitions, triggers};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::relation::quoted;
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::planner::block_settings::under_path;
use crate::recovery::certified::{
    are_certified, beyond_repair, certified_header, check_definitions, check_schema,
};
use crate::recovery::cured::Cured;
use crate::recovery::row_repair::put_rows_right;
use crate::recovery::scrub;
use crate::verify::finding::Finding;

/// One statement that puts something back.
pub struct Repair {
    pub of: String,
    /// The role that runs it; None: the extension's owner, a statement that runs nothing of a
    /// user's.
    owner: Option<String>,
    /// Where it makes something, for which its owner may lack the right by now.
    schema: String,
    key: Value,
    expected: Option<String>,
    found: Option<String>,
    pub statement: String,
    /// It takes away what is not to be there.
    takes_away: bool,
}

/// Puts definitions back and returns what was not as it has to be; CH002 when that cannot be had,
/// and nothing is changed. Cost: the texts of all definitions; where one is wrong, that of the
/// statements.
pub fn put_back(
    client: &SpiClient<'_>,
    number: i64,
    certified: &[u8],
) -> Result<Vec<Cured>, PgError> {
    let header = certified_header(client, number, certified)?;
    let tables = ledger_tables::all(client, Sees::Latest);
    let other = tables.iter().any(|table| {
        let hash = table.live_schema_hash(client, Sees::Latest);
        hash.as_ref() != Some(&table.schema_hash)
    });
    let mut cured = of_triggers(client, &tables);
    cured.extend(of_definitions(client));
    if cured.is_empty() && !other {
        return Ok(cured);
    }
    let running: Option<Vec<_>> = tables.iter().map(LedgerTable::running_state).collect();
    let shown = running.is_some_and(|s| are_certified(client, &tables, s.iter(), &header))
        || told_is_certified(client, &tables, number, &header);
    if !shown || !definitions::are_kept_as_hashed(client) {
        return Err(beyond_repair(
            "What is kept of the definitions cannot be shown to be what was agreed.".into(),
        ));
    }
    lock(&tables);
    of_objects(client).iter().try_for_each(Repair::run)?;
    spi::connected(|| spi::query("SELECT chainify_ledger.find_definitions()", &[], |_| ()));
    let (extra, missing): (Vec<_>, Vec<_>) =
        of_tables(client).into_iter().partition(|r| r.takes_away);
    extra.iter().try_for_each(Repair::run)?;
    make(client, number, &tables, &missing)?;
    cured.extend(extra.iter().chain(&missing).map(Repair::cured));
    cured.extend(enable_foreign_keys());
    for table in &tables {
        if !triggers::defects(client, Sees::Latest, table).is_empty() {
            triggers::restore(table);
        }
        check_schema(client, table)?;
    }
    check_definitions(client)?;
    Ok(cured)
}

/// Nobody else changes rows meanwhile. Queries over the tables use no indexes, and nothing looks
/// into functions.
fn lock(tables: &[LedgerTable]) {
    spi::connected(|| {
        for table in tables.iter().filter(|table| table.live.is_some()) {
            let name = table.live_name();
            spi::execute(
                &format!("LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE"),
                &[],
            );
        }
        spi::execute("SET LOCAL check_function_bodies = off", &[]);
    });
}

fn of_triggers(client: &SpiClient<'_>, tables: &[LedgerTable]) -> Vec<Cured> {
    let of = |table: &LedgerTable| {
        let defects = triggers::defects(client, Sees::Latest, table);
        let cured = |defect: triggers::Defect| {
            Cured::of_table(table, json!(defect.expected), json!(defect.found))
        };
        defects.into_iter().map(cured).collect::<Vec<_>>()
    };
    tables.iter().flat_map(of).collect()
}

fn of_definitions(client: &SpiClient<'_>) -> Vec<Cured> {
    let defects = definitions::defects(client, Sees::Latest);
    let finding = |defect| Cured::of_finding("definitions", scrub::of_definition(defect));
    defects.into_iter().map(finding).collect()
}

fn enable_foreign_keys() -> Vec<Cured> {
    let sql = "SELECT tbl, trigger FROM chainify_ledger.enable_foreign_keys()";
    let mut cured = Vec::new();
    let mut add = |of: String, trigger: String| {
        let finding = Finding {
            what: "definition",
            key: Some(JsonB(json!({ "object": format!("table {of}") }))),
            expected: Some(JsonB(json!("foreign keys that are checked"))),
            found: Some(JsonB(json!(trigger))),
        };
        cured.push(Cured::of_finding(&of, finding));
    };
    spi::connected(|| spi::query(sql, &[], |row| add(row.must(1), row.must(2))));
    cured
}

fn told_is_certified(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    number: i64,
    header: &chainify_ledger::audit::StoredBlock,
) -> bool {
    if tables.iter().any(|table| table.unreadable().is_some()) {
        return false;
    }
    let told: Vec<_> = tables
        .iter()
        .map(|table| Scan::told(client, table, number).state)
        .collect();
    are_certified(client, tables, told.iter(), header)
}

/// Makes what is missing. Rows that a constraint does not let in are not those agreed: they are put
/// right first.
fn make(
    client: &SpiClient<'_>,
    number: i64,
    tables: &[LedgerTable],
    missing: &[Repair],
) -> Result<(), PgError> {
    let refused = match subtransaction(|| missing.iter().try_for_each(Repair::run)) {
        Err(error) if error.sqlstate.as_str().starts_with("23") => error,
        other => return other,
    };
    if let Some(why) = tables.iter().find_map(LedgerTable::unreadable) {
        return Err(beyond_repair(format!("{}: {why}.", refused.message)));
    }
    for table in tables {
        let told = Scan::told(client, table, number);
        put_rows_right(client, table, &table.expected_rows(number), &told)?;
    }
    missing.iter().try_for_each(Repair::run)
}

impl Repair {
    pub fn cured(&self) -> Cured {
        let text = |text: &Option<String>| text.as_ref().map(|text| JsonB(json!(text)));
        let finding = Finding {
            what: "definition",
            key: Some(JsonB(self.key.clone())),
            expected: text(&self.expected),
            found: text(&self.found),
        };
        Cured::of_finding(&self.of, finding)
    }

    /// Runs it, with the right to make something there while it does. The statement is read under
    /// the path of own SQL. Functions that it calls may name their helpers without a schema, as in
    /// a block: then it runs again under a block's path. The state root decides whether the
    /// definition is the one agreed on (R12).
    pub fn run(&self) -> Result<(), PgError> {
        let qualified = |sql: &str| {
            spi::connected(|| spi::execute(sql, &[]));
        };
        let in_block =
            |sql: &str| spi::connected(|| under_path(|| spi::as_caller(sql, &[], |_| ())));
        run_as_owner(self, &qualified)
            .or_else(|error| match error.sqlstate.as_str() {
                // An undefined function, table or other object.
                "42883" | "42P01" | "42704" => run_as_owner(self, &in_block),
                _ => Err(error),
            })
            .map_err(|error| match error.sqlstate.as_str() {
                state if state.starts_with("23") || state.starts_with("57") => error,
                _ => beyond_repair(format!(
                    "{} cannot be put back: {}.",
                    self.key, error.message
                )),
            })
    }
}

fn run_as_owner(repair: &Repair, as_owner: &dyn Fn(&str)) -> Result<(), PgError> {
    subtransaction(|| {
        let execute = |sql: &str| spi::connected(|| spi::execute(sql, &[]));
        let Some(owner) = &repair.owner else {
            execute(&repair.statement);
            return Ok(());
        };
        let role = Role::find(owner)
            .ok_or_else(|| beyond_repair(format!("There is no role \"{owner}\" any more.")))?;
        let granted = !may_create(&repair.schema, owner);
        let (schema, to) = (quoted(&repair.schema), quoted(owner));
        if granted {
            execute(&format!("GRANT CREATE, USAGE ON SCHEMA {schema} TO {to}"));
        }
        role.run(|| as_owner(&repair.statement));
        if granted {
            execute(&format!("REVOKE CREATE ON SCHEMA {schema} FROM {to}"));
        }
        Ok(())
    })
}

fn may_create(schema: &str, role: &str) -> bool {
    let sql = "SELECT has_schema_privilege($1, $2, 'CREATE')";
    let mut may = false;
    let arguments = [cell(role.to_owned()), cell(schema.to_owned())];
    spi::connected(|| spi::query(sql, &arguments, |row| may = row.must(1)));
    may
}

/// Parts of tables that are to go, and indexes to be made that may refuse rows: all that a
/// definition has alone and that would show, table by table.
pub fn surplus(client: &SpiClient<'_>) -> Vec<Repair> {
    let index = |repair: &Repair| {
        let expected = repair.expected.as_deref();
        expected.is_some_and(|line| line.starts_with("index "))
    };
    let mut repairs = of_tables(client);
    repairs.retain(|repair| repair.takes_away || index(repair));
    repairs.sort_by(|a, b| a.of.cmp(&b.of)); // stable: what is to go stays first
    repairs
}

/// Parts of tables, what is to go first.
fn of_tables(client: &SpiClient<'_>) -> Vec<Repair> {
    let sql = "SELECT r.tbl, r.owner, n.nspname::text, r.expected, r.found, r.statement
        FROM chainify_ledger.schema_repairs() r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY r.place";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    let mut repairs = Vec::new();
    while let Some(row) = rows.next_row() {
        let (of, found) = (row.text(1).unwrap_or_default(), row.text(5));
        repairs.push(Repair {
            key: json!({ "object": format!("table {of}") }),
            of,
            owner: row.text(2),
            schema: row.text(3).unwrap_or_default(),
            expected: row.text(4),
            takes_away: found.is_some(),
            found,
            statement: row.text(6).unwrap_or_default(),
        });
    }
    repairs
}

/// The objects that DEPLOY transactions made.
fn of_objects(client: &SpiClient<'_>) -> Vec<Repair> {
    let sql = "SELECT object, schema, owner, statement FROM chainify_ledger.definition_repairs()";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    let mut repairs = Vec::new();
    while let Some(row) = rows.next_row() {
        repairs.push(Repair {
            of: "definitions".into(),
            key: json!({ "object": row.text(1).unwrap_or_default() }),
            schema: row.text(2).unwrap_or_default(),
            owner: row.text(3),
            expected: None,
            found: None,
            statement: row.text(4).unwrap_or_default(),
            takes_away: false,
        });
    }
    repairs
}
