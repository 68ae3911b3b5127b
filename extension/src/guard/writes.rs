//! Refuses writes and DDL on ledger tables outside a block (X3). Inside a block it refuses the
//! statements that a ledger transaction may not run.
use pgrx::pg_sys::{self, Oid};

use crate::block::restored;
use crate::definitions::deploy;
use crate::guard::definitions;
use crate::guard::stale_reads;
use crate::ledger::tables;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::relation::{ColumnDef, Lock, Relation};
use crate::pg::base::settings;
use crate::pg::base::{catalog, version};
use crate::pg::hooks;
use crate::pg::hooks::{Access, Change, Ddl, Statements, Utility};
use crate::pg::session_transaction::{self, kept_locks};
use crate::pg::tree::parse::not_allowed;
use crate::rules::{determinism, relations};
use crate::sequences;
use crate::session::plain_sql;
use crate::session::reads;

const PG_CLASS: u32 = 1259;
const PG_CONSTRAINT: u32 = 2606;
/// pgrx names these functions by their arguments, of which they have one more since 17.
const PG_LOGICAL_EMIT_TEXT: u32 = 3577;
const PG_LOGICAL_EMIT_BYTES: u32 = 3578;

/// Functions that take an advisory lock of the transaction; their numbers follow each other.
const LOCKING: std::ops::RangeInclusive<u32> =
    pg_sys::F_PG_ADVISORY_XACT_LOCK_INT8..=pg_sys::F_PG_TRY_ADVISORY_XACT_LOCK_SHARED_INT4_INT4;

/// The answers for the hooks.
pub const STATEMENTS: Statements = Statements {
    wanted,
    relation,
    utility,
    ddl,
    function,
};

/// Raises CH003 unless the guard is off.
pub fn refuse_write(relation: Oid) {
    if settings::guard() {
        version::check().or_raise();
        if !tables::is_own() {
            restored::refusal().raise();
        }
        let name = tables::owner(relation)
            .map_or_else(|| catalog::display_name(relation), |t| t.name.clone());
        on_the_ledger(&name)
            .hint("Submit the statement with SELECT chainify.execute('...'), or SET chainify.writes = 'effects' to write by plain SQL.")
            .raise();
    }
}

fn on_the_ledger(table: &str) -> PgError {
    PgError::new(b"CH003", format!("table \"{table}\" is on the ledger"))
}

fn wanted() -> bool {
    match phase() {
        Phase::Internal | Phase::Own { .. } => false,
        Phase::Outside => settings::guard() || settings::refuse_stale_reads(),
        Phase::Client { .. } | Phase::Deploy | Phase::Plain => true,
    }
}

fn relation(relation: Oid, access: Access) {
    match phase() {
        Phase::Client { .. } | Phase::Deploy => {
            if let Some(refused) = relations::refusal(relation, access) {
                refused.of_a_name().raise();
            }
        }
        Phase::Outside if access == Access::Write && tables::owner(relation).is_some() => {
            refuse_write(relation)
        }
        // The table below a view comes by itself.
        Phase::Plain
            if access == Access::Write
                && tables::owner(relation).is_none()
                && !catalog::is_view(relation) =>
        {
            plain_sql::changes_locally(|| format!("table {}", catalog::display_name(relation)));
        }
        Phase::Outside | Phase::Plain if access == Access::Read => {
            plain_sql::reads_early(relation);
            stale_reads::refuse_read(relation);
        }
        _ => (),
    }
}

fn utility(statement: &Utility) {
    match phase() {
        // A function may try any command; only TRUNCATE and CALL are such of a ledger transaction.
        Phase::Client { .. } if statement.restarts_sequences => {
            not_allowed("TRUNCATE ... RESTART IDENTITY").raise()
        }
        Phase::Client { .. } if !(statement.is_truncate || statement.is_call) => {
            not_allowed(statement.command).raise()
        }
        // A command that a function called by a statement of a DEPLOY transaction tries.
        Phase::Deploy if !statement.part_of_another && deploy::statement_started() => {
            not_allowed(statement.command).raise()
        }
        Phase::Outside | Phase::Plain if !hooks::creating_extension() => {
            if statement.is_lock {
                kept_locks::note();
            }
            if !statement.leaves_nothing {
                changes_beside(statement.command);
            }
            let altered = statement.alters.and_then(tables::owner);
            refuse_ddl(altered.map(|t| t.name.clone()));
            if let Some(relation) = statement.alters {
                refuse_type_change(Oid::from(PG_CLASS), relation);
            }
            statement.locks.iter().for_each(|r| refuse_lock(*r));
            statement.copies.into_iter().for_each(reads::copied);
            if let Some(rights) = &statement.rights {
                definitions::refuse_rights(rights);
            }
        }
        _ => (),
    }
}

/// Functions that no query names (of CHECK constraints, domains, indexes, aggregates) come by here
/// alone.
fn function(function: Oid) {
    match phase() {
        Phase::Client { .. } | Phase::Deploy => determinism::execution(function),
        Phase::Outside | Phase::Plain => {
            if LOCKING.contains(&function.to_u32()) {
                kept_locks::note();
            }
            if let Some(name) = leaves_something(function) {
                changes_beside(name);
            }
        }
        _ => (),
    }
}

/// A command or function of an ordinary session changes something that is no row of a table.
fn changes_beside(name: &str) {
    match phase() {
        Phase::Plain => plain_sql::changes_locally(|| format!("what {name} changes")),
        _ => session_transaction::has_changed(),
    }
}

/// The name of a function of PostgreSQL's own that leaves something in its transaction and neither
/// writes to a table nor has a DDL event.
fn leaves_something(function: Oid) -> Option<&'static str> {
    match function.to_u32() {
        pg_sys::F_PG_NOTIFY => Some("pg_notify"),
        pg_sys::F_LOWRITE => Some("lowrite"),
        pg_sys::F_LO_PUT => Some("lo_put"),
        pg_sys::F_LO_TRUNCATE | pg_sys::F_LO_TRUNCATE64 => Some("lo_truncate"),
        PG_LOGICAL_EMIT_TEXT | PG_LOGICAL_EMIT_BYTES => Some("pg_logical_emit_message"),
        _ => None,
    }
}

/// A lock that keeps writers out would hold up the organisation's blocks for as long as its owner
/// likes. One on a view reaches the tables below it.
fn refuse_lock(relation: Oid) {
    let name = match tables::owner(relation) {
        Some(table) => table.name.clone(),
        None if catalog::is_view(relation) && !tables::all().is_empty() => {
            catalog::display_name(relation)
        }
        None => return,
    };
    PgError::new(b"CH003", format!("\"{name}\" cannot be locked in this mode"))
        .detail("It is on the ledger, or a view that may read such tables: blocks must not wait for sessions.")
        .hint("Use ROW EXCLUSIVE or a weaker mode.")
        .raise();
}

/// A type's definition is part of that of every table with values of it.
fn refuse_type_change(class: Oid, object: Oid) {
    let Some(changed) = catalog::type_of(class, object) else {
        return;
    };
    for (relation, table) in tables::all() {
        let columns = Relation::open(relation, Lock::AccessShare).columns();
        let uses = |c: &ColumnDef| catalog::type_contains(c.type_oid, changed);
        refuse_ddl(columns.iter().any(uses).then(|| table.name.clone()));
    }
}

/// A schema's name is part of its tables' names.
fn refuse_schema_change(schema: Oid) {
    let name = catalog::schema_name(schema).unwrap_or_default();
    refuse_own(
        relations::OWN_SCHEMAS
            .contains(&name.as_str())
            .then_some(name),
    );
    for (relation, table) in tables::all() {
        refuse_ddl((catalog::schema_of(relation) == schema).then(|| table.name.clone()));
    }
}

fn ddl(event: Ddl) {
    match phase() {
        Phase::Internal | Phase::Own { .. } => (),
        Phase::Deploy if event.change == Change::Truncate => not_allowed("TRUNCATE TABLE").raise(),
        Phase::Deploy => deploy::note(event),
        Phase::Client { .. } => match event.change {
            Change::Truncate if tables::owner(event.object).is_some() => (),
            Change::Truncate => relations::not_on_the_ledger(event.object)
                .of_a_name()
                .raise(),
            _ => not_allowed("changing database objects").raise(),
        },
        Phase::Outside | Phase::Plain => outside(event),
    }
}

/// DDL of an ordinary session.
fn outside(event: Ddl) {
    // The pg_class events of a rewrite (VACUUM FULL, CLUSTER) change no table's meaning. Without a
    // ledger, pg_restore makes what it had.
    if !settings::guard()
        || hooks::creating_extension()
        || !tables::is_own()
        || (event.internal && event.class == Oid::from(PG_CLASS))
    {
        return;
    }
    let plain = phase() == Phase::Plain;
    if event.change == Change::Truncate {
        match tables::owner(event.object) {
            Some(_) if !plain => refuse_write(event.object),
            None if plain => truncates_locally(event.object),
            _ => (),
        }
        return;
    }
    if let Some(parent) = Some(event.auxiliary).filter(|a| *a != Oid::INVALID) {
        refuse_ddl(tables::owner(parent).map(|t| t.name.clone()));
    }
    match (event.change, event.class) {
        (Change::Alter, catalog::SCHEMAS) => refuse_schema_change(event.object),
        (Change::Create | Change::Drop, class) if class != Oid::from(PG_CONSTRAINT) => (),
        (_, class) => refuse_type_change(class, event.object),
    }
    if event.class == Oid::from(PG_CLASS) {
        refuse_ddl(sequences::name_of(event.object));
    }
    definitions::refuse_change(event.class, event.object);
    if let Some((table, schema)) = catalog::table_of(event.class, event.object) {
        let own = relations::OWN_SCHEMAS.contains(&schema.as_str());
        refuse_own(own.then(|| match event.change {
            Change::Create => schema, // what is being made has no name yet that could be looked up
            _ => format!("{schema}.{}", catalog::display_name(table)),
        }));
        refuse_ddl(tables::owner(table).map(|t| t.name.clone()));
    }
    // Statements came by as such, but for those that EXPLAIN ANALYZE runs and functions in C.
    if plain {
        plain_sql::changes_locally(|| match event.class {
            catalog::LARGE_OBJECTS => "large objects".to_owned(),
            _ => "database objects".to_owned(),
        });
    }
}

fn truncates_locally(relation: Oid) {
    plain_sql::changes_locally(|| format!("table {}", catalog::display_name(relation)));
}

fn refuse_ddl(table: Option<String>) {
    if let Some(table) = table {
        on_the_ledger(&table)
            .detail("Its definition is agreed between the organisations.")
            .hint("Submit the statement with SELECT chainify.deploy('...'); what that does not take, change in every organisation between chainify.detach('...') and chainify.attach('...').")
            .raise();
    }
}

/// An object that the extension keeps for itself.
fn refuse_own(object: Option<String>) {
    if let Some(object) = object {
        PgError::new(b"CH003", format!("\"{object}\" belongs to the ledger"))
            .detail("Only the ledger changes what it keeps.")
            .raise();
    }
}
