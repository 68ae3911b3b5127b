//! Transactions of kind DEPLOY: definitions changed through the ledger, in every organisation at
//! the same place in the order.
//!
//! A statement runs as the client's role, with that role's rights, under the settings of a block.
//! An object that it creates, alters or grants on is under the ledger from then on: its definition
//! enters the state root (spec/formats.md, "Definitions"). `chainify_ledger.follow` and
//! `follow_tables` (extension/sql/36_deploy.sql) make the changes that have to follow in the
//! ledger's own tables (history, checkpoint, triggers, columns). They have the rights of the
//! extension's owner and call nothing that a client wrote.

use chainify_codec::{deploy_effects, Hash};
use chainify_rules::deploy::{
    dropped_as_well, not_on_ledger, refusal_of_all, values_of_row_type, Statement,
};
use pgrx::pg_sys::Oid;

use crate::definitions::deploy_checks;
use crate::ledger::known_definitions;
use crate::ledger::outcome::Outcome;
use crate::ledger::place::At;
use crate::ledger::running_state;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::relation::{ColumnDef, Lock, Relation};
use crate::pg::base::role::Role;
use crate::pg::base::spi::query;
use crate::pg::ddl::deploy_statements::{parse_definitions, Definition, Kind};
use crate::pg::ddl::targets::Address;
use crate::pg::hooks::{Change, Ddl};
use crate::pg::run::step::{enter, Step};
use crate::rules::determinism;
use crate::running::block_state::{block, Dropped};
use crate::sequences;

crate::pg::sql_function!(
    chainify_definitions_hash,
    pg_finfo_chainify_definitions_hash,
    definitions_hash
);

/// Begins a block: no DEPLOY transaction ran.
pub fn start() {
    block(|block| block.deploy_roots.take());
}

/// `tx_effects` of a block's transactions, those of DEPLOY transactions with the state they left
/// (spec/formats.md).
pub fn with_states(mut effects: Vec<Hash>, succeeded: &[bool]) -> Vec<Hash> {
    block(|block| {
        let states = block.deploy_roots.borrow();
        for (at, own) in effects
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| succeeded[*at])
        {
            if let Some(root) = states.get(&(at as u32)) {
                *own = deploy_effects(own, root);
            }
        }
    });
    effects
}

/// Whether the statement to be run had begun already (guard/writes.rs).
pub fn statement_started() -> bool {
    block(|block| block.started.replace(true))
}

/// Runs what changes definitions, or what is on the ledger; what has to be known of them afterwards
/// follows.
pub fn followed(at: At, run: impl FnOnce() -> Outcome) -> Outcome {
    let count = run()?;
    let root = attempt(running_state::current_state_root)?;
    block(|block| block.deploy_roots.borrow_mut().insert(at.tx, root));
    sequences::follow_tables(at.block, at.tx);
    Ok(count)
}

/// Runs SQL statements that change definitions. Returns their number. The caller's subtransaction
/// undoes all of it when one fails.
pub fn run(role: Role, sql: &str, at: At) -> Outcome {
    let definitions = parse_definitions(sql)?;
    let statements: Vec<Statement> = definitions.iter().map(statement).collect();
    if let Some(refusal) = refusal_of_all(&statements) {
        return Err(refusal.into());
    }
    determinism::before_transaction();
    let mut behind = false;
    let mut together = Together::default();
    for definition in &definitions {
        if behind && !leaves_rows(definition.kind) {
            together.follow(role, at)?;
            follow_tables(&[], at)?;
            behind = false;
        }
        behind |= run_one(role, definition, at, &mut together)?;
    }
    together.follow(role, at)?;
    if behind {
        follow_tables(&[], at)?;
    }
    attempt(|| query("SELECT chainify_ledger.refresh_definitions()", &[], |_| ()))?;
    Ok(definitions.len() as u64)
}

fn statement<'d>(definition: &'d Definition) -> Statement<'d> {
    Statement {
        command: &definition.command,
        kind: definition.kind,
        clauses: &definition.clauses,
    }
}

/// Whether a statement of this kind leaves rows and columns of tables as they are. Several such
/// statements are followed together: one looks at all partitions of a table.
fn leaves_rows(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::CreateTable
            | Kind::CreateIndex
            | Kind::CreateView
            | Kind::CreateFunction
            | Kind::CreateSchema
            | Kind::CreateType
            | Kind::CreateSequence
            | Kind::Grant
            | Kind::Comment
    )
}

/// Statements that ran one after the other and are followed and checked together: they made
/// partitions of tables on the ledger, or gave rights. None of them needs what follows from
/// another.
#[derive(Default)]
struct Together {
    made: Vec<Address>,
    targets: Vec<Address>,
    /// Those of both that are checked.
    checked: Vec<Address>,
    /// Those of both that may refer to what is temporary.
    touched: Vec<Address>,
    roles: Vec<String>,
}

impl Together {
    /// Whether the statement is of such a kind. A CREATE TABLE has a target when it makes a
    /// partition.
    fn takes(definition: &Definition, targets: &[Address]) -> bool {
        match definition.kind {
            Kind::Grant | Kind::Comment => true,
            Kind::CreateTable => !targets.is_empty(),
            _ => false,
        }
    }

    fn add(
        &mut self,
        roles: &[String],
        made: &[Address],
        targets: &[Address],
        changed: &[Address],
    ) {
        add(&mut self.made, made.iter());
        let others = targets.iter().filter(|t| !self.made.contains(t));
        add(&mut self.targets, others);
        let own = made.iter().filter(|m| !targets.contains(m));
        add(&mut self.checked, own.chain(changed));
        add(&mut self.touched, made.iter().chain(changed));
        self.roles.extend_from_slice(roles);
    }

    fn follow(&mut self, role: Role, at: At) -> Result<(), PgError> {
        let all = std::mem::take(self);
        if all.touched.is_empty() {
            return Ok(());
        }
        attempt(|| deploy_checks::temporary(&all.touched))??;
        follow(&all.roles, &all.made, &all.targets, at)?;
        attempt(|| deploy_checks::after(role, &all.checked, &[], &[]))?
    }
}

fn add<'a>(to: &mut Vec<Address>, objects: impl Iterator<Item = &'a Address>) {
    for object in objects {
        if !to.contains(object) {
            to.push(*object);
        }
    }
}

/// True: tables on the ledger are still to be followed.
fn run_one(
    role: Role,
    definition: &Definition,
    at: At,
    together: &mut Together,
) -> Result<bool, PgError> {
    let targets = role.run(|| definition.targets())?;
    let targets: Vec<Address> = targets.into_iter().map(whole).collect();
    for target in &targets {
        check_under_ledger(*target)?;
    }
    let joins = Together::takes(definition, &targets);
    if !joins {
        together.follow(role, at)?;
    }
    deploy_checks::before(role, definition, &targets)?;
    block(|block| block.started.set(false));
    deploy_checks::without_frozen_time(role, definition)?;
    let columns = deploy_checks::columns_of(&targets);
    let relations: Vec<Oid> = of_class(&targets, catalog::RELATIONS).collect();
    let sequences = definition.changes_sequences();
    if sequences {
        attempt(|| sequences::before_statement(&relations))?;
    }
    block(|block| {
        block.made.take();
        block.dropped.take();
        block.rewritten.take();
        block.started.set(false);
    });
    enter(Step::Deploy { role }, || definition.run())?;
    let (made, dropped) = block(|block| (block.made.take(), block.dropped.take()));
    if definition.kind == Kind::Comment {
        return Ok(false); // decides nothing
    }
    let made: Vec<Address> = made.into_iter().filter(|m| !is_row_type(*m)).collect();
    // A partition leaves the table that it is made of as it is.
    let kept = definition.kind == Kind::CreateTable;
    let changed: &[Address] = if kept { &[] } else { &targets };
    let mut anew = emptied(&dropped);
    anew.extend(attempt(written_anew)?);
    if joins && anew.is_empty() {
        together.add(&definition.roles, &made, &targets, changed);
        return Ok(true);
    }
    together.follow(role, at)?;
    let touched: Vec<Address> = made.iter().chain(changed).copied().collect();
    attempt(|| deploy_checks::temporary(&touched))??;
    let gone = dropped.iter().map(|d| d.object);
    let altered: Vec<Address> = targets.iter().copied().chain(gone).collect();
    follow(&definition.roles, &made, &altered, at)?;
    let behind = anew.is_empty() && leaves_rows(definition.kind);
    if !behind {
        follow_tables(&anew, at)?;
    }
    if sequences {
        attempt(|| sequences::after_statement(&relations, at.tx))?;
    }
    let checked: Vec<Address> = made
        .iter()
        .copied()
        .filter(|m| !targets.contains(m))
        .collect();
    attempt(|| deploy_checks::after(role, &checked, changed, &columns))??;
    Ok(behind)
}

fn of_class(objects: &[Address], class: Oid) -> impl Iterator<Item = Oid> + '_ {
    let of_class = objects.iter().filter(move |a| a.class == class);
    of_class.map(|a| a.object)
}

/// Partitioned tables that stay, without the rows of partitions that were dropped.
fn emptied(dropped: &[Dropped]) -> Vec<Oid> {
    let gone = |root: &Oid| dropped.iter().any(|d| d.object.object == *root);
    let roots = dropped.iter().filter_map(|d| d.root);
    roots.filter(|root| !gone(root)).collect()
}

/// Tables on the ledger of which the statement wrote rows anew.
///
/// Invariant X15: each of them starts a version, so that no row is other than agreed, whatever the
/// statement computed.
fn written_anew() -> Vec<Oid> {
    let rewritten = block(|block| block.rewritten.take());
    let on_ledger = rewritten
        .into_iter()
        .filter(|r| tables::owner(*r).is_some());
    on_ledger
        .map(|r| catalog::partition_root(r).unwrap_or(r))
        .collect()
}

/// The object as the ledger knows it: of an index, a constraint, a policy its table; of a domain's
/// constraint the domain.
fn whole(part: Address) -> Address {
    let of = |class, object| Address { class, object };
    let table = catalog::table_of(part.class, part.object);
    let table = table.map(|(table, _)| of(catalog::RELATIONS, table));
    let domain =
        || catalog::type_of(part.class, part.object).map(|domain| of(catalog::TYPES, domain));
    table.or_else(domain).unwrap_or(part)
}

/// A type that comes and goes with a table or another type, and is no object under the ledger.
fn is_row_type(object: Address) -> bool {
    object.class == catalog::TYPES && catalog::follows_its_table(object.class, object.object)
}

fn is_under_ledger(object: Address) -> bool {
    let relation = object.class == catalog::RELATIONS;
    relation
        && (tables::owner(object.object).is_some() || sequences::name_of(object.object).is_some())
        || known_definitions::knows(object)
}

/// Only what every organisation has the same can be changed in every organisation.
fn check_under_ledger(target: Address) -> Result<(), PgError> {
    if is_under_ledger(target) {
        return Ok(());
    }
    let mut name = String::new();
    let sql = "SELECT type || ' ' || identity FROM pg_catalog.pg_identify_object($1, $2, 0)";
    query(sql, &[cell(target.class), cell(target.object)], |row| {
        name = row.get::<String>(1).unwrap_or_default()
    });
    Err(not_on_ledger(&name).into())
}

fn follow(roles: &[String], made: &[Address], targets: &[Address], at: At) -> Result<(), PgError> {
    let classes = |list: &[Address]| list.iter().map(|a| a.class).collect::<Vec<Oid>>();
    let objects = |list: &[Address]| list.iter().map(|a| a.object).collect::<Vec<Oid>>();
    let args = [
        cell(classes(made)),
        cell(objects(made)),
        cell(classes(targets)),
        cell(objects(targets)),
        cell(roles.to_vec()),
        cell(at.block),
        cell(at.tx as i32),
    ];
    let sql = "SELECT chainify_ledger.follow($1, $2, $3, $4, $5, $6, $7)";
    attempt(|| query(sql, &args, |_| ())).map(drop)
}

fn follow_tables(anew: &[Oid], at: At) -> Result<(), PgError> {
    let args = [cell(anew.to_vec()), cell(at.block), cell(at.tx as i32)];
    let sql = "SELECT chainify_ledger.follow_tables($1, $2, $3)";
    attempt(|| query(sql, &args, |_| ())).map(drop)
}

/// A DDL event of the statement being run (guard/writes.rs): notes what it makes, drops and writes
/// anew. Raises CH004 for what it must not change.
pub fn note(event: Ddl) {
    let object = Address {
        class: event.class,
        object: event.object,
    };
    let relation = event.class == catalog::RELATIONS;
    if relation && event.column > 0 && matches!(event.change, Change::Create | Change::Drop) {
        refuse_other_rows(event.object);
    }
    match event.change {
        // PostgreSQL gives the relation the file of the new rows.
        Change::Alter if event.internal && relation => {
            block(|block| block.rewritten.borrow_mut().push(event.object))
        }
        _ if event.internal => {}
        Change::Create => note_made(object),
        Change::Drop => note_dropped(object, event.column),
        _ => {}
    }
}

/// A column comes or goes: values of the relation's row type would be others, in rows on the ledger
/// and in their history.
fn refuse_other_rows(changed: Oid) {
    let row_type = catalog::row_type(changed);
    for (holder, table) in tables::all() {
        let columns = Relation::open(holder, Lock::AccessShare).columns();
        let holds = |c: &&ColumnDef| catalog::type_contains(c.type_oid, row_type);
        if let Some(column) = columns.iter().find(holds) {
            let changed = catalog::display_name(changed);
            PgError::from(values_of_row_type(&changed, &table.name, &column.name)).raise();
        }
    }
}

fn note_made(made: Address) {
    // A view replaced by CREATE OR REPLACE has a new rule, and no event of its own.
    let made = whole(made);
    block(|block| {
        let mut all = block.made.borrow_mut();
        if !all.contains(&made) {
            all.push(made);
        }
    });
}

/// Objects that CASCADE reaches beside those named must be under the ledger as they are.
fn note_dropped(part: Address, column: i32) {
    let object = whole(part);
    if catalog::follows_its_table(object.class, object.object) {
        return;
    }
    if !is_under_ledger(object) {
        let named = if part.class == catalog::RULES {
            object
        } else {
            part
        };
        let what = catalog::description(named.class, named.object, column);
        PgError::from(dropped_as_well(&what)).raise();
    }
    if object != part || column != 0 {
        return; // a part of what stays, or goes by itself
    }
    let relation = object.class == catalog::RELATIONS;
    let root = relation.then(|| catalog::partition_root(object.object));
    let root = root.flatten();
    block(|block| block.dropped.borrow_mut().push(Dropped { object, root }));
}

/// `definitions_hash(kinds text[], identities text[], definitions text[])`, see spec/formats.md.
fn definitions_hash(call: &mut Call) -> Answer {
    let kinds: Vec<String> = call.required(0, "kinds");
    let identities: Vec<String> = call.required(1, "identities");
    let texts: Vec<String> = call.required(2, "definitions");
    if kinds.len() != texts.len() || identities.len() != texts.len() {
        PgError::new(b"22023", "arrays are not of one length").raise();
    }
    let all = kinds.iter().zip(&identities).zip(&texts);
    let hash = chainify_codec::definitions(
        all.map(|((kind, identity), text)| (kind.as_str(), identity.as_str(), text.as_str())),
    );
    call.value(&hash[..])
}
